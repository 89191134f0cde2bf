//! The ids of the last admitted events.

use std::hash::BuildHasher as _;

use anabranch_proto::EventId;

use crate::hash::Seeded;

/// How many ids are remembered.
pub(crate) const WINDOW: usize = 4_096;
const BUCKETS: usize = 2 * WINDOW;
const NONE: u16 = u16::MAX;

/// The last [`WINDOW`] ids, in about 120 KiB whatever the number of events.
///
/// A ring of ids, and for each bucket of hashes a chain of places in the ring, the newest first. Exact: a hash only finds
/// the chain, the id decides.
#[derive(Debug)]
pub(crate) struct Recent {
    seeded: Seeded,
    ids: Vec<EventId>,
    /// The place that the next id takes.
    next: usize,
    newest: Box<[u16]>,
    older: Box<[u16]>,
}

/// An id that is not among the last ones, and where it is to be filed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    bucket: usize,
}

impl Recent {
    pub(crate) fn new() -> Self {
        Self {
            seeded: Seeded::default(),
            ids: Vec::new(),
            next: 0,
            newest: vec![NONE; BUCKETS].into_boxed_slice(),
            older: vec![NONE; WINDOW].into_boxed_slice(),
        }
    }

    /// Where an id is to be filed; none where it is among the last ones.
    pub(crate) fn fresh(&self, id: &EventId) -> Option<Fresh> {
        let bucket = self.bucket(id);
        let mut place = self.newest.get(bucket).copied().unwrap_or(NONE);
        while place != NONE {
            if self.ids.get(usize::from(place)) == Some(id) {
                return None;
            }
            place = self.older.get(usize::from(place)).copied().unwrap_or(NONE);
        }
        Some(Fresh { bucket })
    }

    /// Files an id, and forgets the oldest where the window is full.
    pub(crate) fn insert(&mut self, Fresh { bucket }: Fresh, id: EventId) {
        // Places are below `WINDOW`, which `u16` holds.
        let place = u16::try_from(self.next).unwrap_or(NONE);
        if let Some(oldest) = self.ids.get(self.next) {
            self.unlink(self.bucket(oldest), place);
        }
        match self.ids.get_mut(self.next) {
            Some(slot) => *slot = id,
            None => self.ids.push(id),
        }
        if let (Some(newest), Some(older)) = (self.newest.get_mut(bucket), self.older.get_mut(self.next)) {
            *older = *newest;
            *newest = place;
        }
        self.next = (self.next + 1) % WINDOW;
    }

    /// Takes the oldest id out of its chain, of which it is the end.
    fn unlink(&mut self, bucket: usize, oldest: u16) {
        let Some(head) = self.newest.get_mut(bucket) else { return };
        let mut place = *head;
        if place == oldest {
            *head = NONE;
            return;
        }
        while let Some(next) = self.older.get_mut(usize::from(place)) {
            if *next == oldest {
                *next = NONE;
                return;
            }
            place = *next;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
    fn bucket(&self, id: &EventId) -> usize {
        self.seeded.hash_one(id) as usize % BUCKETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(recent: &mut Recent, id: &EventId) -> bool {
        let fresh = recent.fresh(id);
        if let Some(fresh) = fresh {
            recent.insert(fresh, id.clone());
        }
        fresh.is_some()
    }

    fn ids(numbers: std::ops::Range<u128>) -> impl Iterator<Item = EventId> {
        numbers.map(|number| match number % 3 {
            0 => EventId::new(format!("text {number}")),
            _ => EventId::from_ulid(number.to_be_bytes()),
        })
    }

    #[test]
    fn the_last_ids_are_known_and_older_ones_forgotten() {
        let mut recent = Recent::new();
        for id in ids(0..20_000) {
            assert!(see(&mut recent, &id));
            assert!(!see(&mut recent, &id));
        }
        let kept = 20_000 - WINDOW as u128;
        for id in ids(kept..20_000) {
            assert!(recent.fresh(&id).is_none(), "{id}");
        }
        for id in ids(0..kept) {
            assert!(recent.fresh(&id).is_some(), "{id}");
        }
    }

    #[test]
    fn chains_do_not_grow() {
        let mut recent = Recent::new();
        for id in ids(0..100_000) {
            see(&mut recent, &id);
        }
        let mut linked = 0;
        for &head in &recent.newest {
            let mut place = head;
            let mut length = 0;
            while place != NONE {
                linked += 1;
                length += 1;
                place = recent.older[usize::from(place)];
            }
            assert!(length < 16, "hashes are not spread");
        }
        assert_eq!(linked, WINDOW);
        let bytes = recent.ids.capacity() * size_of::<EventId>() + (BUCKETS + WINDOW) * size_of::<u16>();
        assert!(bytes <= 256 << 10);
    }
}
