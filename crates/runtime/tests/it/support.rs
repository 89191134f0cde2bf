//! What the tests of this crate share.

use std::sync::Arc;

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{
    Event, EventKind, Metadata, Scope,
    grammar::{Profile, Verifier},
};
use anabranch_runtime::{Agent, Read, Reply, ScriptedModel, SpawnSubagent, Turn};
use futures::{Stream, StreamExt};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Text {
    pub(crate) text: String,
}

/// A tool that says what it is given.
pub(crate) fn echo() -> impl anabranch_pipeline::Tool {
    FunctionTool::new("echo", "Says it again.", |args: Text, _| async move { Ok::<_, String>(args.text) })
}

/// An agent that answers its only prompt with one text.
pub(crate) fn says(name: &str, text: &'static str) -> Agent {
    Agent::builder(name, ScriptedModel::new("scripted").turn(move |_| Turn::new().text(text))).build()
}

/// A call of `spawn_subagent` for a node.
pub(crate) fn node(task: &str, node: &str) -> serde_json::Value {
    serde_json::json!({ "task": task, "metadata": { "node_id": node } })
}

/// A master that makes its model's calls and then repeats the results, one a line.
pub(crate) fn master(worker: Agent, calls: Vec<serde_json::Value>) -> Agent {
    master_with(SpawnSubagent::new(worker).named_by(|args| args.metadata_str("node_id")), calls)
}

pub(crate) fn master_with(spawn: SpawnSubagent, calls: Vec<serde_json::Value>) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(move |_| calls.iter().fold(Turn::new(), |turn, call| turn.call("spawn_subagent", call)))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join("\n"))
        });
    Agent::builder("master", model).tool(spawn).build()
}

/// All events to the end of a stream, which is well-formed where it is whole; a gap is a failure.
pub(crate) async fn events(reads: impl Stream<Item = Read> + Unpin) -> Vec<Arc<Event>> {
    let events = events_as_they_are(reads).await;
    // Those that a test has read before by hand are missing here; what begins with the root's prompt is whole.
    let begins =
        |event: &Arc<Event>| event.scope == Scope::Root && matches!(event.kind, EventKind::UserMessage(_));
    if events.first().is_some_and(begins) {
        assert_well_formed(&events);
    }
    events
}

/// All events to the end of a stream whose producers may be wrong; a gap is a failure.
pub(crate) async fn events_as_they_are(mut reads: impl Stream<Item = Read> + Unpin) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    let mut seq = 0;
    while let Some(read) = reads.next().await {
        match read {
            Read::Event(admitted) => {
                assert!(seq == 0 || admitted.seq == seq + 1, "{} follows {seq}", admitted.seq);
                seq = admitted.seq;
                events.push(admitted.event);
            }
            Read::Gap { from, to } => panic!("events {from} to {to} are missing"),
        }
    }
    events
}

pub(crate) async fn reply_events(reply: Reply) -> Vec<Arc<Event>> {
    events(reply).await
}

/// The events obey every rule of a stream.
pub(crate) fn assert_well_formed(events: &[Arc<Event>]) {
    let mut verifier = Verifier::new(Profile::Native);
    for event in events {
        if let Err(violation) = verifier.check(event) {
            panic!("{violation}\n{}", outline(events).join("\n"));
        }
    }
    if let Err(violation) = verifier.finish() {
        panic!("{violation}\n{}", outline(events).join("\n"));
    }
}

/// Who did what, a line an event: `. REPLY_START`, `n1 TEXT_BLOCK_DELTA`.
pub(crate) fn outline(events: &[Arc<Event>]) -> Vec<String> {
    events
        .iter()
        .map(|event| {
            let who = event.scope.child().map_or(".", |child| &child.source_name);
            format!("{who} {}", event.kind.tag())
        })
        .collect()
}

pub(crate) fn of_child<'a>(events: &'a [Arc<Event>], name: &'a str) -> impl Iterator<Item = &'a Arc<Event>> {
    events.iter().filter(move |event| event.scope.child().is_some_and(|child| &*child.source_name == name))
}

pub(crate) fn own(events: &[Arc<Event>]) -> impl Iterator<Item = &Arc<Event>> {
    events.iter().filter(|event| event.scope == Scope::Root)
}

pub(crate) fn kind<'a, T>(
    events: impl IntoIterator<Item = &'a Arc<Event>>,
    pick: impl Fn(&'a EventKind) -> Option<T>,
) -> Vec<T> {
    events.into_iter().filter_map(|event| pick(&event.kind)).collect()
}

pub(crate) fn metadata(text: &str) -> Metadata {
    serde_json::from_str(text).unwrap()
}
