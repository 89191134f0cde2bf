//! Limits hold at their borders in real runs, and a place comes back on every way out.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anabranch_pipeline::{ActingLayer, ActingStream, CallItem, FunctionTool, Next, ToolCall, ToolContext};
use anabranch_proto::{EventKind, Metadata, Outcome, ToolResponse, ToolResultState};
use anabranch_runtime::{Agent, Limits, Read, ScriptedModel, Spawn, SpawnSubagent, Turn};
use futures::{StreamExt, stream};

use super::{announced, report, terminals};
use crate::support::{Nothing, events, kind, says};

/// An agent that spawns one below it, which does so too, down to a leaf `levels` below; each says what it was told.
fn chain(levels: u32) -> Agent {
    if levels == 0 {
        return says("leaf", "leaf");
    }
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", serde_json::json!({ "task": "deeper" })))
        .turn(report);
    Agent::builder("link", model).tool(SpawnSubagent::new(chain(levels - 1))).build()
}

/// The root of a chain, with limits, and two calls at once.
fn root(levels: u32, limits: Limits) -> Agent {
    let call = serde_json::json!({ "task": "deeper" });
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", &call).call("spawn_subagent", &call))
        .turn(report);
    Agent::builder("root", model).tool(SpawnSubagent::new(chain(levels))).limits(limits).build()
}

#[tokio::test]
async fn a_limit_of_one_allows_a_child_and_refuses_its_child() {
    let deep = "error: a sub-agent here would be at depth 2, and the limit is 1; do the work yourself";
    let running = "error: 1 sub-agent is running, which is the limit; wait for it to end";
    let total =
        "error: 1 sub-agents have been spawned in this session, which is the limit; do the work yourself";
    let nested = |refusal: &str| format!("success: {refusal}");
    for (limits, children, told) in [
        (Limits::default().max_depth(1), 2, [nested(deep), nested(deep)]),
        (Limits::default().max_running(1), 1, [nested(running), running.to_owned()]),
        (Limits::default().max_spawned(1), 1, [nested(total), total.to_owned()]),
    ] {
        let session = root(1, limits).session();
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        assert_eq!(session.messages()[1].text(), told.join("\n"));
        assert_eq!(announced(&seen), children, "{limits:?}");
        assert!(terminals(&seen).iter().all(|(_, outcome)| *outcome == Outcome::Completed));
        assert_eq!(session.children_running(), 0);
    }
}

#[tokio::test]
async fn a_limit_of_nought_refuses_every_child() {
    for (limits, refusal) in [
        (
            Limits::default().max_depth(0),
            "a sub-agent here would be at depth 1, and the limit is 0; do the work yourself",
        ),
        (Limits::default().max_running(0), "no sub-agent may run here; do the work yourself"),
        (
            Limits::default().max_spawned(0),
            "0 sub-agents have been spawned in this session, which is the limit; do the work yourself",
        ),
    ] {
        let session = root(0, limits).session();
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        assert_eq!(session.messages()[1].text(), format!("error: {refusal}\nerror: {refusal}"));
        assert_eq!((announced(&seen), terminals(&seen)), (0, vec![(".", Outcome::Completed)]));
    }
}

#[tokio::test]
async fn depth_counts_through_real_nesting() {
    for limit in 0..5 {
        let agent = chain(6);
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("spawn_subagent", serde_json::json!({ "task": "deeper" })))
            .turn(report);
        let root = Agent::builder("root", model)
            .tool(SpawnSubagent::new(agent))
            .limits(Limits::default().max_depth(limit))
            .build();
        let session = root.session();
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        // Refused where it would have run, not only on the stream.
        let text = format!(
            "error: a sub-agent here would be at depth {}, and the limit is {limit}; do the work yourself",
            limit + 1
        );
        assert_eq!(session.messages()[1].text(), "success: ".repeat(limit as usize) + &text);
        assert_eq!(session.counters().refused_events, 0);
        let depths = kind(&seen, |kind| {
            if let EventKind::SpawnSessionStart(spawn) = kind { Some(spawn.depth) } else { None }
        });
        assert_eq!(depths, (1..=limit).collect::<Vec<_>>());
        let scopes = seen.iter().filter_map(|event| event.scope.child());
        assert_eq!(scopes.map(|scope| scope.depth).max().unwrap_or_default(), limit);
        for event in seen.iter().filter(|event| matches!(event.kind, EventKind::SpawnSessionStart(_))) {
            let told = event.metadata.get("max_depth").unwrap().to::<u32>().unwrap();
            assert_eq!(told, limit, "the limit that is told is the one that holds");
        }
    }
}

