//! Ids and times from this machine.

use std::{
    cell::RefCell,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use anabranch_proto::{EventId, Stamp, Timestamp};
use rand::{Rng as _, rngs::SmallRng};
use ulid::{Generator, Ulid};

thread_local! {
    /// Begun with the system's randomness. Ids must differ and need not be hard to guess, so it is a small generator: one
    /// that nobody can predict takes as long as the rest of an event.
    static RANDOM: RefCell<SmallRng> = RefCell::new(rand::make_rng());
}

/// A ULID of this time.
fn unique(milliseconds: u64) -> [u8; 16] {
    let random =
        RANDOM.with_borrow_mut(|random| u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()));
    Ulid::from_parts(milliseconds, random).to_bytes()
}

/// Ids from randomness, times from the system's clock.
#[derive(Debug)]
pub struct SystemStamp {
    ascending: Mutex<Generator>,
}

impl SystemStamp {
    /// A stamp whose ascending ids begin anew.
    #[must_use]
    pub fn new() -> Self {
        Self { ascending: Mutex::new(Generator::new()) }
    }
}

impl Default for SystemStamp {
    fn default() -> Self {
        Self::new()
    }
}

impl Stamp for SystemStamp {
    fn unique(&self) -> [u8; 16] {
        unique(milliseconds(self.now()))
    }

    fn ascending(&self) -> [u8; 16] {
        let mut generator = self.ascending.lock().unwrap_or_else(PoisonError::into_inner);
        let ulid = match generator.generate() {
            Ok(ulid) => ulid,
            // All random bits of one millisecond are used up: the next number borrows from the time.
            Err(overflow) => overflow.commit_overflow_increment(),
        };
        ulid.to_bytes()
    }

    fn event_id_at(&self, at: Timestamp) -> EventId {
        EventId::from_ulid(unique(milliseconds(at)))
    }

    fn now(&self) -> Timestamp {
        // A clock before 1970 is set wrong, and 1970 is near enough.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_unix(i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos())
    }
}

/// Since 1970.
fn milliseconds(at: Timestamp) -> u64 {
    u64::try_from(at.unix_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn ids_of_many_threads_differ() {
        let threads: Vec<_> = (0..4)
            .map(|_| thread::spawn(|| (0..10_000).map(|_| SystemStamp::new().unique()).collect::<Vec<_>>()))
            .collect();
        let ids: HashSet<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(ids.len(), 40_000);
    }

    #[test]
    fn an_event_id_has_the_time_of_its_event() {
        let at = Timestamp::from_unix(1_767_225_600, 123_456_000);
        let id: Ulid = SystemStamp::new().event_id_at(at).to_string().parse().unwrap();
        assert_eq!(id.timestamp_ms(), 1_767_225_600_123);
    }

    #[test]
    fn the_time_is_this_machines() {
        let (before, now, after) = (SystemTime::now(), SystemStamp::new().now(), SystemTime::now());
        let millis =
            |time: SystemTime| i64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
        assert!((millis(before)..=millis(after)).contains(&now.unix_millis()));
    }
}
