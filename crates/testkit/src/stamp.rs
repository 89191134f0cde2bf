//! Ids that count and a clock that stands still.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use anabranch_proto::{Stamp, Timestamp};

/// A [`Stamp`] whose ids count from 1 and whose clock moves only when told.
///
/// ```
/// use anabranch_proto::Stamp;
/// use anabranch_testkit::CountingStamp;
///
/// let stamp = CountingStamp::new();
/// assert_eq!(stamp.event_id().to_string(), "01KDVDNA000000000000000001");
/// assert_eq!(stamp.event_id().to_string(), "01KDVDNA000000000000000002");
/// assert_eq!(stamp.now().to_string(), "2026-01-01T00:00:00.000000Z");
/// stamp.advance(90);
/// assert_eq!(stamp.now().to_string(), "2026-01-01T00:01:30.000000Z");
/// ```
#[derive(Debug)]
pub struct CountingStamp {
    count: AtomicU64,
    seconds: AtomicI64,
}

/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

impl CountingStamp {
    /// Nothing counted, at the start of 2026.
    #[must_use]
    pub fn new() -> Self {
        Self { count: AtomicU64::new(0), seconds: AtomicI64::new(START) }
    }

    /// Moves the clock on.
    pub fn advance(&self, seconds: u32) {
        self.seconds.fetch_add(seconds.into(), Ordering::Relaxed);
    }
}

impl Default for CountingStamp {
    fn default() -> Self {
        Self::new()
    }
}

impl Stamp for CountingStamp {
    fn unique(&self) -> [u8; 16] {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        // The first 48 bits of a ULID are the milliseconds since 1970; ours are always those of the start.
        let millis = START.unsigned_abs() * 1_000;
        ((u128::from(millis) << 80) | u128::from(count)).to_be_bytes()
    }

    fn ascending(&self) -> [u8; 16] {
        self.unique()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(self.seconds.load(Ordering::Relaxed), 0)
    }
}
