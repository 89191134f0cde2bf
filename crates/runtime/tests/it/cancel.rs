//! Stopping: deepest first, everything closed, nothing left alive.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{Event, EventKind, Outcome, Scope, ToolResultState};
use anabranch_runtime::{Agent, Limits, Read, ScriptedModel, SpawnSubagent, Turn};
use futures::StreamExt;

use crate::support::{Nothing, assert_well_formed, events, kind, master, node, own};

/// Counts what is alive.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

struct Guard(Arc<AtomicUsize>);

impl Alive {
    fn guard(&self) -> Guard {
        self.0.fetch_add(1, Ordering::SeqCst);
        Guard(Arc::clone(&self.0))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An agent whose only tool never ends.
fn hangs(alive: &Alive) -> Agent {
    let alive = alive.clone();
    let hang = FunctionTool::new("hang", "", move |_: Nothing, _| {
        let guard = alive.guard();
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok::<_, String>("")
        }
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().text("I begin.").call("hang", serde_json::json!({})));
    Agent::builder("worker", model).tool(hang).build()
}

/// A child that spawns one that never ends.
fn nested(alive: &Alive) -> Agent {
    let model = ScriptedModel::new("scripted").turn(|_| {
        Turn::new()
            .call("spawn_subagent", serde_json::json!({ "task": "deep", "metadata": { "node_id": "deep" } }))
    });
    let spawn = SpawnSubagent::new(hangs(alive)).named_by(|args| args.metadata_str("node_id"));
    Agent::builder("outer", model).tool(spawn).build()
}

/// Every terminal, in order: whose, and how it ended.
fn terminals(events: &[Arc<Event>]) -> Vec<(String, Outcome)> {
    events
        .iter()
        .filter_map(|event| {
            let EventKind::StreamComplete(complete) = &event.kind else { return None };
            let who =
                event.scope.child().map_or_else(|| ".".to_owned(), |child| child.source_name.to_string());
            Some((who, complete.outcome))
        })
        .collect()
}

#[tokio::test]
async fn cancelling_ends_the_deepest_first_and_each_as_interrupted() {
    let alive = Alive::default();
    let session = master(nested(&alive), vec![node("a", "n1"), node("b", "n2")]).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let mut seen = Vec::new();
    while alive.count() < 2 {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended early") };
        seen.push(admitted.event);
    }
    session.cancel();
    seen.extend(events(reply).await);

    let terminals = terminals(&seen);
    assert_eq!(terminals.len(), 5);
    assert!(terminals.iter().all(|(_, outcome)| *outcome == Outcome::Interrupted));
    assert_eq!(terminals[4].0, ".");
    let place = |who: &str| terminals.iter().position(|(name, _)| name == who).unwrap();
    assert!(place("deep") < place("n1").max(place("n2")));
    let ends =
        kind(&seen, |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None });
    assert_eq!(
        ends,
        [ToolResultState::Interrupted; 6],
        "a result for every call: 2 hangs, 2 inner spawns, 2 outer"
    );
    for end in
        kind(own(&seen), |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end) } else { None })
    {
        let keys: Vec<_> = end.response.iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            ["subagent_id", "child_session_id", "outcome", "node_id"],
            "programs are told on a cancel too"
        );
        assert_eq!(end.response.get_str("outcome").as_deref(), Some("interrupted"));
    }
    assert_eq!(alive.count(), 0);
    assert_eq!(session.children_running(), 0);
    // The session lives on.
    session.prompt("Again.").await.unwrap().cancel();
    session.close().await;
}

