//! Tools that block a thread.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use anabranch_proto::{EventKind, Outcome, ToolChunk, ToolResultState};
use anabranch_runtime::{Agent, BlockingTool, Read, ScriptedModel, Turn};
use futures::StreamExt;
use serde_json::json;

use crate::support::{Nothing, events, kind, outline, own, reply_events};

fn calling(tool: impl anabranch_pipeline::Tool + 'static) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("block", json!({})))
        .turn(|request| Turn::new().text(request.last_result_text()));
    Agent::builder("agent", model).tool(tool).build()
}

#[tokio::test]
async fn a_blocking_function_reports_gives_parts_and_returns() {
    let tool = BlockingTool::new("block", "", |_: Nothing, blocking| {
        blocking.custom("progress", &0.5).map_err(|error| error.to_string())?;
        blocking.send(ToolChunk::text("one, ")).map_err(|error| error.to_string())?;
        Ok::<_, String>("two")
    });
    let session = calling(tool).session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(session.messages().last().unwrap().text(), "one, two");
    assert!(outline(&events).contains(&". CUSTOM".to_owned()));
    assert_eq!(session.detached(), 0);
}

#[tokio::test]
async fn its_error_and_its_panic_are_results() {
    for (panics, text) in [(false, "no"), (true, "`block` panicked: oh")] {
        let tool = BlockingTool::new("block", "", move |_: Nothing, _| {
            assert!(!panics, "oh");
            Err::<String, _>("no")
        });
        let finished = calling(tool).reply_stream("Go.").finished().await.unwrap();
        assert_eq!(finished.text(), text);
    }
}

#[tokio::test]
async fn a_function_whose_call_is_stopped_is_told_and_counted_until_it_returns() {
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (begun, may_go_on) = (Mutex::new(begun), Mutex::new(may_go_on));
    let was_told = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&was_told);
    let tool = BlockingTool::new("block", "", move |_: Nothing, blocking| {
        begun.lock().unwrap().send(()).unwrap();
        may_go_on.lock().unwrap().recv().unwrap();
        told.store(blocking.is_stopped() && blocking.custom("late", &1).is_err(), Ordering::SeqCst);
        Ok::<_, String>("")
    });
    let session = calling(tool).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let mut seen = Vec::new();
    loop {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended") };
        let is_running = matches!(admitted.event.kind, EventKind::ToolResultStart(_));
        seen.push(admitted.event);
        if is_running {
            break;
        }
    }
    tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    reply.cancel();
    seen.extend(events(reply).await);
    let ends =
        kind(
            own(&seen),
            |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None },
        );
    assert_eq!(ends, [ToolResultState::Interrupted]);
    let Some(EventKind::StreamComplete(end)) = seen.last().map(|event| &event.kind) else { panic!("no end") };
    assert_eq!(end.outcome, Outcome::Interrupted);
    assert_eq!(session.detached(), 1);
    go_on.send(()).unwrap();
    // It returns on a thread of its own.
    for _ in 0..1_000 {
        if session.detached() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(session.detached(), 0);
    assert!(was_told.load(Ordering::SeqCst));
}
