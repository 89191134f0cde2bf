//! Many children against few.

use crate::{
    deltas::AROUND,
    measure::{Scale, in_turn},
    report::{Budget, Row, Unit},
};

/// An event's cost at 10,000 children over that at 4, at the merged stream and in a session.
///
/// Of two numbers of events for each child the difference is taken, so that what it costs to begin and to end a child is no
/// part of an event's cost.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let events = scale.events.max(100_000);
    let merged = compared(scale.rounds.min(7), events, super::merge::passed);
    let floor = compared(scale.rounds.min(7), events, super::merge::selected);
    let session = compared(scale.rounds.min(5), events, super::driver::session);
    let row = |what: &str, Compared { ratio, few, many }: Compared, budget| {
        Row::new("children", what, ratio, Unit::Times, budget).beside("at 4", few, Unit::Nanos).beside(
            "at 10,000",
            many,
            Unit::Nanos,
        )
    };
    vec![
        row("10,000 tools against 4, merged, live events", merged, Budget::AtMost(1.5))
            .source("Arc<Event> of a text delta, made when polled; tools are always ready")
            .beside("SelectAll's ratio", floor.ratio, Unit::Times),
        row("10,000 children against 4, in a session, live events", session, Budget::Shown)
            .source("Arc<Event> of a text delta; processor, log and reader included"),
    ]
}

/// An event's cost at few children and at many.
struct Compared {
    ratio: f64,
    few: f64,
    many: f64,
}

/// `cost` gives nanoseconds for each of all events of so many children with so many pieces each.
fn compared(rounds: usize, events: usize, cost: fn(usize, usize) -> f64) -> Compared {
    let mut few = || marginal(4, events, cost);
    let mut many = || marginal(10_000, events, cost);
    let series = in_turn(rounds, &mut [&mut many, &mut few]);
    Compared { ratio: series.ratio(0, 1), few: series.median(1), many: series.median(0) }
}

/// What an event more costs, nanoseconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a few millions at most")]
pub fn marginal(children: usize, events: usize, cost: fn(usize, usize) -> f64) -> f64 {
    let each = (events / children).max(10);
    let whole = |each: usize| cost(children, each) * (children * (each + AROUND)) as f64;
    (whole(3 * each) - whole(each)) / (2 * children * each) as f64
}
