//! Further runs of children that have ended.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{Event, EventKind, Message, Outcome, ToolResultState};
use anabranch_runtime::{Agent, ResumeSubagent, ScriptedModel, Session, SpawnError, SpawnSubagent, Turn};
use serde_json::json;

use crate::support::{assert_well_formed, events_as_they_are, kind, of_child, own, reply_events, says};

/// An agent that says how many messages it has read, and the last.
fn counting() -> Agent {
    let model = ScriptedModel::from_fn("scripted", |request| {
        Turn::new().text(format!("{} read, now {}", request.messages.len(), request.prompt_text()))
    });
    Agent::builder("worker", model).build()
}

fn ids(events: &[Arc<Event>]) -> Vec<(String, String, u32, Option<String>)> {
    let mut ids = kind(events, |kind| {
        if let EventKind::SpawnSessionStart(spawn) = kind {
            let call = spawn.tool_call_id.as_ref().map(ToString::to_string);
            let subagent = spawn.subagent_id.as_ref().unwrap().to_string();
            Some((spawn.child_session_id.to_string(), subagent, spawn.run.unwrap(), call))
        } else {
            None
        }
    });
    ids.dedup();
    ids
}

#[tokio::test]
async fn a_model_goes_on_with_a_sub_agent_by_its_id_and_has_each_runs_result() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "first" })))
        .turn(|request| {
            let result = request.last_result_text();
            let id = result.split('`').nth(3).unwrap().to_owned();
            Turn::new().call("resume_subagent", json!({ "subagent_id": id, "message": "second" }))
        })
        .turn(|request| Turn::new().text(request.last_result_text()));
    let agent = Agent::builder("master", model)
        .tool(SpawnSubagent::new(counting()).resumable())
        .tool(ResumeSubagent::new())
        .build();
    let session = agent.session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    let text = session.messages().last().unwrap().text();
    assert!(
        text.starts_with("3 read, now second\n\n(To go on with this sub-agent, call `resume_subagent`"),
        "{text}"
    );
    let ids = ids(&events);
    assert_eq!(ids.len(), 2);
    assert_eq!((&ids[0].0, &ids[0].1), (&ids[1].0, &ids[1].1), "one session, one sub-agent");
    assert_eq!((ids[0].2, ids[1].2), (1, 2));
    assert_ne!(ids[0].3, ids[1].3, "each run is its own call's");
    // Each run has its own end, and its own result with the ids.
    let results = kind(own(&events), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { end.response.get_str("child_session_id") } else { None }
    });
    assert_eq!(results, [ids[0].0.clone(), ids[0].0.clone()]);
}

#[tokio::test]
async fn what_cannot_go_on_is_a_readable_error() {
    for (subagent, message, text) in [
        ("sa_none", "Go on.", "there is no sub-agent `sa_none` that could go on"),
        ("sa_none", " ", "`message` is empty"),
    ] {
        let model = ScriptedModel::new("scripted")
            .turn(move |_| {
                Turn::new().call("resume_subagent", json!({ "subagent_id": subagent, "message": message }))
            })
            .turn(|request| Turn::new().text(request.last_result_text()));
        let agent = Agent::builder("master", model).tool(ResumeSubagent::new()).build();
        let finished = agent.reply_stream("Go.").finished().await.unwrap();
        assert!(finished.text().starts_with(text), "{}", finished.text());
    }
}

#[tokio::test]
async fn nothing_is_kept_of_a_sub_agent_that_is_ephemeral() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "first" })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let session = Agent::builder("master", model).tool(SpawnSubagent::new(counting())).build().session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(
        session.messages().last().unwrap().text(),
        "1 read, now first",
        "its id is nothing to a model"
    );
    let child = ids(&events)[0].0.clone();
    let error = session.spawn_again(&child.as_str().into(), "second").await.unwrap_err();
    assert!(matches!(error, SpawnError::Argument(_)), "{error}");
    assert_eq!(session.children_running(), 0);
}

async fn whole(session: &Session) -> Vec<Arc<Event>> {
    session.close().await;
    let events = events_as_they_are(session.subscribe(0)).await;
    assert_well_formed(&events);
    events
}

#[tokio::test]
async fn code_goes_on_with_a_child_as_often_as_it_likes() {
    let session = says("master", "Yes.").session();
    let first = session.spawn(&counting(), "one").await.unwrap();
    let child = first.session_id().clone();
    assert_eq!(first.finished().await.unwrap().text(), "1 read, now one");
    for (run, text) in [(2, "3 read, now more"), (3, "5 read, now more")] {
        let again = session.spawn_again(&child, "more").await.unwrap();
        assert_eq!(again.finished().await.unwrap().text(), text, "run {run}");
    }
    let events = whole(&session).await;
    let runs: Vec<_> = ids(&events).into_iter().map(|(_, _, run, _)| run).collect();
    assert_eq!(runs, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_stopped_goes_on_from_what_it_had_said() {
    let model = ScriptedModel::from_fn("scripted", |request| {
        if request.messages.len() == 1 {
            return Turn::new().text("half of it").hang();
        }
        Turn::new().text(request.messages.iter().map(Message::text).collect::<Vec<_>>().join(" / "))
    });
    let worker = Agent::builder("worker", model).build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "Do it." })));
    let agent = Agent::builder("master", model).tool(SpawnSubagent::new(worker).resumable()).build();
    let session = agent.session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    reply.cancel();
    let events = reply_events(reply).await;
    let states =
        kind(
            own(&events),
            |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None },
        );
    assert_eq!(states, [ToolResultState::Interrupted]);
    let child = ids(&events)[0].0.clone();
    let again = session.spawn_again(&child.as_str().into(), "Go on.").await.unwrap();
    assert_eq!(again.finished().await.unwrap().text(), "Do it. / half of it / Go on.");
    let events = whole(&session).await;
    let ends = kind(of_child(&events, "worker"), |kind| {
        if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
    });
    assert_eq!(ends, [Outcome::Interrupted, Outcome::Completed]);
}
