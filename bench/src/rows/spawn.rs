//! Spawn, a reply of one turn, and the end.

use anabranch_proto::Outcome;
use anabranch_runtime::Agent;

use crate::{
    measure::{Scale, in_turn_beside, per_item, runtime},
    peers::Peers,
    report::{Budget, Row, Unit},
    tools::{master, spawning},
};

/// The most children that others are asked for in one turn: one of them takes a second for a thousand.
const MOST_OF_PEERS: usize = 1_000;

/// From one child to 10,000, each in one turn of one master.
#[must_use]
pub fn rows(scale: Scale, peers: &mut Peers) -> Vec<Row> {
    [1, 4, 64, 1_000, 10_000].into_iter().map(|children| row(scale, peers, children)).collect()
}

fn row(scale: Scale, peers: &mut Peers, children: usize) -> Row {
    // As many children in all, however many at once.
    let times = (scale.events / 20 / children).clamp(1, 500);
    let agent = spawning(children);
    let mut ours = || replies(&agent, times, children);
    let idle = master("nothing", 0).build();
    let mut without = || replies(&idle, times, children);
    let question = format!("spawn {children} {}", (scale.events / 200 / children).clamp(1, 50));
    let mut others = if children <= MOST_OF_PEERS { peers.cases(&question) } else { Vec::new() };
    let series = in_turn_beside(scale.rounds, &mut [&mut ours, &mut without], &mut others);
    let row = Row::new(
        "spawn",
        format!("spawn, one turn, end: {children} children"),
        series.difference(0, 1) / 1e3,
        Unit::Micros,
        Budget::AtMost(6.0),
    )
    .source(
        "CPU per child over a reply without any; scripted models, one word, the reply read to its end. Others' have the \
         whole reply in it",
    )
    .beside("with the whole reply", series.median(0) / 1e3, Unit::Micros);
    others
        .iter()
        .enumerate()
        .fold(row, |row, (index, (name, _))| row.beside(name, series.median(2 + index) / 1e3, Unit::Micros))
}

/// What a child of so many costs in so many replies, nanoseconds of CPU.
#[must_use]
pub fn each(children: usize, times: usize) -> f64 {
    replies(&spawning(children), times, children)
}

/// What a child costs in so many replies of one agent.
fn replies(agent: &Agent, times: usize, children: usize) -> f64 {
    let runtime = runtime();
    per_item(times * children, || {
        for _ in 0..times {
            let run = runtime.block_on(async { agent.reply_stream("go").finished().await });
            assert_eq!(
                run.expect("the session ends in order").outcome,
                Outcome::Completed,
                "all children end well"
            );
        }
    })
}
