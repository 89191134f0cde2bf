//! The streams of calls, poll by poll.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_pipeline::{
    Acting, ActingLayer, ActingStream, ExecuteToolCall, ExecuteToolCalls, Executed, FunctionTool, Next,
    ToolCall, ToolContext, Toolkit,
};
use futures::{
    Stream, StreamExt,
    stream::{self, FusedStream},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::support::{Script, WakeCounter, acting, call, poll, root_caller, text};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A tool that waits for a bell.
fn waiting(bell: &Arc<Notify>) -> Acting {
    let bell = Arc::clone(bell);
    let tool = FunctionTool::new("a", "", move |_: Nothing, _context| {
        let bell = Arc::clone(&bell);
        async move {
            bell.notified().await;
            Ok::<_, String>("done")
        }
    });
    Acting::new(Toolkit::new().with(tool))
}

/// Polls through a whole life: the start, pending, woken, the rest, the end, and after it.
fn check_life<S: FusedStream<Item = Executed> + Unpin>(mut stream: S, bell: &Notify) {
    let (counter, waker) = WakeCounter::pair();
    let poll = |stream: &mut S| Pin::new(stream).poll_next(&mut Context::from_waker(&waker));
    let is_event = |item: &_| matches!(item, Poll::Ready(Some(Executed::Event(_))));
    assert!(!stream.is_terminated());
    assert!(is_event(&poll(&mut stream)), "the start");
    assert_eq!(poll(&mut stream), Poll::Pending);
    assert_eq!(poll(&mut stream), Poll::Pending);
    assert_eq!(counter.count(), 0);
    bell.notify_one();
    assert_eq!(counter.count(), 1);
    assert!(is_event(&poll(&mut stream)), "the text");
    assert!(is_event(&poll(&mut stream)), "the end");
    assert!(!stream.is_terminated());
    assert!(matches!(poll(&mut stream), Poll::Ready(Some(Executed::Response(..)))));
    for _ in 0..3 {
        assert_eq!(poll(&mut stream), Poll::Ready(None));
        assert!(stream.is_terminated());
    }
    assert_eq!(stream.size_hint(), (0, Some(0)));
}

#[test]
fn one_call_is_polled_through_its_life_and_after() {
    let bell = Arc::new(Notify::new());
    check_life(ExecuteToolCall::new(call("a"), root_caller(), &waiting(&bell)), &bell);
}

#[test]
fn a_turns_calls_are_polled_through_their_life_and_after() {
    let bell = Arc::new(Notify::new());
    check_life(ExecuteToolCalls::new([call("a")], root_caller(), &waiting(&bell)), &bell);
}

/// Polls what it wraps after its end.
struct PollsAfterTheEnd;

impl ActingLayer for PollsAfterTheEnd {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let mut inner = next.run(call, context);
        let mut items = Vec::new();
        while let Poll::Ready(Some(item)) = poll(&mut inner) {
            items.push(item);
        }
        for _ in 0..3 {
            assert_eq!(poll(&mut inner), Poll::Ready(None));
            assert!(inner.is_terminated());
        }
        assert_eq!(inner.size_hint(), (0, Some(0)));
        // A stream that panics when it is polled after its end.
        ActingStream::boxed(
            stream::iter(items).chain(stream::once(async { panic!("polled too often") }).take(0)),
        )
    }
}

#[test]
fn what_lies_within_a_layer_can_be_polled_after_its_end() {
    let layer = || Arc::new(PollsAfterTheEnd) as Arc<dyn ActingLayer>;
    let acting = acting([Script::new("a", [text("x")])]).layers([layer(), layer()]);
    let items = crate::support::run_call(call("a"), &root_caller(), &acting);
    assert_eq!(crate::support::check_call(&items).text(), "x");
}

#[test]
fn streams_say_who_they_are() {
    let acting = acting([Script::new("a", [])]);
    let one = ExecuteToolCall::new(call("a"), root_caller(), &acting);
    assert_eq!(format!("{one:?}"), "ExecuteToolCall { call_id: ToolCallId(\"a\"), .. }");
    let all = ExecuteToolCalls::new([call("a")], root_caller(), &acting);
    assert_eq!(format!("{all:?}"), "ExecuteToolCalls { waiting: 1, running: 0, .. }");
}
