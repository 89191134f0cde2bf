//! Ids that count and the clock of paused time.

use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_proto::{Stamp, Timestamp};
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z.
pub(crate) const START: i64 = 1_767_225_600;

/// Ids that count, and times of the async runtime's clock, which is paused: the same run gives the same bytes.
#[derive(Debug)]
pub(crate) struct VirtualStamp {
    count: AtomicU64,
    start: Instant,
}

impl VirtualStamp {
    /// A clock that starts now, in 2026.
    pub(crate) fn new() -> Self {
        Self { count: AtomicU64::new(0), start: Instant::now() }
    }
}

impl Stamp for VirtualStamp {
    fn unique(&self) -> [u8; 16] {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        // The first 48 bits of a ULID are milliseconds; ours are always those of the start.
        let millis = START.unsigned_abs() * 1_000;
        ((u128::from(millis) << 80) | u128::from(count)).to_be_bytes()
    }

    fn ascending(&self) -> [u8; 16] {
        self.unique()
    }

    fn now(&self) -> Timestamp {
        let elapsed = self.start.elapsed();
        let seconds = i64::try_from(elapsed.as_secs()).unwrap_or(0);
        Timestamp::from_unix(START.saturating_add(seconds), elapsed.subsec_nanos())
    }
}
