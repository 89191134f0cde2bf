//! Who reads a merge: a task that sleeps until it is woken.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use loom::sync::Notify;

use crate::Merged;

/// The task. The checker also lets it wake once for no reason, as an executor may.
pub(crate) struct Reader {
    task: Arc<Task>,
    waker: Waker,
}

struct Task(Notify);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify();
    }
}

impl Reader {
    pub(crate) fn new() -> Self {
        let task = Arc::new(Task(Notify::new()));
        Self { waker: Waker::from(Arc::clone(&task)), task }
    }

    pub(crate) fn poll<M: Merged>(&self, merge: &mut M) -> Poll<Option<u32>> {
        std::pin::Pin::new(merge).poll_next(&mut Context::from_waker(&self.waker))
    }

    /// Sleeps until the next wake-up. Where none comes, the checker says that all threads sleep for ever.
    pub(crate) fn sleep(&self) {
        self.task.0.wait();
    }

    pub(crate) fn next<M: Merged>(&self, merge: &mut M) -> Option<u32> {
        loop {
            match self.poll(merge) {
                Poll::Ready(item) => return item,
                Poll::Pending => self.sleep(),
            }
        }
    }

    /// Reads to the end.
    pub(crate) fn all<M: Merged>(&self, merge: &mut M) -> Vec<u32> {
        std::iter::from_fn(|| self.next(merge)).collect()
    }
}
