//! The ids of the last admitted events.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use anabranch_proto::{ChildScope, EventId};

use crate::hash::Seeded;

/// How many ids are remembered.
pub(crate) const WINDOW: usize = 4_096;
const BUCKETS: usize = 2 * WINDOW;
const NONE: u16 = u16::MAX;

/// The last [`WINDOW`] ids, each with whose it is, in about 160 KiB whatever the number of events.
///
/// Whoever counts its events instead of giving them ids of their own does so for itself, so an id is known only together
/// with its [`Source`].
///
/// A ring of keys, and for each bucket of hashes a chain of places in the ring, the newest first. Exact but for sources,
/// which are known by their hashes: a key's hash only finds the chain, the key decides.
#[derive(Debug)]
pub(crate) struct Recent {
    seeded: Seeded,
    keys: Vec<Key>,
    /// The place that the next key takes.
    next: usize,
    newest: Box<[u16]>,
    older: Box<[u16]>,
    /// The bucket of each place, so that no key is hashed again to be forgotten.
    buckets: Box<[u16]>,
}

/// Whose events have their ids from one hand: a run of a child, or the root. A hash with the process's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source(u64);

#[derive(Debug, PartialEq, Eq)]
struct Key {
    source: Source,
    id: EventId,
}

/// An id that is not among the last ones, and where it is to be filed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    source: Source,
    bucket: usize,
}

impl Recent {
    pub(crate) fn new() -> Self {
        Self {
            seeded: Seeded::default(),
            keys: Vec::new(),
            next: 0,
            newest: vec![NONE; BUCKETS].into_boxed_slice(),
            older: vec![NONE; WINDOW].into_boxed_slice(),
            buckets: vec![NONE; WINDOW].into_boxed_slice(),
        }
    }

    /// Whose the root's events are.
    pub(crate) fn root(&self) -> Source {
        Source(self.seeded.build_hasher().finish())
    }

    /// Whose the events of a child's run are.
    pub(crate) fn source(&self, scope: &ChildScope) -> Source {
        let mut hasher = self.seeded.build_hasher();
        scope.child_session_id.hash(&mut hasher);
        hasher.write_u64(u64::from(scope.run.max(1)));
        Source(hasher.finish())
    }

    /// Where an id is to be filed; none where it is among the last ones.
    pub(crate) fn fresh(&self, source: Source, id: &EventId) -> Option<Fresh> {
        let bucket = self.bucket(source, id);
        let mut place = self.newest.get(bucket).copied().unwrap_or(NONE);
        while place != NONE {
            if self.keys.get(usize::from(place)).is_some_and(|key| key.source == source && key.id == *id) {
                return None;
            }
            place = self.older.get(usize::from(place)).copied().unwrap_or(NONE);
        }
        Some(Fresh { source, bucket })
    }

    /// Files an id, and forgets the oldest where the window is full.
    pub(crate) fn insert(&mut self, Fresh { source, bucket }: Fresh, id: EventId) {
        // Places are below `WINDOW`, which `u16` holds.
        let place = u16::try_from(self.next).unwrap_or(NONE);
        if let Some(of_place) = self.buckets.get_mut(self.next) {
            // Buckets are below `BUCKETS`, which `u16` holds.
            let oldest = std::mem::replace(of_place, u16::try_from(bucket).unwrap_or(NONE));
            if oldest != NONE {
                self.unlink(usize::from(oldest), place);
            }
        }
        let key = Key { source, id };
        match self.keys.get_mut(self.next) {
            Some(slot) => *slot = key,
            None => self.keys.push(key),
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

    /// Both hashes are seeded, and neither waits for the other.
    #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
    fn bucket(&self, Source(source): Source, id: &EventId) -> usize {
        (self.seeded.hash_one(id) ^ source) as usize % BUCKETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of two sources, in turns.
    fn source(recent: &Recent, id: &EventId) -> Source {
        let name = if id.to_string().len().is_multiple_of(2) { "a" } else { "b" };
        recent.source(&ChildScope::new(name, "root", "sa", "name"))
    }

    fn see(recent: &mut Recent, id: &EventId) -> bool {
        let fresh = recent.fresh(source(recent, id), id);
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
            assert!(recent.fresh(source(&recent, &id), &id).is_none(), "{id}");
        }
        for id in ids(0..kept) {
            assert!(recent.fresh(source(&recent, &id), &id).is_some(), "{id}");
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
        let bytes = recent.keys.capacity() * size_of::<Key>() + (BUCKETS + WINDOW) * size_of::<u16>();
        assert!(bytes <= 256 << 10);
    }

    #[test]
    fn the_same_id_of_another_run_or_session_is_another() {
        let mut recent = Recent::new();
        let scopes = ["a", "b"].map(|name| ChildScope::new(name, "root", "sa", "name"));
        let again = scopes[0].clone().run(2);
        let sources = [recent.root()]
            .into_iter()
            .chain([&scopes[0], &scopes[1], &again].map(|scope| recent.source(scope)))
            .collect::<Vec<_>>();
        for source in &sources {
            let id = EventId::new("1");
            let fresh = recent.fresh(*source, &id).unwrap();
            recent.insert(fresh, id);
        }
        for source in sources {
            assert!(recent.fresh(source, &"1".into()).is_none());
        }
        let unnumbered = recent.source(&scopes[0].clone().run(0));
        assert!(recent.fresh(unnumbered, &"1".into()).is_none());
    }
}
