//! What a level costs.

use std::sync::Arc;

use anabranch_pipeline::{Acting, Caller, ExecuteToolCalls, Executed, ToolStream, ToolYield};
use anabranch_proto::{EventKind, ToolChunk};
use anabranch_runtime::Read;
use futures::{StreamExt as _, future, stream};

use crate::{
    deltas::{Prebuilt, Speaker, Yields},
    measure::{Scale, in_turn, per_item, runtime},
    report::{Budget, Row, Unit},
    tools::{StreamTool, acting, caller, calls, chain, stamp},
};

/// From depth 1 to depth 5, in the pipeline alone and with agents in a session.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let events = scale.events;
    let mut shallow = || nested(1, events);
    let mut deep = || nested(5, events);
    let series = in_turn(scale.rounds, &mut [&mut deep, &mut shallow]);
    let pipeline = Row::new(
        "depth",
        "a level of the pipeline, depth 1 to 5",
        series.difference(0, 1) / 4.0,
        Unit::Nanos,
        Budget::AtMost(15.0),
    )
    .source("Arc<Event> of a text delta, made before; gate, tool and merge of each level")
    .beside("at depth 1", series.median(1), Unit::Nanos)
    .beside("at depth 5", series.median(0), Unit::Nanos);
    let mut shallow = || in_session(1, events);
    let mut deep = || in_session(5, events);
    let series = in_turn(scale.rounds, &mut [&mut deep, &mut shallow]);
    let session = Row::new(
        "depth",
        "a level of agents in a session, depth 1 to 5",
        series.difference(0, 1) / 4.0,
        Unit::Nanos,
        Budget::Shown,
    )
    .source("text deltas of a model at that depth; agents, processor, log and reader included")
    .beside("at depth 1", series.median(1), Unit::Nanos)
    .beside("at depth 5", series.median(0), Unit::Nanos);
    vec![pipeline, session]
}

/// What an event costs from a tool through so many levels of calls.
#[must_use]
pub fn nested(depth: usize, pieces: usize) -> f64 {
    let stamp = stamp();
    let caller = caller(&stamp);
    let acting = level(&caller, depth, pieces);
    per_item(pieces, || {
        let merged = ExecuteToolCalls::new(calls("level", 1), caller, &acting);
        let passed = runtime().block_on(merged.filter(|item| future::ready(is_delta(item))).count());
        assert_eq!(passed, pieces, "every event passes");
    })
}

/// What an event costs from a model at that depth to the reader of the session.
#[must_use]
pub fn in_session(depth: usize, pieces: usize) -> f64 {
    let agent = chain(depth, pieces);
    per_item(pieces, || {
        runtime().block_on(async {
            let read =
                agent.reply_stream("go").filter(|read| future::ready(is_read_delta(read))).count().await;
            assert!(read >= pieces, "every piece is read");
        });
    })
}

/// What `caller` calls, with so many levels below it, this one included: each level's tool announces a child and runs the
/// next level's call as that child. The events are made before the clock runs.
pub(crate) fn level(caller: &Arc<Caller>, depth: usize, pieces: usize) -> Acting {
    let call = "call_0".into();
    let speaker = Speaker::new(&caller.stamp, &caller.scope, &caller.session_id, &call);
    if depth == 1 {
        let events = std::sync::Mutex::new(Some(speaker.prebuilt(pieces)));
        return acting(StreamTool::new("level", move |_| -> ToolStream {
            let events: Prebuilt = events.lock().expect("nothing panics").take().expect("it is called once");
            Box::pin(Yields(events))
        }));
    }
    let child = Caller::new(speaker.session().clone(), caller.stamp.reply_id(), Arc::clone(&caller.stamp));
    let child = Arc::new(child.scope(speaker.scope()));
    let below = level(&child, depth - 1, pieces);
    acting(StreamTool::new("level", move |_| -> ToolStream {
        let spawn = ToolYield::Event(speaker.spawn());
        let inner = ExecuteToolCalls::new(calls("level", 1), Arc::clone(&child), &below);
        let inner = inner.map(|item| match item {
            Executed::Event(event) => ToolYield::Event(event),
            Executed::Response(..) => ToolYield::Chunk(ToolChunk::text("done").last()),
        });
        Box::pin(stream::iter([spawn]).chain(inner))
    }))
}

fn is_delta(item: &Executed) -> bool {
    matches!(item, Executed::Event(event) if matches!(event.kind, EventKind::TextBlockDelta(_)))
}

fn is_read_delta(read: &Read) -> bool {
    matches!(read, Read::Event(admitted) if matches!(admitted.event.kind, EventKind::TextBlockDelta(_)))
}
