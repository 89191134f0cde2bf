//! Who can stop what: a token, a tool, a handle on one child.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{EventKind, Outcome, ToolResultState};
use anabranch_runtime::{
    Agent, NotRunning, Read, RunHandle, ScriptedModel, Session, Spawn, SpawnError, SpawnSubagent, Turn,
};
use futures::StreamExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Nothing, assert_well_formed, events, kind, master, master_with, node, of_child, own, reply_events, says,
};

/// An agent that says something and then hangs.
fn hangs() -> Agent {
    Agent::builder("hangs", ScriptedModel::new("scripted").turn(|_| Turn::new().text("so far").hang()))
        .build()
}

#[tokio::test]
async fn a_token_of_the_applications_stops_the_reply() {
    let token = CancellationToken::new();
    let session = master(hangs(), vec![node("a", "n1")]).session();
    let reply = session.prompt_until("Go.", &token).await.unwrap();
    token.cancel();
    let events = reply_events(reply).await;
    let Some(EventKind::StreamComplete(end)) = events.last().map(|event| &event.kind) else {
        panic!("no end")
    };
    assert_eq!(end.outcome, Outcome::Interrupted);
    // The token is nobody else's.
    let reply = session.prompt("Again.").await.unwrap();
    reply.cancel();
    reply.finished().await.unwrap();
    // A prompt on a token that was cancelled before still has its prompt and its end.
    let events = reply_events(session.prompt_until("Go.", &token).await.unwrap()).await;
    assert!(matches!(events.first().unwrap().kind, EventKind::UserMessage(_)));
}

#[tokio::test]
async fn closing_the_session_stops_a_reply_on_a_token_too() {
    let session = master(hangs(), vec![node("a", "n1")]).session();
    let mut reply = session.prompt_until("Go.", &CancellationToken::new()).await.unwrap();
    reply.next().await.unwrap();
    let (events, ()) = tokio::join!(events(reply), session.close());
    let Some(EventKind::StreamComplete(end)) = events.last().map(|event| &event.kind) else {
        panic!("no end")
    };
    assert_eq!(end.outcome, Outcome::Interrupted);
}

#[tokio::test]
async fn one_child_is_stopped_and_its_siblings_and_its_parent_go_on() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("hangs", node("a", "n1")).call("says", node("b", "n2")))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join(" + "))
        });
    let agent = Agent::builder("master", model)
        .tool(SpawnSubagent::new(hangs()).as_tool("hangs", ""))
        .tool(SpawnSubagent::new(says("says", "done")).as_tool("says", ""))
        .build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let mut seen = Vec::new();
    let child = loop {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended") };
        let child = admitted.event.scope.child().filter(|child| &*child.source_name == "hangs").cloned();
        let says = matches!(admitted.event.kind, EventKind::TextBlockDelta(_));
        seen.push(admitted.event);
        if let Some(child) = child.filter(|_| says) {
            break child;
        }
    };
    session.cancel_session(&child.child_session_id).unwrap();
    seen.extend(events(reply).await);
    assert_well_formed(&seen);
    assert_eq!(
        session.messages().last().unwrap().text(),
        "the sub-agent was stopped\n\nBefore that, the sub-agent said:\nso far + done"
    );
    let states =
        kind(
            own(&seen),
            |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None },
        );
    assert!(states.contains(&ToolResultState::Interrupted) && states.contains(&ToolResultState::Success));
    let session_id = child.child_session_id.clone();
    let error = session.cancel_session(&session_id).unwrap_err();
    assert!(matches!(error, NotRunning { session, .. } if session == session_id));
    assert_eq!(session.children_running(), 0);
}

/// A tool that stops its run, or the whole reply, and then hangs.
fn stops(whole: bool) -> impl anabranch_pipeline::Tool {
    FunctionTool::new("stop", "Stops.", move |_: Nothing, context| async move {
        let run = RunHandle::of(&context).unwrap();
        if whole {
            run.cancel_reply();
        } else {
            run.cancel();
        }
        assert!(run.is_stopping());
        // From here on nothing can be spawned.
        assert_eq!(Spawn::new(&context, "late", "Go.").unwrap_err(), SpawnError::Stopping);
        std::future::pending::<()>().await;
        Ok::<_, String>("")
    })
}

