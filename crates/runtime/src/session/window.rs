//! How far a lossless reader is behind, and how its producer waits for it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// How many batches are told apart; beyond it, two that follow each other count as one.
const MOST_BATCHES: usize = 256;

/// The bytes between a session's driver and one lossless reader.
#[derive(Debug)]
pub(super) struct Window {
    limit: usize,
    unread: Mutex<Unread>,
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
    waits: Waits,
}

/// Whether producers wait for the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Waits {
    #[default]
    Yes,
    /// It was waited for too long, and has not caught up since.
    NotNow,
    /// It is gone.
    Never,
}

impl Window {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, unread: Mutex::default(), room: Notify::new() })
    }

    /// A batch was appended that ends with this number.
    pub(super) fn produce(&self, last: u64, bytes: usize) {
        let mut unread = self.unread();
        // A reader whose cursor lies beyond the end waits for what comes behind it.
        if last > unread.read && unread.waits != Waits::Never {
            unread.batches.push_back((last, bytes));
            unread.bytes = unread.bytes.saturating_add(bytes);
            if unread.batches.len() >= MOST_BATCHES {
                unread.join_batches();
            }
        }
    }

    /// The reader has read everything up to this number, or was told that it is gone.
    pub(super) fn consume(&self, upto: u64) {
        let mut unread = self.unread();
        let mut has_read = false;
        unread.read = unread.read.max(upto);
        while let Some(&(last, bytes)) = unread.batches.front()
            && last <= upto
        {
            unread.batches.pop_front();
            unread.bytes = unread.bytes.saturating_sub(bytes);
            has_read = true;
        }
        if unread.waits == Waits::NotNow && unread.bytes <= self.limit {
            unread.waits = Waits::Yes;
        }
        drop(unread);
        if has_read {
            self.room.notify_one();
        }
    }

    pub(super) fn is_full(&self) -> bool {
        let unread = self.unread();
        unread.waits == Waits::Yes && unread.bytes > self.limit
    }

    /// Lets the producer go on until the reader has caught up.
    pub(super) fn give_up(&self) {
        let mut unread = self.unread();
        if unread.waits == Waits::Yes {
            unread.waits = Waits::NotNow;
        }
    }

    /// Lets the producer go on: there is no reader any more.
    pub(super) fn open(&self) {
        *self.unread() = Unread { waits: Waits::Never, ..Unread::default() };
        self.room.notify_one();
    }

    /// Whether the reader is gone.
    pub(super) fn is_open(&self) -> bool {
        self.unread().waits == Waits::Never
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

    fn unread(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unread {
    /// Makes one batch of each two, so that a reader that never reads costs no more and more.
    fn join_batches(&mut self) {
        let batches = std::mem::take(&mut self.batches);
        let mut pairs = batches.into_iter();
        while let Some((last, bytes)) = pairs.next() {
            self.batches.push_back(match pairs.next() {
                Some((later, more)) => (later, bytes.saturating_add(more)),
                None => (last, bytes),
            });
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

    #[test]
    fn who_was_waited_for_too_long_is_waited_for_again_when_it_has_caught_up() {
        let window = Window::new(100);
        window.produce(1, 60);
        window.produce(2, 60);
        assert!(window.is_full());
        window.give_up();
        for number in 3..10_000 {
            window.produce(number, 1);
            assert!(!window.is_full());
        }
        assert!(window.unread().batches.len() < MOST_BATCHES);
        window.consume(5_000);
        window.produce(10_000, 60);
        assert!(!window.is_full(), "it is still behind");
        window.consume(10_000);
        window.produce(10_001, 101);
        assert!(window.is_full());
        window.consume(10_001);
        assert!(window.has_room().now_or_never().is_some());
    }
}
