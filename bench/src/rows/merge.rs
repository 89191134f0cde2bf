//! Tool to merged parent stream, in task.

use std::sync::Arc;

use anabranch_pipeline::{Caller, ExecuteToolCalls, Executed, ToolCall, ToolStream};
use anabranch_proto::{Scope, Stamp};
use futures::{StreamExt as _, stream};

use crate::{
    deltas::{AROUND, Live, Speaker, Yields},
    measure::{Scale, Series, in_turn, per_item, runtime},
    report::{Budget, Row, Unit},
    tools::{StreamTool, acting, caller, calls, stamp},
};

/// Four tools, as agentscope's baseline has them, and 64.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    [4, 64]
        .into_iter()
        .map(|tools| {
            let series = measure(scale, tools);
            Row::new(
                "merge",
                format!("{tools} tools to one stream, live events"),
                series.ratio(0, 1),
                Unit::Times,
                Budget::AtMost(0.9),
            )
            .source("Arc<Event> of a text delta, made when polled (id, time, text, metadata shared)")
            .beside("ours", series.median(0), Unit::Nanos)
            .beside("SelectAll", series.median(1), Unit::Nanos)
            .beside("making alone", series.median(2), Unit::Nanos)
        })
        .collect()
}

/// Ours, `SelectAll` over the same streams, and the streams one after another without any merge.
#[must_use]
pub fn measure(scale: Scale, tools: usize) -> Series {
    let each = (scale.events / tools).max(1);
    let total = tools * (each + AROUND);
    let stamp = stamp();
    let mut ours = || {
        let caller = caller(&stamp);
        let calls = calls("talk", tools);
        per_item(total, || {
            let talk =
                StreamTool::new("talk", move |context| live(context.caller(), context.call_id(), each));
            let merged = ExecuteToolCalls::new(calls, Arc::clone(&caller), &acting(talk));
            let passed = runtime().block_on(merged.filter(is_childs).count());
            // The spawn is in the caller's scope.
            assert_eq!(passed, total - tools, "all events pass");
        })
    };
    let mut floor = || {
        let streams = streams(&stamp, tools, each);
        per_item(total, || {
            let passed = runtime().block_on(stream::select_all(streams).count());
            assert_eq!(passed, total, "all events pass");
        })
    };
    let mut making = || {
        let streams = streams(&stamp, tools, each);
        per_item(total, || {
            let passed = runtime().block_on(stream::iter(streams).flatten().count());
            assert_eq!(passed, total, "all events pass");
        })
    };
    in_turn(scale.rounds, &mut [&mut ours, &mut floor, &mut making])
}

/// The events of a child of `caller`, as a tool's stream.
#[must_use]
pub fn live(caller: &Caller, call: &anabranch_proto::ToolCallId, pieces: usize) -> ToolStream {
    Box::pin(Yields(speaker(&caller.stamp, caller, call).live(pieces)))
}

fn speaker(stamp: &Arc<dyn Stamp>, caller: &Caller, call: &anabranch_proto::ToolCallId) -> Speaker {
    Speaker::new(stamp, &caller.scope, &caller.session_id, call)
}

/// The same streams as the tools give, without the pipeline.
pub(crate) fn streams(stamp: &Arc<dyn Stamp>, tools: usize, each: usize) -> Vec<ToolStream> {
    let caller = caller(stamp);
    let stream = |call: ToolCall| -> ToolStream {
        let live: Live = speaker(stamp, &caller, &call.id).live(each);
        Box::pin(Yields(live))
    };
    calls("talk", tools).into_iter().map(stream).collect()
}

fn is_childs(item: &Executed) -> std::future::Ready<bool> {
    std::future::ready(matches!(item, Executed::Event(event) if matches!(event.scope, Scope::Child(_))))
}
