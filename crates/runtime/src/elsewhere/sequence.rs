//! What comes by an edge, in its producer's order.

use std::{collections::BTreeMap, sync::Arc};

use anabranch_proto::{Admitted, Event};

/// How many events wait for one before them.
const WAITING: usize = 1_024;

/// How many bytes they may have. One event passes whatever its size.
const BYTES: usize = 4 * 1024 * 1024;

/// Puts numbered events in order: one that comes again is dropped, one that comes too early waits for those before it.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// The number of the last event that was given.
    last: u64,
    early: BTreeMap<u64, Arc<Event>>,
    bytes: usize,
}

/// Events that did not come while as many came after them as may wait, or before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Sequence {
    /// Takes an event with its producer's number.
    pub(super) fn take(&mut self, numbered: Admitted) -> Result<(), Lost> {
        let Admitted { seq, event } = numbered;
        // What comes a second time is what came first.
        if seq <= self.last || self.early.contains_key(&seq) {
            return Ok(());
        }
        self.bytes += event.approximate_bytes();
        self.early.insert(seq, event);
        let is_next = self.early.first_key_value().is_some_and(|(first, _)| self.is_next(*first));
        if !is_next && (self.early.len() > WAITING || self.bytes > BYTES) {
            return self.end();
        }
        Ok(())
    }

    /// The next event, where it has come.
    pub(super) fn next(&mut self) -> Option<Arc<Event>> {
        let first = self.early.first_entry()?;
        if *first.key() != self.last.saturating_add(1) {
            return None;
        }
        let (seq, event) = first.remove_entry();
        self.last = seq;
        self.bytes -= event.approximate_bytes();
        Some(event)
    }

    /// Nothing more comes: what is missing is lost.
    pub(super) fn end(&self) -> Result<(), Lost> {
        match self.early.first_key_value() {
            Some((first, _)) if !self.is_next(*first) => {
                Err(Lost { from: self.last.saturating_add(1), to: first - 1 })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn is_next(&self, seq: u64) -> bool {
        seq == self.last.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::{Metadata, Scope, Timestamp, event::TextBlockDelta};
    use proptest::prelude::*;

    use super::*;

    fn numbered(seq: u64, bytes: usize) -> Admitted {
        let kind = TextBlockDelta::new("r", "b", "x".repeat(bytes));
        let event =
            Event::new(&*seq.to_string(), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), kind);
        Admitted::new(seq, Arc::new(event))
    }

    fn given(sequence: &mut Sequence) -> Vec<String> {
        std::iter::from_fn(|| sequence.next()).map(|event| event.id.to_string()).collect()
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut sequence = Sequence::default();
        for seq in [1, 2, 5, 6] {
            sequence.take(numbered(seq, 1)).unwrap();
        }
        assert_eq!(given(&mut sequence), ["1", "2"]);
        assert_eq!(sequence.end(), Err(Lost { from: 3, to: 4 }));
    }

    #[test]
    fn what_waits_is_bounded_by_number_and_by_bytes() {
        let mut sequence = Sequence::default();
        for seq in 0..WAITING as u64 {
            sequence.take(numbered(2 + seq, 1)).unwrap();
        }
        assert_eq!(sequence.take(numbered(9_999, 1)), Err(Lost { from: 1, to: 1 }));
        let mut sequence = Sequence::default();
        assert_eq!(sequence.take(numbered(2, BYTES)), Err(Lost { from: 1, to: 1 }));
        assert_eq!(Sequence::default().take(numbered(1, BYTES + 1)), Ok(()), "one passes whatever its size");
        assert_eq!(Sequence::default().take(numbered(0, 1)), Ok(()));
        assert_eq!(Sequence::default().take(numbered(u64::MAX, 1)), Ok(()));
    }

    proptest! {
        #[test]
        fn whatever_order_and_however_often_each_is_given_once_in_order(
            // Every number comes at least once.
            order in Just((1..=40).chain(1..=40).chain(20..=30).collect::<Vec<u64>>()).prop_shuffle(),
        ) {
            let mut sequence = Sequence::default();
            let mut all = Vec::new();
            for seq in order {
                sequence.take(numbered(seq, 1)).unwrap();
                all.extend(given(&mut sequence));
            }
            prop_assert_eq!(sequence.end(), Ok(()));
            prop_assert_eq!(all, (1..=40).map(|seq: u64| seq.to_string()).collect::<Vec<_>>());
        }
    }
}
