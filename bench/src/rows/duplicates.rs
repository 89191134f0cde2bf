//! The guard against duplicates.
//!
//! A processor has no switch that turns it off, and should have none. So the guard's own file is compiled here and
//! measured alone: looking an id up and putting it in, as the processor does for each event that it admits.

use anabranch_proto::{EventId, Stamp as _};
use anabranch_runtime::SystemStamp;

use crate::{
    measure::{Scale, in_turn, per_item},
    report::{Budget, Row, Unit},
};

#[cfg_attr(not(test), expect(dead_code, reason = "the session's own file; not all of it is measured"))]
#[path = "../../../crates/session/src/recent.rs"]
mod recent;

use recent::Recent;

/// Each event's part of it.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let stamp = SystemStamp::new();
    let ids: Vec<_> = (0..scale.events).map(|_| stamp.event_id()).collect();
    let mut guard = Recent::new();
    let mut with = || {
        per_item(ids.len(), || {
            let source = guard.root();
            for id in &ids {
                // A later turn meets ids that were forgotten: the window is shorter than the list.
                let fresh = guard.fresh(source, id).expect("no id of the last 4,096 is the same");
                guard.insert(fresh, id.clone());
            }
        })
    };
    let mut without = || {
        per_item(ids.len(), || {
            for id in &ids {
                std::hint::black_box(id.clone());
            }
        })
    };
    let series = in_turn(scale.rounds, &mut [&mut with, &mut without]);
    vec![
        Row::new(
            "duplicates",
            "the guard against duplicates, over none",
            series.difference(0, 1),
            Unit::Nanos,
            Budget::AtMost(15.0),
        )
        .source("ULIDs made before, 4,096 remembered; the guard's own file, compiled here")
        .beside("looked up and put in", series.median(0), Unit::Nanos)
        .beside("id copied alone", series.median(1), Unit::Nanos),
    ]
}

/// A guard that has seen more ids than it remembers, to be weighed.
#[must_use]
pub fn full() -> impl Sized {
    let stamp = SystemStamp::new();
    let mut guard = Recent::new();
    let source = guard.root();
    for _ in 0..20_000 {
        let id: EventId = stamp.event_id();
        let fresh = guard.fresh(source, &id).expect("ids differ");
        guard.insert(fresh, id);
    }
    guard
}
