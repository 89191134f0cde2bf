//! How far a lossless reader is behind, and how its producer waits for it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use anabranch_proto::Admitted;
use tokio::sync::Notify;

/// The bytes between a session's driver and one lossless reader.
#[derive(Debug)]
pub(super) struct Window {
    limit: u64,
    produced: AtomicU64,
    consumed: AtomicU64,
    /// Set when the reader is gone, or was waited for too long: it holds nobody back any more.
    is_open: AtomicBool,
    room: Notify,
}

impl Window {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: u64::try_from(limit).unwrap_or(u64::MAX),
            produced: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
            room: Notify::new(),
        })
    }

    pub(super) fn produce(&self, bytes: u64) {
        self.produced.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn consume(&self, bytes: u64) {
        self.consumed.fetch_add(bytes, Ordering::AcqRel);
        if !self.is_full() {
            self.room.notify_one();
        }
    }

    fn is_full(&self) -> bool {
        let produced = self.produced.load(Ordering::Acquire);
        let behind = produced.saturating_sub(self.consumed.load(Ordering::Acquire));
        behind > self.limit && !self.is_open()
    }

    /// Lets the producer go on whatever the reader does.
    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
        self.room.notify_one();
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Waits until the reader has room.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(super) async fn has_room(&self) {
        while self.is_full() {
            self.room.notified().await;
        }
    }
}

/// What an event counts for, on both sides.
pub(super) fn size(admitted: &Admitted) -> u64 {
    u64::try_from(anabranch_session::approximate_bytes(&admitted.event)).unwrap_or(u64::MAX)
}
