//! What passing an event on allocates: nothing. A program of its own, since its allocator counts.

use std::{
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use anabranch_pipeline::{
    Acting, Caller, ExecuteToolCalls, Executed, Tool, ToolCall, ToolContext, ToolDefinition, ToolInvocation,
    ToolStream, ToolYield, Toolkit,
};
use anabranch_proto::{
    ChildScope, Event, Metadata, Scope, SpawnMechanism, Stamp, Timestamp, ToolChunk,
    event::{SpawnSessionStart, TextBlockDelta},
};
use futures::{Stream, StreamExt, stream};

struct Fixed;

impl Stamp for Fixed {
    fn unique(&self) -> [u8; 16] {
        [7; 16]
    }

    fn ascending(&self) -> [u8; 16] {
        [7; 16]
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(0, 0)
    }
}

/// A tool whose only call gives a stream that was made before.
struct Once {
    definition: ToolDefinition,
    stream: Mutex<Option<ToolStream>>,
}

impl Tool for Once {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(&self, _: ToolInvocation, _: ToolContext) -> ToolStream {
        self.stream.lock().unwrap().take().unwrap()
    }
}

/// The calls of `caller` whose one tool gives this stream.
fn calls(caller: &Arc<Caller>, stream: impl Stream<Item = ToolYield> + Send + 'static) -> ExecuteToolCalls {
    let definition = ToolDefinition::new("once", "", serde_json::json!({ "type": "object" }).into());
    let tool = Once { definition, stream: Mutex::new(Some(Box::pin(stream))) };
    let call = ToolCall::new("call", "once", "{}");
    ExecuteToolCalls::new([call], Arc::clone(caller), &Acting::new(Toolkit::new().with(tool)))
}

fn scope(depth: u32) -> Scope {
    let name = |depth: u32| format!("session {depth}");
    match depth {
        0 => Scope::Root,
        depth => ChildScope::new(name(depth), name(depth - 1), name(depth), "worker")
            .tool_call_id(anabranch_proto::ToolCallId::new("call"))
            .depth(depth)
            .into(),
    }
}

/// Calls within calls, down to a child at this depth that says so many pieces, all made before.
fn nested(depth: u32, pieces: usize) -> ExecuteToolCalls {
    let last = scope(depth);
    let piece = |_| {
        let kind = TextBlockDelta::new("reply", "block", "a few words ");
        let event = Event::stamped(&Fixed, last.clone(), Metadata::default(), kind);
        ToolYield::Event(Arc::new(event))
    };
    let pieces: Vec<_> = (0..pieces).map(piece).collect();
    let mut stream: ToolStream = Box::pin(stream::iter(pieces));
    for above in (0..depth).rev() {
        let child = scope(above + 1);
        let spawn = SpawnSessionStart::new(child.child().unwrap(), SpawnMechanism::Sync, "work");
        let spawn = Event::stamped(&Fixed, scope(above), Metadata::default(), spawn);
        let announced = stream::iter([ToolYield::Event(Arc::new(spawn))]).chain(stream);
        let session = format!("session {above}");
        let caller = Arc::new(Caller::new(session, "reply", Arc::new(Fixed)).scope(scope(above)));
        let calls = calls(&caller, announced);
        if above == 0 {
            return calls;
        }
        stream = Box::pin(calls.map(|item| match item {
            Executed::Event(event) => ToolYield::Event(event),
            Executed::Response(..) => ToolYield::Chunk(ToolChunk::text("done").last()),
        }));
    }
    panic!("a root has no parent");
}

#[test]
fn passing_an_event_through_five_levels_allocates_nothing() {
    const PIECES: usize = 10_000;
    let mut stream = pin!(nested(5, PIECES));
    let mut context = Context::from_waker(Waker::noop());
    let mut next = || loop {
        if let Poll::Ready(item) = Pin::new(&mut stream).poll_next(&mut context) {
            return item;
        }
    };
    let mut is_piece = || {
        let Some(Executed::Event(event)) = next() else { panic!("the calls have ended") };
        event.scope.depth() == 5
    };
    while !is_piece() {}
    let info = allocation_counter::measure(|| {
        for _ in 1..PIECES {
            assert!(is_piece());
        }
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}
