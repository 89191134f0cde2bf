//! Who reads, reads late, leaves or never reads changes nothing of what happens.

use std::time::Duration;

use anabranch_proto::Outcome;
use anabranch_runtime::{Agent, Limits, ScriptedModel, SpawnSubagent, Turn};
use futures::StreamExt;

use super::terminals;
use crate::support::{events, master, node, of_child};

/// A master of two sub-agents that say so many words of 1 KiB.
fn master_of_two(words: usize, limits: Limits) -> Agent {
    let said = format!("{} ", "x".repeat(1023));
    let worker = ScriptedModel::from_fn("scripted", move |_| Turn::new().text(said.repeat(words)));
    let calls = [node("x", "n1"), node("x", "n2")];
    let model = ScriptedModel::new("scripted")
        .turn(move |_| calls.iter().fold(Turn::new(), |turn, call| turn.call("spawn_subagent", call)))
        .turn(|_| Turn::new().text("end"));
    let spawn = SpawnSubagent::new(Agent::builder("worker", worker).build())
        .named_by(|args| args.metadata_str("node_id"));
    Agent::builder("master", model).tool(spawn).limits(limits).build()
}

#[tokio::test]
async fn whoever_comes_late_has_every_event_of_every_child() {
    let worker = ScriptedModel::from_fn("scripted", |_| Turn::new().text("word ".repeat(2_000)));
    let agent = master(Agent::builder("worker", worker).build(), vec![node("x", "n1"), node("x", "n2")]);
    let session = agent.session();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    for name in ["n1", "n2"] {
        assert_eq!(of_child(&seen, name).count(), 2_008, "{name}");
    }
    let late = session.subscribe(0);
    session.close().await;
    assert_eq!(events(late).await, seen);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_holds_nobody_back_and_takes_nobody_with_it() {
    let limits = Limits::default().reader_window(8 * 1024).stall(Duration::from_secs(7));
    let session = master_of_two(64, limits).session();
    let mut leaves = session.subscribe_lossless(0);
    let stays = session.subscribe_lossless(0);
    let began = tokio::time::Instant::now();
    let reply = tokio::spawn(events(session.prompt("Go.").await.unwrap()));
    let stays = tokio::spawn(events(stays));
    for _ in 0..20 {
        assert!(leaves.next().await.is_some());
    }
    drop(leaves);
    let seen = reply.await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(terminals(&seen).last(), Some(&(".", Outcome::Completed)));
    session.close().await;
    assert_eq!(stays.await.unwrap(), seen);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_never_reads_is_waited_for_once_and_misses_nothing() {
    let limits = Limits::default().reader_window(8 * 1024).stall(Duration::from_secs(7));
    let session = master_of_two(64, limits).session();
    let never = session.subscribe_lossless(0);
    let began = tokio::time::Instant::now();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(began.elapsed(), Duration::from_secs(7));
    assert_eq!(terminals(&seen).last(), Some(&(".", Outcome::Completed)));
    let again = events(session.prompt("Again.").await.unwrap()).await;
    assert_eq!(began.elapsed(), Duration::from_secs(7), "it holds nobody back any more");
    session.close().await;
    assert_eq!(events(never).await, [seen, again].concat());
}
