//! Dropping a stream never panics, whatever the tools and layers behind it do when they are dropped.

use std::{panic::panic_any, sync::Arc, task::Poll};

use anabranch_pipeline::{
    Acting, ActingLayer, ActingStream, CallItem, CallTool, ExecuteToolCall, ExecuteToolCalls, Merge, Next,
    Tool, ToolCall, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield, Toolkit,
};
use anabranch_proto::{Json, ToolChunk};
use futures::{Stream, StreamExt, stream};

use crate::support::{Journal, StreamTool, call, check_call, drain, poll, root_caller};

/// Panics when it is dropped.
struct Bomb(Journal);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.note("drop");
        panic!("when dropped");
    }
}

/// A stream of these items that then waits, with a bomb in it.
fn armed<T>(journal: &Journal, items: Vec<T>) -> impl Stream<Item = T> + use<T> {
    let bomb = Bomb(journal.clone());
    stream::iter(items).chain(stream::pending()).inspect(move |_| {
        let _ = &bomb;
    })
}

fn tool(journal: &Journal) -> impl Tool + use<> {
    let journal = journal.clone();
    StreamTool::new("a", move |_context| armed(&journal, vec![ToolYield::Chunk(ToolChunk::text("x"))]))
}

/// Its stream panics when it is dropped.
struct Armed(Journal);

impl ActingLayer for Armed {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let bomb = Bomb(self.0.clone());
        ActingStream::boxed(next.run(call, context).inspect(move |_| {
            let _ = &bomb;
        }))
    }
}

fn acting(journal: &Journal, layers: usize) -> Acting {
    let layer = || Arc::new(Armed(journal.clone())) as Arc<dyn ActingLayer>;
    Acting::new(Toolkit::new().with(tool(journal))).layers((0..layers).map(|_| layer()))
}

#[test]
fn calls_that_are_dropped_midway_panic_neither_by_their_tool_nor_by_a_layer() {
    for layers in 0..=1 {
        for polls in 0..3 {
            let journal = Journal::default();
            let mut running = ExecuteToolCall::new(call("a"), root_caller(), &acting(&journal, layers));
            (0..polls).for_each(|_| drop(poll(&mut running)));
            drop(running);
            assert_eq!(journal.lines().len(), layers + 1, "{layers} layers, {polls} polls");

            let journal = Journal::default();
            let calls = ["1", "2", "3"].map(|id| ToolCall::new(id, "a", ""));
            let mut running = ExecuteToolCalls::new(calls, root_caller(), &acting(&journal, layers));
            (0..=polls).for_each(|_| drop(poll(&mut running)));
            drop(running);
            assert_eq!(journal.lines().len(), 3 * (layers + 1), "{layers} layers, {polls} polls");
        }
    }
    let journal = Journal::default();
    let mut running = CallTool::start(&call("a"), root_caller(), &Toolkit::new().with(tool(&journal)));
    assert!(poll(&mut running).is_ready());
    drop(running);
    assert_eq!(journal.lines().len(), 1);
}

/// Gives one item of what it wraps, which it then drops, and a response of its own.
struct Impatient;

impl ActingLayer for Impatient {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let mut inner = next.run(call, context);
        let Poll::Ready(Some(CallItem::Chunk(chunk))) = poll(&mut inner) else { panic!("no chunk") };
        drop(inner);
        let response = anabranch_proto::ToolResponse::new(
            anabranch_proto::ToolResultState::Success,
            chunk.content.clone(),
            anabranch_proto::Metadata::default(),
        );
        ActingStream::boxed(stream::iter([CallItem::Chunk(chunk), CallItem::Response(response)]))
    }
}

#[test]
fn a_layer_that_drops_what_it_wraps_is_not_taken_along() {
    let journal = Journal::default();
    let layers = [Arc::new(Impatient) as Arc<dyn ActingLayer>, Arc::new(Armed(journal.clone()))];
    let acting = Acting::new(Toolkit::new().with(tool(&journal))).layers(layers);
    let items = drain(ExecuteToolCall::new(call("a"), root_caller(), &acting));
    assert_eq!(check_call(&items).text(), "x");
    assert_eq!(journal.lines().len(), 2);
}

#[test]
fn merged_streams_are_all_dropped_whatever_each_does_when_it_is() {
    let journal = Journal::default();
    let mut merge = Merge::new();
    for number in 0..3 {
        merge.push(Box::pin(armed(&journal, vec![number])));
    }
    assert_eq!(poll(&mut merge), Poll::Ready(Some(0)));
    drop(merge);
    assert_eq!(journal.lines().len(), 3);
}

#[test]
fn a_merged_stream_that_panics_when_it_has_ended_leaves_the_others_running() {
    let journal = Journal::default();
    let ends = |number: i32| {
        let bomb = Bomb(journal.clone());
        Box::pin(stream::iter([number]).inspect(move |_| {
            let _ = &bomb;
        }))
    };
    let mut merge = Merge::new();
    merge.push(ends(1));
    merge.push(ends(2));
    assert_eq!(drain(&mut merge), [1, 2]);
    assert_eq!((merge.len(), journal.lines().len()), (0, 2));
    merge.push(ends(3));
    assert_eq!(drain(&mut merge), [3]);
}

/// A tool and a layer that panic when they themselves are dropped.
struct Last {
    definition: ToolDefinition,
    _bomb: Bomb,
}

impl Tool for Last {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(&self, _invocation: ToolInvocation, _context: ToolContext) -> ToolStream {
        Box::pin(stream::empty())
    }
}

impl ActingLayer for Bomb {}

#[test]
fn who_drops_the_last_of_a_toolkit_or_of_its_layers_does_not_panic() {
    let definition = ToolDefinition::new("a", "", Json::parse("{}").unwrap());
    let journal = Journal::default();
    let tool = Toolkit::new().with(Last { definition, _bomb: Bomb(journal.clone()) });
    let calls = ExecuteToolCalls::new([call("a")], root_caller(), &Acting::new(tool));
    assert_eq!(journal.lines().len(), 0);
    drop(calls);
    assert_eq!(journal.lines().len(), 1);

    let layer = Arc::new(Bomb(journal.clone())) as Arc<dyn ActingLayer>;
    let mut calls =
        ExecuteToolCalls::new([call("a")], root_caller(), &Acting::new(Toolkit::new()).layers([layer]));
    while let Poll::Ready(Some(_)) = poll(&mut calls) {}
    drop(calls);
    assert_eq!(journal.lines().len(), 2);
}

/// What is thrown panics too when it is dropped.
struct Grenade(Journal);

impl Drop for Grenade {
    fn drop(&mut self) {
        panic_any(Bomb(self.0.clone()));
    }
}

#[test]
fn a_panic_whose_value_panics_when_it_is_dropped_is_a_failure_like_another() {
    let journal = Journal::default();
    let tool = {
        let journal = journal.clone();
        StreamTool::new("a", move |_context| {
            let grenade = Grenade(journal.clone());
            stream::iter([ToolYield::Chunk(ToolChunk::text("x"))]).inspect(move |_| {
                let _ = &grenade;
            })
        })
    };
    let acting = Acting::new(Toolkit::new().with(tool));
    let items = drain(ExecuteToolCall::new(call("a"), root_caller(), &acting));
    assert_eq!(check_call(&items).text(), "x\n`a` panicked: no message");
    let mut running = ExecuteToolCall::new(call("a"), root_caller(), &acting);
    assert!(poll(&mut running).is_ready());
    drop(running);
}
