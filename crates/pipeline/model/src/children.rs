//! The streams that are merged.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock, atomic::AtomicUsize},
    task::{Context, Poll, Waker},
};

use futures::Stream;
use loom::sync::atomic::{AtomicU32, Ordering};

/// What every merge here is of.
pub(crate) type Child = Pin<Box<dyn Stream<Item = u32>>>;

/// A number that another thread raises, as a stream. Nothing but this number and the wake-up brings the news: there is no
/// lock that would order the two. It ends after its last number.
pub(crate) struct Number {
    value: AtomicU32,
    last: u32,
    polls: AtomicUsize,
    /// A merge gives a stream one waker for its life.
    waker: OnceLock<Waker>,
}

impl Number {
    pub(crate) fn up_to(last: u32) -> Arc<Self> {
        Arc::new(Self { value: AtomicU32::new(0), last, polls: AtomicUsize::new(0), waker: OnceLock::new() })
    }

    pub(crate) fn stream(self: &Arc<Self>) -> Child {
        Box::pin(Numbers { source: Arc::clone(self), seen: 0 })
    }

    /// Raises the number and wakes the stream, which has been polled.
    pub(crate) fn raise_to(&self, number: u32) {
        self.value.store(number, Ordering::Release);
        self.wake();
    }

    /// Raises the number by one, whoever else does.
    pub(crate) fn raise(&self) {
        self.value.fetch_add(1, Ordering::Release);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        self.waker.get().expect("a stream that was pushed is polled").wake_by_ref();
    }

    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Ordering::Relaxed)
    }
}

struct Numbers {
    source: Arc<Number>,
    seen: u32,
}

impl Stream for Numbers {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        let this = &mut *self;
        let waker = this.source.waker.get_or_init(|| cx.waker().clone());
        assert!(waker.will_wake(cx.waker()));
        // Only the reader's thread counts, so this is no step for the checker.
        this.source.polls.fetch_add(1, Ordering::Relaxed);
        if this.seen == this.source.last {
            return Poll::Ready(None);
        }
        let number = this.source.value.load(Ordering::Acquire);
        if number == this.seen {
            return Poll::Pending;
        }
        this.seen = number;
        Poll::Ready(Some(number))
    }
}

/// Wakes itself a few times before it gives its item and ends.
pub(crate) struct Restless {
    wakes: u32,
    item: Option<u32>,
}

impl Restless {
    pub(crate) fn stream(wakes: u32, item: u32) -> Child {
        Box::pin(Self { wakes, item: Some(item) })
    }
}

impl Stream for Restless {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        let Some(wakes) = self.wakes.checked_sub(1) else { return Poll::Ready(self.item.take()) };
        self.wakes = wakes;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
