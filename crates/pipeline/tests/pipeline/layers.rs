//! Layers around a call.

use std::sync::{Arc, Mutex};

use anabranch_pipeline::{
    Acting, ActingLayer, ActingStream, CallItem, Executed, FunctionTool, Next, ToolCall, ToolContext, Toolkit,
};
use anabranch_proto::{Artifact, Metadata, ToolChunk, ToolResponse, ToolResultState};
use futures::{StreamExt, stream};

use crate::support::{
    Journal, Script, Step, acting, call, check_call, custom, last, lines, response, root_caller, run_call,
    run_calls, text,
};

fn layered<const N: usize>(steps: &[Step], layers: [Arc<dyn ActingLayer>; N]) -> Acting {
    acting([Script::new("a", steps.to_vec())]).layers(layers)
}

fn run<const N: usize>(steps: &[Step], layers: [Arc<dyn ActingLayer>; N]) -> Vec<Executed> {
    run_call(call("a"), &root_caller(), &layered(steps, layers))
}

/// Notes what passes.
struct Notes(&'static str, Journal);

impl ActingLayer for Notes {
    fn item(&self, call: &ToolCall, item: CallItem) -> CallItem {
        let what = match &item {
            CallItem::Chunk(_) => "chunk",
            CallItem::Event(_) => "event",
            CallItem::Response(_) => "response",
        };
        self.1.note(format!("{} {} {what}", self.0, call.id));
        item
    }
}

#[test]
fn the_first_layer_is_the_outermost() {
    let journal = Journal::default();
    let layers: [Arc<dyn ActingLayer>; 2] =
        [Arc::new(Notes("outer", journal.clone())), Arc::new(Notes("inner", journal.clone()))];
    let steps = [text("x"), Step::Event(custom("1")), Step::Emit(custom("2"))];
    let items = run(&steps, layers);
    assert_eq!(
        journal.lines(),
        [
            "inner a chunk",
            "outer a chunk",
            "inner a event",
            "outer a event",
            "inner a event",
            "outer a event",
            "inner a response",
            "outer a response"
        ]
    );
    assert_eq!(items, run(&steps, []));
}

/// Written before there were events: it looks at the response alone.
struct Old;

impl ActingLayer for Old {
    fn item(&self, _call: &ToolCall, item: CallItem) -> CallItem {
        if let CallItem::Response(mut response) = item {
            response.metadata = response.metadata.with("seen", true);
            return CallItem::Response(response);
        }
        item
    }
}

#[test]
fn a_layer_that_knows_nothing_of_events_forwards_them() {
    let event = custom("1");
    let items = run(&[Step::Event(Arc::clone(&event)), last("x")], [Arc::new(Old)]);
    let Executed::Event(passed) = &items[1] else { panic!("{items:?}") };
    assert!(Arc::ptr_eq(passed, &event));
    assert_eq!(check_call(&items).metadata.to_string(), r#"{"seen":true}"#);
}

/// Refuses a call without running it.
struct Refuses;

impl ActingLayer for Refuses {
    fn act(self: Arc<Self>, call: ToolCall, _context: ToolContext, next: Next) -> ActingStream {
        drop(next);
        let text = format!("`{}` is not allowed", call.name);
        let chunk = ToolChunk::text(&text).state(ToolResultState::Denied).last();
        let content = chunk.content.clone();
        let response = ToolResponse::new(ToolResultState::Denied, content, Metadata::default());
        ActingStream::boxed(stream::iter([CallItem::Chunk(chunk), CallItem::Response(response)]))
    }
}

#[test]
fn a_layer_can_refuse_a_call_before_its_tool_starts() {
    let journal = Journal::default();
    let tool = Script::new("a", [text("x")]).journal(&journal);
    let acting = acting([tool]).layers([Arc::new(Refuses) as Arc<dyn ActingLayer>]);
    let items = run_call(call("a"), &root_caller(), &acting);
    assert_eq!(check_call(&items).text(), "`a` is not allowed");
    assert_eq!(check_call(&items).state, ToolResultState::Denied);
    assert!(journal.lines().is_empty());
}

/// Runs a call once more when it fails, and gives on only what the last try says.
struct BufferedRetry;

impl ActingLayer for BufferedRetry {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let items = async move {
            let items: Vec<_> = next.clone().run(call.clone(), context.clone()).collect().await;
            match items.last() {
                Some(CallItem::Response(response)) if response.state == ToolResultState::Error => {
                    next.run(call, context).collect().await
                }
                _ => items,
            }
        };
        ActingStream::boxed(stream::once(items).flat_map(stream::iter))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[test]
fn a_layer_can_retry_a_call() {
    let tries = Arc::new(Mutex::new(0));
    let tool = {
        let tries = Arc::clone(&tries);
        FunctionTool::new("a", "", move |_: Nothing, context: ToolContext| {
            let tries = Arc::clone(&tries);
            async move {
                let number = {
                    let mut tries = tries.lock().unwrap();
                    *tries += 1;
                    *tries
                };
                context.emit(custom(&format!("try {number}"))).await.unwrap();
                context.artifact(Artifact::new(format!("{number}.csv"), "out", "text/csv"));
                if number == 1 { Err("try again") } else { Ok("done") }
            }
        })
    };
    let layers = [Arc::new(BufferedRetry) as Arc<dyn ActingLayer>];
    let acting = Acting::new(Toolkit::new().with(tool)).layers(layers);
    let items = run_call(call("a"), &root_caller(), &acting);
    assert_eq!(
        lines(&items),
        ["a start", "custom try 2", "a text \"done\"", "a end success", "a response success \"done\""]
    );
    assert_eq!(*tries.lock().unwrap(), 2);
    // Each try has its own files.
    let files = check_call(&items).metadata.get("files").unwrap().as_str();
    assert!(files.contains("2.csv") && !files.contains("1.csv"), "{files}");
}

/// Ends after some items, whatever they are.
struct EndsAfter(usize);

impl ActingLayer for EndsAfter {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        ActingStream::boxed(next.run(call, context).take(self.0))
    }
}

#[test]
fn a_layer_that_ends_without_a_response_has_lost_it() {
    let items = run(&[text("x"), Step::Event(custom("1")), text("y")], [Arc::new(EndsAfter(2))]);
    assert_eq!(lines(&items)[..3], ["a start", "a text \"x\"", "custom 1"]);
    let response = check_call(&items);
    assert_eq!(response.state, ToolResultState::Error);
    assert_eq!(response.text(), "x\na layer around `a` ended without a response");

    let items = run(&[text("x")], [Arc::new(EndsAfter(0))]);
    assert_eq!(check_call(&items).text(), "a layer around `a` ended without a response");
}

/// Panics at some point.
enum Panics {
    AtOnce,
    InItem(usize),
}

struct PanicsLayer(Panics, Mutex<usize>);

impl PanicsLayer {
    fn layer(panics: Panics) -> Arc<dyn ActingLayer> {
        Arc::new(Self(panics, Mutex::new(0)))
    }
}

impl ActingLayer for PanicsLayer {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        assert!(!matches!(self.0, Panics::AtOnce), "at once");
        let items = next.run(call.clone(), context);
        ActingStream::boxed(items.map(move |item| self.item(&call, item)))
    }

    fn item(&self, _call: &ToolCall, item: CallItem) -> CallItem {
        let seen = {
            let mut seen = self.1.lock().unwrap();
            *seen += 1;
            *seen - 1
        };
        assert!(!matches!(self.0, Panics::InItem(at) if at == seen), "at item {seen}");
        item
    }
}

#[test]
fn a_panic_in_a_layer_is_a_failure_and_what_came_before_is_kept() {
    let steps = [text("x"), Step::Event(custom("1")), text("y")];
    let text = |panics| {
        let items = run(&steps, [PanicsLayer::layer(panics)]);
        let response = check_call(&items);
        assert_eq!(response.state, ToolResultState::Error);
        response.text()
    };
    assert_eq!(text(Panics::AtOnce), "a layer around `a` panicked: at once");
    assert_eq!(text(Panics::InItem(0)), "a layer around `a` panicked: at item 0");
    assert_eq!(text(Panics::InItem(2)), "x\na layer around `a` panicked: at item 2");
    assert_eq!(text(Panics::InItem(3)), "xy\na layer around `a` panicked: at item 3");
}

#[test]
fn a_panic_in_a_layer_leaves_other_calls_alone() {
    let kit =
        [Script::new("a", [text("1"), Step::Yield, text("2")]), Script::new("b", [text("1"), text("2")])];
    let acting = acting(kit).layers([PanicsLayer::layer(Panics::InItem(1))]);
    let items = run_calls([call("a"), call("b")], &root_caller(), &acting);
    let ends: Vec<_> = lines(&items).into_iter().filter(|line| line.contains(" end ")).collect();
    assert_eq!(ends, ["b end error", "a end success"]);
}

/// Gives what it should not: items after the response, and a state that is no end.
struct Confused;

impl ActingLayer for Confused {
    fn act(self: Arc<Self>, _call: ToolCall, _context: ToolContext, _next: Next) -> ActingStream {
        let response = ToolResponse::new(ToolResultState::Running, vec![], Metadata::default());
        let items = [
            CallItem::Response(response.clone()),
            CallItem::Response(response),
            CallItem::Event(custom("1")),
        ];
        ActingStream::boxed(stream::iter(items))
    }
}

#[test]
fn a_call_has_one_final_response_whatever_a_layer_gives() {
    let items = run(&[], [Arc::new(Confused)]);
    assert_eq!(lines(&items), ["a start", "a end success", "a response success \"\""]);
    assert_eq!(response(&items).state, ToolResultState::Success);
}

/// Emits by its context, which has no queue.
struct Emits(Mutex<Option<bool>>);

impl ActingLayer for Emits {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let emitted = futures::FutureExt::now_or_never(context.emit(custom("layer")));
        *self.0.lock().unwrap() = emitted.map(|result| result.is_err());
        ActingStream::boxed(
            stream::iter([CallItem::Event(custom("by its stream"))]).chain(next.run(call, context)),
        )
    }
}

#[test]
fn a_layer_gives_events_by_its_stream() {
    let layer = Arc::new(Emits(Mutex::new(None)));
    let items = run(&[last("x")], [Arc::clone(&layer) as Arc<dyn ActingLayer>]);
    assert_eq!(lines(&items)[..2], ["a start", "custom by its stream"]);
    assert_eq!(*layer.0.lock().unwrap(), Some(true));
}
