//! Driver, log and reader against one bounded channel.

use anabranch_runtime::{Agent, Read};
use futures::StreamExt as _;

use crate::{
    deltas::{AROUND, Speaker},
    floors::through,
    measure::{Scale, in_turn, in_turn_beside, per_item, runtime},
    peers::Peers,
    report::{Budget, Row, Unit},
    tools::{StreamTool, caller, master, stamp},
};

/// One child and 64; and an agent's own text, beside others'.
#[must_use]
pub fn rows(scale: Scale, peers: &mut Peers) -> Vec<Row> {
    let mut rows = budgets(scale);
    let pieces = scale.events / 10;
    let question = format!("stream {pieces}");
    let mut others = peers.cases(&question);
    let mut ours = || super::depth::in_session(0, pieces);
    let series = in_turn_beside(scale.rounds, &mut [&mut ours], &mut others);
    let row = Row::new(
        "driver",
        "a model's piece of text, to the reader of its agent",
        series.median(0),
        Unit::Nanos,
        Budget::Shown,
    )
    .source("CPU per piece of a reply of one turn, no children");
    rows.push(
        others
            .iter()
            .enumerate()
            .fold(row, |row, (index, (name, _))| row.beside(name, series.median(1 + index), Unit::Nanos)),
    );
    rows
}

fn budgets(scale: Scale) -> Vec<Row> {
    [1, 64]
        .into_iter()
        .map(|children| {
            let each = scale.events / children;
            let mut ours = || session(children, each);
            let mut floor = || channel(children, each);
            let mut moved = || {
                let event = speaker().piece();
                per_item(children * each, || {
                    runtime().block_on(through(children, each, move || std::sync::Arc::clone(&event)))
                })
            };
            let series = in_turn(scale.rounds, &mut [&mut ours, &mut floor, &mut moved]);
            Row::new(
                "driver",
                format!("a session, {children} children to a reader"),
                series.ratio(0, 1),
                Unit::Times,
                Budget::AtMost(3.0),
            )
            .source("Arc<Event> of a text delta, made when polled or sent")
            .beside("ours", series.median(0), Unit::Nanos)
            .beside("mpsc(256)", series.median(1), Unit::Nanos)
            .beside("mpsc(256) of one event, made before", series.median(2), Unit::Nanos)
        })
        .collect()
}

/// What an event costs from a tool through a whole session to its reader.
#[must_use]
pub fn session(children: usize, each: usize) -> f64 {
    let agent = talking(children, each);
    let total = children * (each + AROUND);
    per_item(total, || {
        runtime().block_on(async {
            let reply = agent.reply_stream("go");
            let read = reply.filter(|read| std::future::ready(is_childs(read))).count().await;
            assert_eq!(read, total - children, "every event is read");
        });
    })
}

/// An agent that calls so many tools in one turn, each of which has a child's events, made when polled.
pub(crate) fn talking(children: usize, each: usize) -> Agent {
    let talk =
        StreamTool::new("talk", move |context| super::merge::live(context.caller(), context.call_id(), each));
    master("talk", children).tool(talk).build()
}

fn is_childs(read: &Read) -> bool {
    matches!(read, Read::Event(admitted) if admitted.event.scope.depth() > 0)
}

fn channel(children: usize, each: usize) -> f64 {
    let speaker = speaker();
    per_item(children * each, || runtime().block_on(through(children, each, move || speaker.piece())))
}

fn speaker() -> Speaker {
    let stamp = stamp();
    let caller = caller(&stamp);
    Speaker::new(&stamp, &caller.scope, &caller.session_id, &"call_0".into())
}