#[tokio::test]
async fn a_tool_stops_its_own_run_or_the_whole_reply() {
    for (whole, expected) in [(false, Outcome::Completed), (true, Outcome::Interrupted)] {
        let worker = ScriptedModel::new("scripted").turn(|_| Turn::new().call("stop", json!({})));
        let worker = Agent::builder("worker", worker).tool(stops(whole)).build();
        let events = reply_events(master(worker, vec![node("a", "n1")]).reply_stream("Go.")).await;
        let outcome = |event: &EventKind| {
            if let EventKind::StreamComplete(end) = event { Some(end.outcome) } else { None }
        };
        assert_eq!(kind(of_child(&events, "n1"), outcome), [Outcome::Interrupted]);
        assert_eq!(kind(own(&events), outcome), [expected]);
        let state =
            kind(
                own(&events),
                |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None },
            );
        assert_eq!(state, [ToolResultState::Interrupted]);
    }
}

#[tokio::test]
async fn a_time_out_of_nought_or_of_ages_is_refused() {
    let tool = FunctionTool::new("try", "", |_: Nothing, context| async move {
        for timeout in [Duration::ZERO, Duration::from_secs(366 * 86_400), Duration::MAX] {
            let spawn = Spawn::new(&context, "child", "Go.").map_err(|error| error.to_string())?;
            let error = spawn.timeout(timeout).map(drop).unwrap_err().to_string();
            assert!(error.starts_with("a time-out must be more than nought"), "{error}");
        }
        Ok::<_, String>("refused")
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("try", json!({})))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let session = Agent::builder("agent", model).tool(tool).build().session();
    assert_eq!(session.prompt("Go.").await.unwrap().finished().await.unwrap().text(), "refused");
    assert_eq!(session.children_running(), 0, "a refused spawn gives its place back");
    for timeout in [0, 86_401] {
        let call = json!({ "task": "a", "timeout": timeout });
        let finished = master(says("w", "x"), vec![call]).reply_stream("Go.").finished().await.unwrap();
        assert!(finished.text().starts_with("`timeout` must be 1 to 86400 seconds"), "{}", finished.text());
    }
}

/// Who stops what, from a tool that then ends as if nothing had happened.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    Run,
    Reply,
    Token,
    Session,
}

#[tokio::test]
async fn after_a_stop_no_call_and_no_turn_of_the_model_begins() {
    let stops = [Stop::Run, Stop::Reply, Stop::Token, Stop::Session];
    let places = ["root", "child", "child on its own task"];
    for (stop, place) in stops.into_iter().flat_map(|stop| places.map(|place| (stop, place))) {
        let begun = Arc::new(AtomicUsize::new(0));
        let token = CancellationToken::new();
        let session = Arc::new(OnceLock::<Session>::new());
        let (for_tool, its_token) = (Arc::clone(&session), token.clone());
        let stops = FunctionTool::new("stop", "Stops.", move |_: Nothing, context| {
            match stop {
                Stop::Run => RunHandle::of(&context).unwrap().cancel(),
                Stop::Reply => RunHandle::of(&context).unwrap().cancel_reply(),
                Stop::Token => its_token.cancel(),
                Stop::Session => for_tool.get().unwrap().cancel(),
            }
            async { Ok::<_, String>("stopped") }
        });
        let counted = Arc::clone(&begun);
        let delete = FunctionTool::new("delete", "Deletes.", move |_: Nothing, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, String>("deleted") }
        });
        let counted = Arc::clone(&begun);
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("stop", json!({})).call("delete", json!({})))
            .turn(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Turn::new().text("went on")
            });
        let worker = Agent::builder("worker", model).tool(stops.exclusive()).tool(delete.exclusive()).build();
        let deep = place != "root";
        let agent = match place {
            "root" => worker,
            "child" => master(worker, vec![node("a", "n1")]),
            _ => master_with(SpawnSubagent::new(worker).on_own_tasks(), vec![node("a", "n1")]),
        };
        let session = session.get_or_init(|| agent.session());
        let events = reply_events(session.prompt_until("Go.", &token).await.unwrap()).await;
        assert_eq!(begun.load(Ordering::SeqCst), 0, "{stop:?} of the {place}");
        let of_worker = events.iter().filter(|event| event.scope.child().is_some() == deep);
        let outcomes =
            kind(
                of_worker,
                |kind| {
                    if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
                },
            );
        // What a child on another task has said and its parent has not read goes with it, its beginning too.
        let is_heard = stop == Stop::Run || place != "child on its own task";
        assert!(outcomes.len() == 1 || !is_heard, "{stop:?} of the {place}");
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Interrupted), "{stop:?} of the {place}");
        let of_root = kind(own(&events), |kind| {
            if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
        });
        let expected = if deep && stop == Stop::Run { Outcome::Completed } else { Outcome::Interrupted };
        assert_eq!(of_root, [expected], "{stop:?} of the {place}");
    }
}
