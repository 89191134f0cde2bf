//! No wake-up of the merge is lost, with streams that other threads wake.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests are the runtime: they start threads and watch over them"
)]

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use anabranch_pipeline::Merge;
use futures::{Stream, StreamExt};

/// Far beyond what any of these takes; only a lost wake-up gets there.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Takes `count` items, each of which must come.
fn take<S: Stream + Unpin>(merge: &mut Merge<S>, count: u64) -> Vec<S::Item> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut items = Vec::new();
        for number in 0..count {
            let item = tokio::time::timeout(WATCHDOG, merge.next()).await;
            items.extend(item.unwrap_or_else(|_| panic!("a wake-up was lost after {number} items")));
        }
        items
    })
}

/// A number that another thread raises. Nothing but this number and the wake-up brings the news: no lock that would
/// order the two.
#[derive(Default)]
struct Raised {
    number: AtomicU64,
    seen: AtomicU64,
    waker: OnceLock<Waker>,
    is_over: AtomicBool,
}

struct Numbers(Arc<Raised>);

impl Stream for Numbers {
    type Item = u64;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        // A merge gives a stream one waker for its life.
        let waker = self.0.waker.get_or_init(|| cx.waker().clone());
        assert!(waker.will_wake(cx.waker()));
        let number = self.0.number.load(Ordering::Acquire);
        if number == self.0.seen.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        self.0.seen.store(number, Ordering::Release);
        Poll::Ready(Some(number))
    }
}

impl Raised {
    /// Raises the number whenever it was seen.
    fn raise(&self, count: u64) {
        for number in 1..=count {
            self.number.store(number, Ordering::Release);
            if let Some(waker) = self.waker.get() {
                waker.wake_by_ref();
            }
            while self.seen.load(Ordering::Acquire) < number {
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::hint::spin_loop();
            }
        }
    }
}

#[test]
fn a_wake_up_just_before_the_poll_is_seen_by_it() {
    // With a plain store where the merge swaps, an optimised build loses one after some hundred thousand items; a debug
    // build is too slow between the two to lose any.
    const COUNT: u64 = if cfg!(debug_assertions) { 100_000 } else { 3_000_000 };
    /// Ends the thread when the test fails.
    struct Over<'a>(&'a Raised);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.is_over.store(true, Ordering::Relaxed);
        }
    }
    let raised = Arc::new(Raised::default());
    let mut merge = Merge::new();
    merge.push(Numbers(Arc::clone(&raised)));
    thread::scope(|scope| {
        scope.spawn(|| raised.raise(COUNT));
        let _over = Over(&raised);
        assert_eq!(take(&mut merge, COUNT), (1..=COUNT).collect::<Vec<_>>());
    });
}

#[derive(Clone, Default)]
struct Queue(Arc<Mutex<(Vec<u64>, Option<Waker>)>>);

impl Queue {
    fn give(&self, item: u64) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0.push(item);
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Stream for Queue {
    type Item = u64;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        let mut state = self.0.lock().unwrap();
        state.1 = Some(cx.waker().clone());
        state.0.pop().map_or(Poll::Pending, |item| Poll::Ready(Some(item)))
    }
}

#[test]
fn streams_that_other_threads_wake_ten_thousand_times_give_all_they_have() {
    const COUNT: u64 = 10_000;
    let queues = [Queue::default(), Queue::default(), Queue::default(), Queue::default()];
    let mut merge = Merge::new();
    for queue in &queues {
        merge.push(queue.clone());
    }
    thread::scope(|scope| {
        for threads in queues.chunks(2) {
            scope.spawn(move || {
                for item in 0..COUNT {
                    for queue in threads {
                        queue.give(item);
                    }
                }
            });
        }
        let mut items = take(&mut merge, 4 * COUNT);
        items.sort_unstable();
        assert!(items.chunks(4).zip(0..).all(|(four, item)| four == [item; 4]));
    });
}
