//! How long tools may take.

use std::time::Duration;

use anabranch_pipeline::{FunctionTool, Tool};
use anabranch_proto::{EventKind, ToolChunk, ToolResultState};
use anabranch_runtime::{Agent, Permissions, Read, ScriptedModel, ToolTimeout, Turn};
use futures::StreamExt;
use serde_json::json;

use crate::support::{Nothing, assert_well_formed, events, kind, own, reply_events};

const SECOND: Duration = Duration::from_secs(1);

/// A tool that gives something, and the rest after a time.
fn slow(name: &'static str, seconds: u32) -> impl Tool {
    FunctionTool::new(name, "", move |_: Nothing, context| async move {
        context.send(ToolChunk::text("so far, ")).await.map_err(|error| error.to_string())?;
        tokio::time::sleep(SECOND * seconds).await;
        Ok::<_, String>("and the rest")
    })
}

fn agent(timeout: ToolTimeout, names: &'static [(&'static str, u32)]) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| names.iter().fold(Turn::new(), |turn, (name, _)| turn.call(*name, json!({}))))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join("; "))
        });
    let agent = Agent::builder("agent", model).layer(timeout);
    names.iter().fold(agent, |agent, (name, seconds)| agent.tool(slow(name, *seconds))).build()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_has_failed_and_keeps_what_it_gave() {
    let timeout = ToolTimeout::new(SECOND * 10).unwrap().tool("b", SECOND * 30).unwrap().except("c");
    let session = agent(timeout, &[("a", 20), ("b", 20), ("c", 2_000), ("d", 5)]).session();
    let start = tokio::time::Instant::now();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(start.elapsed(), SECOND * 2_000);
    let states = kind(own(&events), |kind| {
        if let EventKind::ToolResultEnd(end) = kind {
            Some((end.tool_call_id.to_string(), end.state))
        } else {
            None
        }
    });
    assert_eq!(
        states,
        [
            ("call_0_3".to_owned(), ToolResultState::Success),
            ("call_0_0".to_owned(), ToolResultState::Error),
            ("call_0_1".to_owned(), ToolResultState::Success),
            ("call_0_2".to_owned(), ToolResultState::Success),
        ]
    );
    assert_eq!(
        session.messages().last().unwrap().text(),
        "so far, \n`a` timed out after 10 s; so far, and the rest; so far, and the rest; so far, and the rest"
    );
}

// On real time: a paused clock stands still while anything is ready.
#[tokio::test]
async fn a_tool_that_is_always_ready_is_cut_too() {
    let chatter = FunctionTool::new("chatter", "", |_: Nothing, context| async move {
        loop {
            context.custom("tick", &()).await.map_err(|error| error.to_string())?;
            tokio::time::sleep(Duration::ZERO).await;
            if false {
                return Ok::<_, String>("");
            }
        }
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("chatter", json!({})))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let timeout = ToolTimeout::new(Duration::from_millis(20)).unwrap();
    let agent = Agent::builder("agent", model).tool(chatter).layer(timeout).build();
    let finished = agent.reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.text(), "`chatter` timed out after 0.02 s");
}

#[tokio::test(start_paused = true)]
async fn what_a_person_is_asked_before_takes_none_of_the_time() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("a", json!({})))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let agent = Agent::builder("agent", model)
        .tool(slow("a", 5))
        .layer(ToolTimeout::new(SECOND * 10).unwrap())
        .permissions(Permissions::new().ask("a"))
        .build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let mut seen = Vec::new();
    while session.questions().is_empty() {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended") };
        seen.push(admitted.event);
    }
    tokio::time::sleep(SECOND * 100).await;
    let question = session.questions().pop().unwrap();
    session.answer(&question.session_id, &question.call.id, anabranch_runtime::Answer::allow()).unwrap();
    seen.extend(events(reply).await);
    assert_well_formed(&seen);
    assert_eq!(session.messages().last().unwrap().text(), "so far, and the rest");
}

#[test]
fn a_time_of_nought_or_of_ages_is_refused() {
    for time in [Duration::ZERO, Duration::MAX] {
        ToolTimeout::new(time).unwrap_err();
        let error = ToolTimeout::new(SECOND).unwrap().tool("a", time).unwrap_err();
        assert!(error.to_string().starts_with("a time-out must be more than nought and at most 31536000 s"));
    }
}
