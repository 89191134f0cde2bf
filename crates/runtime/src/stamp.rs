//! Ids and times from this machine.

use std::sync::{Mutex, PoisonError};

use anabranch_proto::{Stamp, Timestamp};
use ulid::{Generator, Ulid};

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
        Ulid::generate().to_bytes()
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

    fn now(&self) -> Timestamp {
        let now = jiff::Timestamp::now();
        // Before 1970 the parts are negative; such a clock is set wrong, and the whole second is near enough.
        Timestamp::from_unix(now.as_second(), u32::try_from(now.subsec_nanosecond()).unwrap_or(0))
    }
}
