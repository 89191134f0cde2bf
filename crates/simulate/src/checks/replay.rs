//! The log, given to a fresh processor.

use std::sync::Arc;

use anabranch_proto::{Stamp, Timestamp};
use anabranch_session::{EventProcessor, Limits, Status};

use super::{Story, ensure, requests};

/// Nothing is made in a replay, so nothing is stamped.
struct Unused;

impl Stamp for Unused {
    fn unique(&self) -> [u8; 16] {
        [0; 16]
    }

    fn ascending(&self) -> [u8; 16] {
        [0; 16]
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(0, 0)
    }
}

/// A fresh processor admits the log as it is, and comes to the same messages and the same tree.
pub(super) fn a_replay_admits_the_same(story: &Story<'_>) -> Result<(), String> {
    let limits = story.plan.limits;
    // As many as the runtime's own processor may have met before its limit hears of them.
    let bounds = Limits::default().max_depth(limits.depth).max_spawned(limits.spawned.saturating_add(64));
    let mut processor = EventProcessor::new(story.record.root.clone(), bounds);
    let mut out = Vec::new();
    for admitted in &story.record.log {
        out.clear();
        processor.process(Arc::clone(&admitted.event), &Unused, &mut out);
        ensure(out.len() == 1 && out.first() == Some(admitted), || {
            let tags: Vec<_> = out.iter().map(|admitted| admitted.event.kind.tag()).collect();
            format!("{} at {} became {tags:?}", admitted.event.kind.tag(), admitted.seq)
        })?;
    }
    let end = &story.record.end;
    ensure(processor.messages() == end.messages, || "a replay builds other messages".to_owned())?;
    ensure(requests::conversation(story) == end.messages, || {
        "the root's events build other messages".to_owned()
    })?;
    let tree: Vec<_> = processor
        .tree()
        .iter()
        .map(|record| {
            let outcome = if let Status::Ended(outcome) = record.status { Some(outcome) } else { None };
            (record.id.clone(), record.depth, record.runs, outcome)
        })
        .collect();
    // What ran in the background ended only after the last look.
    let is_same = tree.len() >= end.tree.len()
        && tree.iter().zip(&end.tree).all(|(replayed, seen)| {
            replayed == seen || (seen.3.is_none() && (&replayed.0, replayed.1) == (&seen.0, seen.1))
        });
    ensure(is_same, || format!("a replay builds the tree {tree:?} and not {:?}", end.tree))
}
