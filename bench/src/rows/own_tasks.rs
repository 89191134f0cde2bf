//! Children on tasks of their own, to the merged stream of their parent.

use std::sync::{Arc, Mutex};

use anabranch_pipeline::{ExecuteToolCalls, Executed, ToolContext, ToolStream, ToolYield};
use anabranch_proto::{
    Event, EventKind, FinishedReason, Metadata, Scope, Stamp, ToolChunk,
    event::{ReplyEnd, ReplyStart, TextBlockDelta, TextBlockEnd, TextBlockStart},
};
use anabranch_runtime::Spawn;
use futures::{Stream, StreamExt as _, stream};
use tokio::runtime::Runtime;

use crate::{
    deltas::PIECE,
    floors::through,
    measure::{Scale, cpu, in_turn, per_item, runtime},
    report::{Budget, Row, Unit},
    tools::{StreamTool, acting, calls, master, stamp},
};

/// 4 and 64 children, on one thread and on two.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let mut rows = Vec::new();
    for (threads, budget, make) in [
        ("one thread", Budget::AtMost(1.0), runtime as fn() -> Runtime),
        ("two threads", Budget::Shown, two_threads as fn() -> Runtime),
    ] {
        for children in [4, 64] {
            let each = scale.events / children;
            let stamp = stamp();
            let mut ours = || ours(make, children, each);
            let mut floor = || {
                let stamp = Arc::clone(&stamp);
                per_item(children * each, || {
                    let runtime = make();
                    // On a task, as a session's driver is.
                    let received = runtime.spawn(through(children, each, move || piece(&stamp)));
                    runtime.block_on(received).expect("nothing panics")
                })
            };
            let series = in_turn(scale.rounds, &mut [&mut ours, &mut floor]);
            rows.push(
                Row::new(
                    "own_tasks",
                    format!("{children} children on own tasks, {threads}"),
                    series.ratio(0, 1),
                    Unit::Times,
                    budget,
                )
                .source("Arc<Event> of a text delta, made on the child's task; to the parent's merged stream")
                .beside("ours", series.median(0), Unit::Nanos)
                .beside("mpsc(256)", series.median(1), Unit::Nanos),
            );
        }
    }
    rows
}

fn two_threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built")
}

/// Within a session, a tool runs calls of its own that spawn children, and reads their merged stream to its end.
fn ours(make: fn() -> Runtime, children: usize, each: usize) -> f64 {
    let cost = Arc::new(Mutex::new(0.0));
    let told = Arc::clone(&cost);
    let fan = StreamTool::new("fan", move |context| {
        let told = Arc::clone(&told);
        Box::pin(stream::once(async move {
            let talk = StreamTool::new("talk", move |context| child(&context, each));
            let caller = Arc::clone(context.caller());
            let merged = ExecuteToolCalls::new(calls("talk", children), caller, &acting(talk));
            let before = cpu();
            let passed = merged.filter(|item| std::future::ready(is_delta(item))).count().await;
            #[expect(clippy::cast_precision_loss, reason = "a few millions at most")]
            let per_event = (cpu() - before) / (children * each) as f64;
            assert_eq!(passed, children * each, "every event passes");
            *told.lock().expect("nothing panics") = per_event;
            ToolYield::Chunk(ToolChunk::text("done").last())
        }))
    });
    let agent = master("fan", 1).limits(crate::tools::limits(children)).tool(fan).build();
    make().block_on(async { agent.reply_stream("go").finished().await.expect("the session ends in order") });
    let cost = *cost.lock().expect("nothing panics");
    assert!(cost > 0.0, "the tool ran");
    cost
}

fn child(context: &ToolContext, pieces: usize) -> ToolStream {
    let stamp = Arc::clone(&context.caller().stamp);
    match Spawn::new(context, "worker", "Say a few words.") {
        Ok(spawn) => spawn.on_own_task().stream(reply(stamp, pieces)),
        Err(refused) => panic!("{refused}"),
    }
}

/// A reply as another agent loop gives it, in its own root's scope.
pub fn reply(stamp: Arc<dyn Stamp>, pieces: usize) -> impl Stream<Item = Arc<Event>> + Send + 'static {
    let around = |stamp: &Arc<dyn Stamp>, kind: EventKind| {
        Arc::new(Event::stamped(&**stamp, Scope::Root, Metadata::default(), kind))
    };
    let open = [
        around(&stamp, ReplyStart::new("foreign", "r", "worker").into()),
        around(&stamp, TextBlockStart::new("r", "b").into()),
    ];
    let close = [
        around(&stamp, TextBlockEnd::new("r", "b").into()),
        around(&stamp, ReplyEnd::new("foreign", "r", FinishedReason::Completed).into()),
    ];
    stream::iter(open.into_iter().chain((0..pieces).map(move |_| piece(&stamp))).chain(close))
}

fn piece(stamp: &Arc<dyn Stamp>) -> Arc<Event> {
    Arc::new(Event::stamped(&**stamp, Scope::Root, Metadata::default(), TextBlockDelta::new("r", "b", PIECE)))
}

fn is_delta(item: &Executed) -> bool {
    matches!(item, Executed::Event(event) if matches!(event.kind, EventKind::TextBlockDelta(_)))
}
