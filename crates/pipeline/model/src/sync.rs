//! What the merge shares between threads, in the form that the checker steps through. `Arc` is the real one: counting
//! references is not what is checked, and `Wake` takes no other.

use std::task::Waker;

use loom::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use loom::sync::{Mutex, atomic::AtomicBool};

const WAITING: usize = 0;
const REGISTERING: usize = 0b01;
const WAKING: usize = 0b10;

/// The states of `futures::task::AtomicWaker` and its ways between them, on an atomic of the checker's.
#[derive(Default)]
pub(crate) struct AtomicWaker {
    state: AtomicUsize,
    /// Used by whoever made the state what it is, so its lock is always free.
    waker: std::sync::Mutex<Option<Waker>>,
}

impl AtomicWaker {
    pub(crate) fn register(&self, waker: &Waker) {
        let begun = self.state.compare_exchange(WAITING, REGISTERING, Ordering::Acquire, Ordering::Acquire);
        match begun {
            Ok(_) => {
                self.put(Some(waker.clone()));
                let done =
                    self.state.compare_exchange(REGISTERING, WAITING, Ordering::AcqRel, Ordering::Acquire);
                if done.is_err() {
                    // Somebody woke in between and left it to us.
                    let waker = self.put(None);
                    self.state.swap(WAITING, Ordering::AcqRel);
                    waker.expect("it was just put there").wake();
                }
            }
            Err(WAKING) => {
                waker.wake_by_ref();
                // The reader comes again until the other thread is done: the checker must let it.
                loom::thread::yield_now();
            }
            Err(state) => panic!("two registered at once: {state}"),
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.take() {
            waker.wake();
        }
    }

    pub(crate) fn take(&self) -> Option<Waker> {
        if self.state.fetch_or(WAKING, Ordering::AcqRel) != WAITING {
            return None;
        }
        let waker = self.put(None);
        self.state.swap(WAITING, Ordering::Release);
        waker
    }

    fn put(&self, waker: Option<Waker>) -> Option<Waker> {
        std::mem::replace(&mut *self.waker.try_lock().expect("the state keeps others out"), waker)
    }
}
