//! A stop reaches the other side, and a message does.

use anabranch_proto::{ContentBlock, EventKind, Outcome, event::MessageOrigin};
use anabranch_runtime::{Agent, ModelRequest, ScriptedModel, SpawnSubagent, SteerError, TaskStatus, Turn};
use serde_json::json;

use super::support::{Here, SECOND, closed, ends, last_text, task, waits_for};
use crate::support::{echo, kind, node, of_child, reply_events};

fn hints(request: &ModelRequest) -> String {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let hint = |block: &ContentBlock| {
        if let ContentBlock::Hint(hint) = block { Some(hint.hint.text()) } else { None }
    };
    blocks.filter_map(hint).collect::<Vec<_>>().join(", ")
}

/// An agent that says something and then nothing, with a helper that does the same.
fn hangs() -> Agent {
    let helper = ScriptedModel::new("scripted").turn(|_| Turn::new().text("helping").hang());
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().text("begun").call("spawn_subagent", node("help", "h1")))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = SpawnSubagent::new(Agent::builder("helper", helper).build());
    Agent::builder("worker", model).tool(spawn.named_by(|args| args.metadata_str("node_id"))).build()
}

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Lets whatever was told to stop do so.
async fn settle(open: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if !open() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_a_child_elsewhere_stops_it_there() {
    for how in ["stop_task", "cancel_session", "cancel", "close"] {
        let before = alive();
        let runner = Here::new(hangs());
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "a", "background": true })))
            .turn(move |_| {
                let turn = Turn::new().wait(SECOND * 10);
                if how == "stop_task" {
                    turn.call("stop_task", json!({ "task_id": "task_1" }))
                } else {
                    turn.hang()
                }
            })
            .turn(|request| Turn::new().text(request.last_result_text()));
        let spawn = SpawnSubagent::on(runner.clone(), "worker");
        let session = Agent::builder("master", model).tool(spawn).task_tools().build().session();
        let reply = session.prompt("Go.").await.unwrap();
        tokio::time::sleep(SECOND * 5).await;
        assert_eq!(runner.open(), 1);
        match how {
            "cancel_session" => session.cancel_session(&session.tasks()[0].session_id).unwrap(),
            "cancel" => session.cancel(),
            "close" => session.close().await,
            _ => {}
        }
        tokio::time::sleep(SECOND * 10).await;
        assert_eq!(runner.open(), 0, "{how}");
        assert_eq!(session.tasks()[0].status, TaskStatus::Ended(Outcome::Interrupted), "{how}");
        let events = closed(&session).await;
        drop(reply);
        for name in ["worker", "h1"] {
            assert_eq!(ends(&events, name), [(Outcome::Interrupted, String::new())], "{name} by {how}");
        }
        if how == "stop_task" {
            assert!(last_text(&session).contains("begun"), "{}", last_text(&session));
        }
        drop(session);
        settle(|| alive() > before).await;
        assert_eq!(alive(), before, "{how}: nothing of the other side is left");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_below_a_child_elsewhere_can_be_stopped_alone() {
    let session = waits_for(SpawnSubagent::on(Here::new(hangs()), "worker"), task()).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 5).await;
    let helper =
        session.with_tree(|tree| tree.iter().find(|record| &*record.source_name == "h1").unwrap().id.clone());
    session.cancel_session(&helper).unwrap();
    reply_events(reply).await;
    let events = closed(&session).await;
    assert_eq!(ends(&events, "h1"), [(Outcome::Interrupted, String::new())]);
    assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())]);
    assert!(session.cancel_session(&helper).is_err());
}

/// An agent that waits, and then says what it was told meanwhile.
fn listens() -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().wait(SECOND * 10).call("echo", json!({ "text": "x" })))
        .turn(|request| Turn::new().text(hints(request)));
    Agent::builder("worker", model).tool(echo()).build()
}

#[tokio::test(start_paused = true)]
async fn messages_reach_a_child_elsewhere_in_order() {
    let session = waits_for(SpawnSubagent::on(Here::new(listens()), "worker"), task()).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 5).await;
    let child = session.tasks()[0].session_id.clone();
    for number in 0..20 {
        session.steer(&child, format!("{number}")).unwrap();
    }
    reply_events(reply).await;
    let all: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    assert!(last_text(&session).ends_with(&all.join(", ")), "{}", last_text(&session));
    let events = closed(&session).await;
    let origins = kind(of_child(&events, "n1"), |kind| {
        if let EventKind::UserMessage(message) = kind { Some(message.origin) } else { None }
    });
    assert_eq!(origins.len(), 21);
    assert!(origins[1..].iter().all(|origin| *origin == MessageOrigin::Steering));
    assert!(matches!(session.steer(&child, "more"), Err(SteerError::NotRunning(_))));
}

#[tokio::test(start_paused = true)]
async fn messages_reach_a_session_below_a_child_elsewhere() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", node("listen", "h1")))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = SpawnSubagent::new(listens()).named_by(|args| args.metadata_str("node_id"));
    let worker = Agent::builder("worker", model).tool(spawn).build();
    let session = waits_for(SpawnSubagent::on(Here::new(worker), "worker"), task()).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 5).await;
    let helper =
        session.with_tree(|tree| tree.iter().find(|record| &*record.source_name == "h1").unwrap().id.clone());
    session.steer(&helper, "left").unwrap();
    session.steer(&helper, "right").unwrap();
    reply_events(reply).await;
    assert!(last_text(&session).ends_with("left, right"), "{}", last_text(&session));
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_carries_nothing_says_so_to_whoever_wants_it_to() {
    let session = waits_for(SpawnSubagent::on(Here::deaf(listens()), "worker"), task()).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 5).await;
    let child = session.tasks()[0].session_id.clone();
    assert_eq!(session.steer(&child, "left"), Err(SteerError::Deaf));
    reply_events(reply).await;
    let events = closed(&session).await;
    // Its model had nothing to repeat, which is the other side's own failure.
    assert_eq!(ends(&events, "n1"), [(Outcome::Failed, "the model answered with nothing".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn where_messages_cannot_be_carried_stops_still_are() {
    let session = waits_for(SpawnSubagent::on(Here::without_messages(hangs()), "worker"), task()).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 5).await;
    let find = |name: &'static str| {
        session.with_tree(|tree| tree.iter().find(|record| &*record.source_name == name).unwrap().id.clone())
    };
    for name in ["n1", "h1"] {
        assert_eq!(session.steer(&find(name), "left"), Err(SteerError::Deaf), "{name}");
    }
    session.cancel_session(&find("h1")).unwrap();
    reply_events(reply).await;
    let events = closed(&session).await;
    assert_eq!(ends(&events, "h1"), [(Outcome::Interrupted, String::new())]);
    assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())]);
}
