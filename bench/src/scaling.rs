//! Cost against number: what the plots show.

use crate::{
    measure::{Scale, median},
    plot::{Line, svg},
    rows::{self, depth, driver, linear, memory, merge, spawn},
};

/// A plot: its file's name and its text.
pub struct Plot {
    /// The name, without the ending.
    pub name: &'static str,
    /// The SVG.
    pub svg: String,
    /// The lines, for the file of numbers.
    pub lines: Vec<Line>,
}

/// Children, depth, deltas, and what idle sessions and children hold.
#[must_use]
pub fn plots(scale: Scale) -> Vec<Plot> {
    vec![children(scale), spawns(scale), levels(scale), deltas(scale), idle()]
}

fn spawns(scale: Scale) -> Plot {
    let counts = [1_usize, 4, 16, 64, 256, 1_000, 4_000, 10_000];
    let cost = |count| spawn::each(count, (scale.events / 20 / count).clamp(1, 500)) / 1e3;
    let ours = counts.map(|count| (number(count), thrice(|| cost(count)))).to_vec();
    let lines = vec![("whole reply".to_owned(), ours)];
    let svg = svg(
        "A child's cost by the number of children",
        "children in one turn",
        "µs of CPU per child",
        &lines,
    );
    Plot { name: "spawn", svg, lines }
}

fn idle() -> Plot {
    let lines = memory::points();
    let svg = svg("What an idle child and an idle session hold", "how many", "KiB each", &lines);
    Plot { name: "idle", svg, lines }
}

fn children(scale: Scale) -> Plot {
    let counts = [4_usize, 16, 64, 256, 1_000, 4_000, 10_000];
    let (mut ours, mut floor, mut session) = (Vec::new(), Vec::new(), Vec::new());
    for count in counts {
        let cost =
            |cost: fn(usize, usize) -> f64| thrice(|| rows::children::marginal(count, scale.events, cost));
        ours.push((number(count), cost(merge::passed)));
        floor.push((number(count), cost(merge::selected)));
        session.push((number(count), cost(driver::session)));
    }
    let lines = vec![
        ("merged".to_owned(), ours),
        ("SelectAll".to_owned(), floor),
        ("whole session".to_owned(), session),
    ];
    let svg = svg("An event's cost by the number of children", "children", "ns of CPU per event", &lines);
    Plot { name: "children", svg, lines }
}

fn levels(scale: Scale) -> Plot {
    let lines = vec![
        (
            "pipeline".to_owned(),
            (1..=5).map(|at| (number(at), thrice(|| depth::nested(at, scale.events)))).collect(),
        ),
        (
            "whole session".to_owned(),
            (1..=5).map(|at| (number(at), thrice(|| depth::in_session(at, scale.events)))).collect(),
        ),
    ];
    let svg = svg("An event's cost by depth", "depth", "ns of CPU per event", &lines);
    Plot { name: "depth", svg, lines }
}

fn deltas(scale: Scale) -> Plot {
    let most = if scale.events >= Scale::FULL.events { 6 } else { 5 };
    let lines: Vec<Line> = linear::CASES
        .iter()
        .map(|(name, cost)| {
            let points = (2..=most).map(|power| {
                let count = 10_usize.pow(power);
                (number(count), thrice(|| cost(count)))
            });
            ((*name).to_owned(), points.collect())
        })
        .collect();
    let svg = svg("A delta's cost by the number of deltas", "deltas", "ns of CPU per delta", &lines);
    Plot { name: "deltas", svg, lines }
}

fn thrice(mut cost: impl FnMut() -> f64) -> f64 {
    median((0..3).map(|_| cost()).collect())
}

#[expect(clippy::cast_precision_loss, reason = "a few millions at most")]
fn number(count: usize) -> f64 {
    count as f64
}
