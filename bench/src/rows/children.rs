//! Many children against few.

use crate::{
    measure::{Scale, in_turn},
    report::{Budget, Row, Unit},
};

/// An event's cost at 10,000 children over that at 4, at the merged stream and in a session.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let scale = Scale { events: scale.events.max(100_000), rounds: scale.rounds.min(7) };
    let alone = |children: usize| move || super::merge::measure(scale.rounds(1), children);
    let (few, many) = (alone(4), alone(10_000));
    let mut floor = (Vec::new(), Vec::new());
    let mut ours = (Vec::new(), Vec::new());
    // Each measures its own floor beside it, so the turns are taken here.
    for _ in 0..scale.rounds {
        let (few, many) = (few(), many());
        ours.0.push(few.median(0));
        ours.1.push(many.median(0));
        floor.0.push(few.median(1));
        floor.1.push(many.median(1));
    }
    let ratio = |(few, many): &(Vec<f64>, Vec<f64>)| {
        crate::measure::median(few.iter().zip(many).map(|(few, many)| many / few).collect())
    };
    let middle = |values: &Vec<f64>| crate::measure::median(values.clone());
    let merged = Row::new(
        "children",
        "10,000 tools against 4, merged, live events",
        ratio(&ours),
        Unit::Times,
        Budget::AtMost(1.5),
    )
    .source("Arc<Event> of a text delta, made when polled; tools are always ready")
    .beside("at 4", middle(&ours.0), Unit::Nanos)
    .beside("at 10,000", middle(&ours.1), Unit::Nanos)
    .beside("SelectAll's ratio", ratio(&floor), Unit::Times);
    let mut few = || super::driver::session(4, scale.events / 4);
    let mut many = || super::driver::session(10_000, scale.events / 10_000);
    let series = in_turn(scale.rounds.min(5), &mut [&mut few, &mut many]);
    let whole = Row::new(
        "children",
        "10,000 children against 4, in a session, live events",
        series.ratio(1, 0),
        Unit::Times,
        Budget::Shown,
    )
    .source("Arc<Event> of a text delta; processor, log and reader included")
    .beside("at 4", series.median(0), Unit::Nanos)
    .beside("at 10,000", series.median(1), Unit::Nanos);
    vec![merged, whole]
}