/// Ends a call after some of its items, which drops what runs in it.
struct Cuts(usize);

impl ActingLayer for Cuts {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let response = ToolResponse::new(ToolResultState::Denied, Vec::new(), Metadata::default());
        let items = next.run(call, context).take(self.0).chain(stream::iter([CallItem::Response(response)]));
        ActingStream::boxed(items)
    }
}

/// What ends a child that does not end by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Itself,
    Cancel,
    /// Its root's reader goes away.
    Drop,
    /// A layer ends its call.
    Layer,
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_however_a_child_ended() {
    let error = || anabranch_runtime::ModelError::new(anabranch_proto::ErrorType::UPSTREAM, "gone");
    for (turn, cause, outcome) in [
        (Turn::new().text("hi"), Cause::Itself, Outcome::Completed),
        (Turn::new().fail(error()), Cause::Itself, Outcome::Failed),
        (Turn::new().panic("at sea"), Cause::Itself, Outcome::Failed),
        (Turn::new().hang(), Cause::Itself, Outcome::TimedOut),
        (Turn::new().hang(), Cause::Cancel, Outcome::Interrupted),
        (Turn::new().hang(), Cause::Drop, Outcome::Interrupted),
        (Turn::new().hang(), Cause::Layer, Outcome::Failed),
    ] {
        let worker = ScriptedModel::from_fn("scripted", move |request| {
            if request.prompt_text() == "first" { turn.clone() } else { Turn::new().text("hi") }
        });
        let model = ScriptedModel::from_fn("scripted", move |request| {
            let task = if request.messages.len() == 1 { "first" } else { "second" };
            match request.turn {
                0 => Turn::new().call("spawn_subagent", serde_json::json!({ "task": task, "timeout": 5 })),
                _ => report(request),
            }
        });
        let mut builder = Agent::builder("master", model)
            .tool(SpawnSubagent::new(Agent::builder("worker", worker).build()))
            .limits(Limits::default().max_running(1));
        if cause == Cause::Layer {
            builder = builder.layer(Cuts(4));
        }
        let session = builder.build().session();
        let (mut watch, reader) = (session.subscribe(0), session.subscribe(0));
        let reply = session.prompt("Go.").await.unwrap().cancel_on_drop();
        while let Some(Read::Event(admitted)) = watch.next().await {
            // Not before it has a child to stop.
            if matches!(admitted.event.kind, EventKind::ModelCallStart(_))
                && admitted.event.scope.depth() == 1
            {
                break;
            }
        }
        match cause {
            Cause::Cancel => session.cancel(),
            Cause::Drop => drop(reply),
            Cause::Itself | Cause::Layer => assert!(reply.finished().await.is_ok()),
        }
        session.prompt("Again.").await.unwrap().finished().await.unwrap();
        assert_eq!(session.children_running(), 0);
        session.close().await;
        let seen = events(reader).await;
        assert_eq!(terminals(&seen)[0], ("worker", outcome), "{cause:?}");
        assert_eq!(announced(&seen), 2, "{cause:?} and {outcome}: then there is room for another");
    }
}

#[tokio::test]
async fn a_spawn_that_is_given_up_leaves_its_place() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let tool = FunctionTool::new("tries", "", move |_: Nothing, context| {
        let count = Arc::clone(&count);
        async move {
            for _ in 0..3 {
                drop(Spawn::new(&context, "never run", "Go.").map_err(|error| error.to_string())?);
                // Nor does one that is run and never polled.
                let spawn = Spawn::new(&context, "never polled", "Go.").map_err(|error| error.to_string())?;
                drop(spawn.run(&says("worker", "hi")));
                count.fetch_add(1, Ordering::SeqCst);
            }
            Ok::<_, String>("done")
        }
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("tries", serde_json::json!({})))
        .turn(report);
    let limits = Limits::default().max_running(1);
    let session = Agent::builder("agent", model).tool(tool).limits(limits).build().session();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!((announced(&seen), tries.load(Ordering::SeqCst), session.children_running()), (0, 3, 0));
}
