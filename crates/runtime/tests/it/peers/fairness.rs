//! Nobody's share of the stream or of the thread is another's.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{EventKind, Outcome};
use anabranch_runtime::{
    Agent, Limits, Model, ModelItem, ModelRequest, ModelStream, Read, ScriptedModel, SpawnSubagent, Turn,
};
use futures::{StreamExt, stream};

use super::{terminals, who};
use crate::support::{Nothing, echo, events, master_with, node, of_child};

#[tokio::test]
async fn a_fast_child_does_not_starve_a_slow_one() {
    let spawn = SpawnSubagent::choosing(|args| {
        let words: usize = args.task.parse().unwrap();
        let model = ScriptedModel::from_fn("scripted", move |_| Turn::new().text("word ".repeat(words)));
        Agent::builder("worker", model).build()
    })
    .named_by(|args| args.metadata_str("node_id"));
    let agent = master_with(spawn, vec![node("5000", "long"), node("20", "short")]);
    let seen = events(agent.reply_stream("Go.")).await;
    let end = seen
        .iter()
        .position(|event| who(event) == "short" && matches!(event.kind, EventKind::StreamComplete(_)))
        .unwrap();
    let (short, long) = (of_child(&seen[..=end], "short").count(), of_child(&seen[..=end], "long").count());
    assert!(short >= 25 && long.abs_diff(short) <= 2, "turn about: {short} and {long}");
}

/// A model that is always ready and never at its end.
struct Talks(String);

impl Model for Talks {
    fn name(&self) -> &str {
        &self.0
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        stream::repeat_with(|| Ok(ModelItem::Text("x".to_owned()))).boxed()
    }
}

/// A master of one that talks without end, and of one that uses a tool that sleeps.
fn master_of_both() -> Agent {
    let spawn = SpawnSubagent::choosing(|args| {
        if args.task == "talk" {
            let limits = Limits::default().model_output(usize::MAX);
            return Agent::builder("worker", Talks("talks".to_owned())).limits(limits).build();
        }
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("sleep", serde_json::json!({})))
            .turn(|_| Turn::new().text("awake"));
        let sleep = FunctionTool::new("sleep", "", |_: Nothing, _| async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, String>("slept")
        });
        Agent::builder("worker", model).tool(sleep).build()
    })
    .named_by(|args| args.metadata_str("node_id"));
    master_with(spawn, vec![node("talk", "talks"), node("sleep", "sleeps")])
}

#[tokio::test]
async fn a_child_that_is_always_ready_starves_neither_its_sibling_nor_timers() {
    let session = master_of_both().session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let mut seen = Vec::new();
    // The sibling's own timer, within the session's task.
    while terminals(&seen).is_empty() {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("the sibling ends") };
        seen.extend(matches!(admitted.event.kind, EventKind::StreamComplete(_)).then_some(admitted.event));
    }
    assert_eq!(terminals(&seen), [("sleeps", Outcome::Completed)]);
    // A timer of another task of the same thread, while nobody reads and so nobody holds the talk back.
    drop(reply);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(session.children_running(), 1, "it talks still");
    session.close().await;
    assert_eq!(session.children_running(), 0);
}

#[tokio::test]
async fn an_exclusive_tool_runs_alone_between_sub_agents() {
    let journal: Arc<Mutex<Vec<String>>> = Arc::default();
    let (of_worker, of_alone) = (Arc::clone(&journal), Arc::clone(&journal));
    let note = move |journal: &Arc<Mutex<Vec<String>>>, line: String| journal.lock().unwrap().push(line);
    let alone = FunctionTool::new("alone", "", move |_: Nothing, _| {
        let journal = Arc::clone(&of_alone);
        async move {
            note(&journal, "alone begins".to_owned());
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            note(&journal, "alone ends".to_owned());
            Ok::<_, String>("done")
        }
    });
    let spawn = SpawnSubagent::choosing(move |args| {
        let (journal, task) = (Arc::clone(&of_worker), args.task.clone());
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("echo", serde_json::json!({ "text": "x" })))
            .turn(move |_| {
                note(&journal, format!("{task} answers"));
                Turn::new().text("done")
            });
        Agent::builder("worker", model).tool(echo()).build()
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new()
                .call("spawn_subagent", node("a", "n1"))
                .call("spawn_subagent", node("b", "n2"))
                .call("alone", serde_json::json!({}))
                .call("spawn_subagent", node("c", "n3"))
        })
        .turn(super::report);
    let agent = Agent::builder("master", model).tool(spawn).tool(alone.exclusive()).build();
    let finished = agent.reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.text(), "success: done\nsuccess: done\nsuccess: done\nsuccess: done");
    let mut journal = journal.lock().unwrap().clone();
    journal[..2].sort_unstable();
    assert_eq!(journal, ["a answers", "b answers", "alone begins", "alone ends", "c answers"]);
}
