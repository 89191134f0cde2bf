//! Tool to merged parent stream, in task.

use std::sync::Arc;

use anabranch_pipeline::{Caller, ExecuteToolCalls, Executed, ToolCall, ToolStream};
use anabranch_proto::{Scope, Stamp};
use futures::{StreamExt as _, stream};

use crate::{
    deltas::{AROUND, Live, Speaker, Yields},
    measure::{Scale, Series, in_turn, in_turn_beside, per_item, runtime},
    peers::Peers,
    report::{Budget, Row, Unit},
    tools::{StreamTool, acting, caller, calls, stamp},
};

/// How much cheaper an item is than agentscope's.
const TIMES_AGENTSCOPE: f64 = 100.0;

/// Four tools, as agentscope's baseline has them, and 64; and what others' items cost.
#[must_use]
pub fn rows(scale: Scale, peers: &mut Peers) -> Vec<Row> {
    let mut rows: Vec<_> = [4, 64].into_iter().map(|tools| row(scale, tools)).collect();
    let (tools, each) = (4, scale.events / 40);
    let question = format!("pass {tools} {each}");
    let mut others = peers.cases(&question);
    if others.is_empty() {
        rows.push(Row::absent("merge", "beside others' libraries", "none of them was asked"));
        return rows;
    }
    let mut ours = || passed(tools, each);
    let series = in_turn_beside(scale.rounds, &mut [&mut ours], &mut others);
    for (index, (name, _)) in others.iter().enumerate() {
        let budget = if name == "agentscope" { Budget::AtLeast(TIMES_AGENTSCOPE) } else { Budget::Shown };
        let what = format!("4 tools to one stream, times cheaper than {name}");
        rows.push(
            Row::new("merge", what, series.ratio(1 + index, 0), Unit::Times, budget)
                .source("CPU per item: ours an Arc<Event> made when polled, theirs what their tools yield or emit")
                .beside("ours", series.median(0), Unit::Nanos)
                .beside(name, series.median(1 + index), Unit::Nanos),
        );
    }
    rows
}

fn row(scale: Scale, tools: usize) -> Row {
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
}

/// What an event costs from so many streams through `SelectAll`.
#[must_use]
pub fn selected(tools: usize, each: usize) -> f64 {
    let total = tools * (each + AROUND);
    let streams = streams(&stamp(), tools, each);
    per_item(total, || {
        let passed = runtime().block_on(stream::select_all(streams).count());
        assert_eq!(passed, total, "all events pass");
    })
}

/// What an event costs from so many tools to their caller's stream.
#[must_use]
pub fn passed(tools: usize, each: usize) -> f64 {
    let total = tools * (each + AROUND);
    let caller = caller(&stamp());
    let calls = calls("talk", tools);
    per_item(total, || {
        let talk = StreamTool::new("talk", move |context| live(context.caller(), context.call_id(), each));
        let merged = ExecuteToolCalls::new(calls, caller, &acting(talk));
        let passed = runtime().block_on(merged.filter(is_childs).count());
        // The spawn is in the caller's scope.
        assert_eq!(passed, total - tools, "all events pass");
    })
}

/// Ours, `SelectAll` over the same streams, and the streams one after another without any merge.
#[must_use]
pub fn measure(scale: Scale, tools: usize) -> Series {
    let each = (scale.events / tools).max(1);
    let total = tools * (each + AROUND);
    let stamp = stamp();
    let mut ours = || passed(tools, each);
    let mut floor = || selected(tools, each);
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
