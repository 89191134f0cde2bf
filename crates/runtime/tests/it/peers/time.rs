//! A child's time is its own, whoever reads and whoever else works.

use std::time::Duration;

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{EventKind, Outcome};
use anabranch_runtime::{Agent, Limits, Read, Reader, ScriptedModel, SpawnSubagent, Turn};
use futures::StreamExt;

use super::{outcomes, report, terminals};
use crate::support::{Nothing, events, kind, of_child};

/// A master of one sub-agent that says so many words of about 1 KiB and then hangs until its time is up after 2 seconds.
fn master_of_one(words: usize, limits: Limits) -> Agent {
    let said = format!("{} ", "x".repeat(1023));
    let worker = ScriptedModel::from_fn("scripted", move |_| Turn::new().text(said.repeat(words)).hang());
    let call = serde_json::json!({ "task": "x", "timeout": 2 });
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", &call))
        .turn(|_| Turn::new().text("end"));
    let spawn = SpawnSubagent::new(Agent::builder("worker", worker).build());
    Agent::builder("master", model).tool(spawn).limits(limits).build()
}

/// Reads up to the child's end; how it ended, and when.
async fn childs_end(mut reader: Reader) -> (Outcome, Duration) {
    let began = tokio::time::Instant::now();
    loop {
        let Some(Read::Event(admitted)) = reader.next().await else { panic!("its end comes") };
        if let EventKind::StreamComplete(complete) = &admitted.event.kind {
            return (complete.outcome, began.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_reader_with_room_in_its_window_delays_no_time_out() {
    let session = master_of_one(64, Limits::default()).session();
    let _parked = session.prompt("Go.").await.unwrap();
    let end = childs_end(session.subscribe(0)).await;
    assert_eq!(end, (Outcome::TimedOut, Duration::from_secs(2)));
}

#[tokio::test(start_paused = true)]
async fn a_parked_reader_without_room_delays_a_time_out_by_the_stall_limit_at_most() {
    let limits = Limits::default().reader_window(16 * 1024).stall(Duration::from_secs(7));
    let session = master_of_one(64, limits).session();
    let parked = session.prompt("Go.").await.unwrap();
    let (outcome, after) = childs_end(session.subscribe(0)).await;
    assert_eq!(outcome, Outcome::TimedOut);
    assert!((2..=9).contains(&after.as_secs()), "{after:?}");
    let seen = events(parked).await;
    let said = kind(of_child(&seen, "worker"), |kind| {
        if let EventKind::TextBlockDelta(delta) = kind { Some(delta.delta.len()) } else { None }
    });
    assert_eq!(said.iter().sum::<usize>() % 1024, 0, "what it had said is there");
}

#[tokio::test(start_paused = true)]
async fn each_child_has_its_own_time_and_keeps_what_it_has_done() {
    let spawn = SpawnSubagent::choosing(|args| {
        let hangs = args.task == "hang";
        let model = ScriptedModel::new("scripted")
            .turn(move |_| {
                let turn = Turn::new().text("I begin. ").call("work", serde_json::json!({}));
                if hangs { turn.call("hang", serde_json::json!({})) } else { turn }
            })
            .turn(|_| Turn::new().wait(Duration::from_secs(3)).text("Done."));
        let work = FunctionTool::new("work", "", |_: Nothing, _| async { Ok::<_, String>("worked") });
        let hang =
            FunctionTool::new("hang", "", |_: Nothing, _| std::future::pending::<Result<String, String>>());
        Agent::builder("worker", model).tool(work).tool(hang).build()
    })
    .named_by(|args| args.metadata_str("node_id"));
    let call = |task: &str, timeout: u64, node: &str| serde_json::json!({ "task": task, "timeout": timeout, "metadata": { "node_id": node } });
    let calls = [call("hang", 2, "n1"), call("work", 10, "n2"), call("hang", 4, "n3")];
    let model = ScriptedModel::new("scripted")
        .turn(move |_| calls.iter().fold(Turn::new(), |turn, call| turn.call("spawn_subagent", call)))
        .turn(report);
    let session = Agent::builder("master", model).tool(spawn).build().session();
    let began = tokio::time::Instant::now();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(began.elapsed(), Duration::from_secs(4));
    assert_eq!(
        terminals(&seen),
        [
            ("n1", Outcome::TimedOut),
            ("n2", Outcome::Completed),
            ("n3", Outcome::TimedOut),
            (".", Outcome::Completed)
        ]
    );
    let message = session.messages().pop().unwrap();
    let timed_out = |seconds: u32| {
        format!("error: timed out after {seconds} s\n\nBefore that, the sub-agent said:\nI begin. ")
    };
    assert_eq!(message.text(), format!("{}\nsuccess: Done.\n{}", timed_out(2), timed_out(4)));
    // A result that was had is kept; the call that hung is closed.
    let results = kind(of_child(&seen, "n1"), |kind| {
        if let EventKind::ToolResultEnd(end) = kind {
            Some((end.tool_call_id.as_str(), end.state.as_str()))
        } else {
            None
        }
    });
    assert_eq!(results, [("call_0_0", "success"), ("call_0_1", "error")]);
    let outcomes = outcomes(&seen);
    assert_eq!(outcomes, ["timed_out", "completed", "timed_out"]);
}
