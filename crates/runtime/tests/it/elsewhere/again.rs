//! A child whose worker is lost, and that somebody else runs again.

use std::sync::Arc;

use anabranch_proto::{Event, EventKind, Outcome, event::MessageOrigin};
use anabranch_runtime::{Agent, Heard, ScriptedModel, SpawnSubagent, Turn};
use futures::{StreamExt, stream};
use serde_json::json;

use super::support::{Here, SECOND, all, ends, last_text, task, waits_for};
use crate::support::{echo, kind, node, of_child};

/// An agent that says something, calls a tool, has a helper, and says what came of it.
fn worker() -> Agent {
    let helper = ScriptedModel::new("scripted").turn(|_| Turn::new().wait(SECOND).text("helped"));
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().text("I begin.").call("echo", json!({ "text": "x" })))
        .turn(|_| Turn::new().thinking("How?").call("spawn_subagent", node("help", "h1")))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = SpawnSubagent::new(Agent::builder("helper", helper).build());
    let spawn = spawn.named_by(|args| args.metadata_str("node_id"));
    Agent::builder("worker", model).tool(echo()).tool(spawn).build()
}

fn prompts(events: &[Arc<Event>]) -> Vec<MessageOrigin> {
    kind(of_child(events, "n1"), |kind| {
        if let EventKind::UserMessage(message) = kind { Some(message.origin) } else { None }
    })
}

#[tokio::test(start_paused = true)]
async fn wherever_its_worker_is_lost_a_child_that_is_run_again_ends_once_and_well() {
    let mut met = Vec::new();
    for after in 0..40 {
        for times in [1, 2] {
            let session =
                waits_for(SpawnSubagent::on(Here::losing(worker(), after, times), "worker"), task())
                    .session();
            // The whole stream is held to the rules in here.
            let events = all(&session).await;
            assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())], "lost after {after}");
            assert_eq!(prompts(&events), [MessageOrigin::Parent], "lost after {after}");
            assert!(last_text(&session).ends_with("completed.\n\nhelped"), "{}", last_text(&session));
            let notes = kind(of_child(&events, "n1"), |kind| {
                let EventKind::Custom(note) = kind else { return None };
                Some((note.name.to_string(), note.value.to_string()))
            });
            let note = ("anabranch.run_again".to_owned(), r#"{"why":"its worker was lost"}"#.to_owned());
            let expected = if after == 0 { 0 } else { times as usize };
            assert_eq!(notes, vec![note; expected], "lost after {after}");
            met.extend(events.iter().map(|event| event.kind.tag().to_owned()));
        }
    }
    assert!(met.contains(&"TOOL_RESULT_END".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_runs_nothing_again_may_not_say_that_it_did() {
    let runner = Here::mangled(worker(), |stream| {
        stream.take(3).chain(stream::iter([Ok(Heard::again("lost"))])).chain(stream::pending()).boxed()
    });
    let session = waits_for(SpawnSubagent::on(runner, "worker"), task()).session();
    let events = all(&session).await;
    let error = "the runner runs nothing again, and said that it did";
    assert_eq!(ends(&events, "n1"), [(Outcome::Failed, error.to_owned())]);
}
