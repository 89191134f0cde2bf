//! Spawn, a reply of one turn, and the end.

use anabranch_proto::Outcome;
use anabranch_runtime::Agent;

use crate::{
    measure::{Scale, in_turn, per_item, runtime},
    peers::Peers,
    report::{Budget, Row, Unit},
    tools::{master, spawning},
};

/// From one child to 10,000, each in one turn of one master.
#[must_use]
pub fn rows(scale: Scale, peers: &mut Peers) -> Vec<Row> {
    let mut rows = Vec::new();
    for children in [1, 4, 64, 1_000, 10_000] {
        // As many children in all, however many at once.
        let times = (scale.events / 20 / children).clamp(1, 500);
        let agent = spawning(children);
        let mut ours = || replies(&agent, times, children);
        let idle = master("nothing", 0).build();
        let mut without = || replies(&idle, times, children);
        let series = in_turn(scale.rounds, &mut [&mut ours, &mut without]);
        let mut row = Row::new(
            "spawn",
            format!("spawn, one turn, end: {children} children"),
            series.difference(0, 1) / 1e3,
            Unit::Micros,
            Budget::AtMost(6.0),
        )
        .source(
            "CPU per child over a reply without any; scripted models, one word, the reply read to its end",
        )
        .beside("with the whole reply", series.median(0) / 1e3, Unit::Micros);
        for (name, cost) in peers.spawn(children, scale) {
            row = row.beside(name, cost / 1e3, Unit::Micros);
        }
        rows.push(row);
    }
    rows
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
