//! How far a lossless reader is behind, and how its producer waits for it.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

/// The bytes between a session's driver and one lossless reader.
#[derive(Debug)]
pub(super) struct Window {
    limit: usize,
    unread: Mutex<Unread>,
    /// Set when the reader is gone, or was waited for too long: it holds nobody back any more.
    is_open: AtomicBool,
    room: Notify,
}

/// What was appended and not yet read.
#[derive(Debug, Default)]
struct Unread {
    /// The last number of each batch, and its bytes.
    batches: VecDeque<(u64, usize)>,
    bytes: usize,
    /// Up to which number the reader wants nothing more.
    read: u64,
}

impl Window {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let (is_open, room) = (AtomicBool::new(false), Notify::new());
        Arc::new(Self { limit, unread: Mutex::default(), is_open, room })
    }

    /// A batch was appended that ends with this number.
    pub(super) fn produce(&self, last: u64, bytes: usize) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        // A reader whose cursor lies beyond the end waits for what comes behind it.
        if last > unread.read {
            unread.batches.push_back((last, bytes));
            unread.bytes += bytes;
        }
    }

    /// The reader has read everything up to this number, or was told that it is gone.
    pub(super) fn consume(&self, upto: u64) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_read = false;
        unread.read = unread.read.max(upto);
        while let Some(&(last, bytes)) = unread.batches.front()
            && last <= upto
        {
            unread.batches.pop_front();
            unread.bytes -= bytes;
            has_read = true;
        }
        drop(unread);
        if has_read {
            self.room.notify_one();
        }
    }

    pub(super) fn is_full(&self) -> bool {
        !self.is_open() && self.unread.lock().unwrap_or_else(PoisonError::into_inner).bytes > self.limit
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn what_lies_before_a_cursor_takes_no_room() {
        let window = Window::new(100);
        window.consume(10);
        window.produce(10, 1_000);
        assert!(window.has_room().now_or_never().is_some());
        window.produce(11, 101);
        assert!(window.has_room().now_or_never().is_none());
    }

    #[test]
    fn room_comes_back_with_what_was_read_or_is_gone() {
        let window = Window::new(100);
        window.produce(3, 60);
        assert!(window.has_room().now_or_never().is_some());
        window.produce(5, 60);
        assert!(window.has_room().now_or_never().is_none());
        window.consume(2);
        assert!(window.has_room().now_or_never().is_none());
        // A gap up to 4 takes the first batch with it.
        window.consume(4);
        assert!(window.has_room().now_or_never().is_some());
        window.consume(100);
        window.produce(101, 101);
        assert!(window.has_room().now_or_never().is_none());
        window.open();
        assert!(window.has_room().now_or_never().is_some());
    }
}