#[tokio::test]
async fn dropping_an_ephemeral_reply_stops_everything() {
    let alive = Alive::default();
    let mut reply = master(nested(&alive), vec![node("a", "n1")]).reply_stream("Go.");
    while alive.count() == 0 {
        reply.next().await.unwrap();
    }
    drop(reply);
    while alive.count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn dropping_a_sessions_reply_cancels_nothing_unless_it_is_told_to() {
    let model = ScriptedModel::from_fn("scripted", |_| Turn::new().text("a b c"));
    let session = Agent::builder("agent", model).build().session();
    drop(session.prompt("Go.").await.unwrap());
    let finished = session.prompt("Go on.").await.unwrap().finished().await.unwrap();
    assert_eq!(finished.outcome, Outcome::Completed);
    assert_eq!(session.messages().len(), 4, "the first prompt was answered too");

    let alive = Alive::default();
    let session = hangs(&alive).session();
    let reply = session.prompt("Go.").await.unwrap().cancel_on_drop();
    let reader = session.subscribe(0);
    while alive.count() == 0 {
        tokio::task::yield_now().await;
    }
    drop(reply);
    let first_terminal = reader.filter_map(|read| async move {
        let Read::Event(admitted) = read else { return None };
        if let EventKind::StreamComplete(complete) = &admitted.event.kind {
            Some(complete.outcome)
        } else {
            None
        }
    });
    assert_eq!(std::pin::pin!(first_terminal).next().await, Some(Outcome::Interrupted));
    assert_eq!(alive.count(), 0);
}

#[tokio::test]
async fn closing_ends_what_runs_and_then_every_reader() {
    let alive = Alive::default();
    let session = master(hangs(&alive), vec![node("a", "n1")]).session();
    let reply = session.prompt("Go.").await.unwrap();
    let queued = session.prompt("Later.").await.unwrap();
    let reader = session.subscribe(0);
    while alive.count() == 0 {
        tokio::task::yield_now().await;
    }
    session.close().await;
    assert_eq!(alive.count(), 0);
    let from_reply = events(reply).await;
    let from_reader = events(reader).await;
    assert_eq!(from_reply, from_reader, "the reader saw what the reply saw, and both ended");
    assert_eq!(
        terminals(&from_reply),
        [("n1".to_owned(), Outcome::Interrupted), (".".to_owned(), Outcome::Interrupted)]
    );
    assert!(queued.finished().await.is_err(), "a prompt that waited was not answered");
    assert!(session.prompt("Too late.").await.is_err());
}

#[tokio::test]
async fn a_reply_cancelled_before_its_turn_is_a_run_of_its_own_that_was_interrupted() {
    let alive = Alive::default();
    let session = hangs(&alive).session();
    let first = session.prompt("Go.").await.unwrap();
    let second = session.prompt("And then.").await.unwrap();
    second.cancel();
    first.cancel();
    for reply in [first, second] {
        let seen = events(reply).await;
        assert!(matches!(seen[0].kind, EventKind::UserMessage(_)));
        assert_eq!(terminals(&seen), [(".".to_owned(), Outcome::Interrupted)]);
    }
}

/// The driver may have had as many events as it takes at once just with a run's last one.
#[tokio::test(start_paused = true)]
async fn a_cancel_right_after_a_reply_stops_the_next_however_much_was_said() {
    for words in 0..40 {
        let model = ScriptedModel::from_fn("scripted", move |_| Turn::new().text("word ".repeat(words + 1)));
        let limits = Limits::default().reader_window(1_000);
        let session = Agent::builder("agent", model).limits(limits).build().session();
        let first = session.prompt("Go.").await.unwrap();
        let second = session.prompt("Go on.").await.unwrap();
        assert_eq!(first.finished().await.unwrap().outcome, Outcome::Completed);
        session.cancel();
        assert_eq!(second.finished().await.unwrap().outcome, Outcome::Interrupted, "{words}");
    }
}

/// Cancels a fixed tree after each number of events in turn: whatever was open then is closed.
#[tokio::test(start_paused = true)]
async fn at_every_position_a_cancel_leaves_nothing_open() {
    let agent = || {
        let worker = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().thinking("hm").text("I wait.").call("wait", serde_json::json!({})))
            .turn(|_| Turn::new().text("done"));
        let wait = FunctionTool::new("wait", "", |_: Nothing, context| async move {
            context.custom("progress", &1).await.ok();
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, String>("waited")
        });
        master(Agent::builder("worker", worker).tool(wait).build(), vec![node("a", "n1"), node("b", "n2")])
    };
    let total = events(agent().reply_stream("Go.")).await.len();
    assert!(total > 60);
    for position in 0..total {
        let session = agent().session();
        let mut reply = session.prompt("Go.").await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..position {
            let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended at {position}") };
            seen.push(admitted.event);
        }
        session.cancel();
        seen.extend(events(reply).await);
        assert_nothing_is_open(&seen, position);
        assert_eq!(session.children_running(), 0);
    }
}

fn assert_nothing_is_open(events: &[Arc<Event>], position: usize) {
    assert_well_formed(events);
    let spawned =
        kind(events, |kind| if let EventKind::SpawnSessionStart(spawn) = kind { Some(spawn) } else { None })
            .len();
    assert_eq!(terminals(events).len(), spawned + 1, "at {position}");
    assert!(matches!(events.last().unwrap().kind, EventKind::StreamComplete(_)), "at {position}");
    let count = |tag: &str| events.iter().filter(|event| event.kind.tag() == tag).count();
    for (start, end) in [
        ("REPLY_START", "REPLY_END"),
        ("MODEL_CALL_START", "MODEL_CALL_END"),
        ("TEXT_BLOCK_START", "TEXT_BLOCK_END"),
        ("THINKING_BLOCK_START", "THINKING_BLOCK_END"),
        ("TOOL_CALL_START", "TOOL_CALL_END"),
        ("TOOL_RESULT_START", "TOOL_RESULT_END"),
        ("TOOL_CALL_START", "TOOL_RESULT_END"),
    ] {
        assert_eq!(count(start), count(end), "{start} and {end}, at {position}");
    }
    let root_end = events
        .iter()
        .position(|event| event.scope == Scope::Root && matches!(event.kind, EventKind::StreamComplete(_)));
    assert_eq!(root_end, Some(events.len() - 1), "at {position}");
    assert!(own(events).count() > 0);
}
