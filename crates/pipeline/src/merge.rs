//! Many streams on one, fairly and without allocating per item.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, PoisonError, atomic::Ordering},
    task::{Context, Poll, Wake, Waker},
};

use futures::{Stream, stream::FusedStream};

use crate::{
    panics::drop_quietly,
    sync::{AtomicBool, AtomicWaker, Mutex},
};

/// Stream of the items of many streams.
///
/// Fair: a stream that is ready gives one item and goes to the end of the line, so none waits for more than one item of
/// each other. Only streams that were woken are polled. A stream is given one waker when it is pushed; passing an item on
/// allocates nothing, where `SelectAll` allocates per item.
///
/// A merge without streams ends. Streams can be pushed at any time.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the merge drops its streams; one that panics when it is dropped, then or
/// at its end, takes neither the others nor whoever drops the merge with it.
#[must_use = "streams do nothing unless polled"]
pub struct Merge<S> {
    children: Vec<Option<Child<S>>>,
    /// Places of streams that ended, to be taken by new ones.
    vacant: Vec<usize>,
    pushed: u64,
    line: Arc<Line>,
}

struct Child<S> {
    stream: S,
    waker: Waker,
    state: Arc<ChildWaker>,
}

/// Which stream stands in the line.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ticket {
    index: usize,
    /// How many streams had been pushed before. Tells a stream from the one that had its place before: a late wake-up of
    /// that one must not give it two turns in a round.
    serial: u64,
}

/// The streams that are to be polled, in order, and who waits for one.
#[derive(Default)]
struct Line {
    ready: Mutex<VecDeque<Ticket>>,
    reader: AtomicWaker,
}

struct ChildWaker {
    ticket: Ticket,
    /// Whether the stream stands in the line, so that it does so once.
    is_queued: AtomicBool,
    line: Arc<Line>,
}

impl Wake for ChildWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.line.push(self.ticket);
            self.line.reader.wake();
        }
    }
}

impl Line {
    fn push(&self, ticket: Ticket) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(ticket);
    }

    fn pop(&self) -> Option<Ticket> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl<S> Merge<S> {
    /// A merge without streams.
    pub fn new() -> Self {
        Self { children: Vec::new(), vacant: Vec::new(), pushed: 0, line: Arc::default() }
    }

    /// Adds a stream, at the end of the line.
    pub fn push(&mut self, stream: S) {
        let index = self.vacant.pop().unwrap_or(self.children.len());
        let ticket = Ticket { index, serial: self.pushed };
        self.pushed += 1;
        let line = Arc::clone(&self.line);
        let state = Arc::new(ChildWaker { ticket, is_queued: AtomicBool::new(true), line });
        let child = Some(Child { stream, waker: Waker::from(Arc::clone(&state)), state });
        match self.children.get_mut(index) {
            Some(place) => *place = child,
            None => self.children.push(child),
        }
        self.line.push(ticket);
        self.line.reader.wake();
    }

    /// How many streams have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.children.len() - self.vacant.len()
    }

    /// Whether all streams have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<S> Default for Merge<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Stream + Unpin> Stream for Merge<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = &mut *self;
        // Before the line is looked at, so that a stream that is woken from now on wakes us.
        this.line.reader.register(cx.waker());
        // A stream that wakes itself goes to the end of the line again and again; after one round the executor decides.
        let mut round = this.len();
        while round > 0 {
            let Some(ticket) = this.line.pop() else { return Poll::Pending };
            let Some(place) = this.children.get_mut(ticket.index) else { continue };
            let Some(child) = place.as_mut().filter(|child| child.state.ticket == ticket) else { continue };
            round -= 1;
            // Before the stream is polled, so that a wake-up during the poll queues it again. A swap, not a store: whoever
            // found it queued just before did not queue it, so what he did before must be seen by this poll.
            child.state.is_queued.swap(false, Ordering::AcqRel);
            match Pin::new(&mut child.stream).poll_next(&mut Context::from_waker(&child.waker)) {
                Poll::Ready(Some(item)) => {
                    // The reader need not be woken: it is at work.
                    if !child.state.is_queued.swap(true, Ordering::AcqRel) {
                        this.line.push(ticket);
                    }
                    return Poll::Ready(Some(item));
                }
                Poll::Ready(None) => {
                    // It stays marked, so that late wake-ups do nothing.
                    child.state.is_queued.store(true, Ordering::Release);
                    let ended = place.take();
                    this.vacant.push(ticket.index);
                    drop_quietly(ended);
                }
                Poll::Pending => {}
            }
        }
        // Who stands in the line now was woken during the round, and that woke us.
        if this.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // More streams may be pushed, so nothing is certain about the most but that an empty merge is at its end.
        let lower = self
            .children
            .iter()
            .flatten()
            .map(|child| child.stream.size_hint().0)
            .fold(0, usize::saturating_add);
        (lower, self.is_empty().then_some(0))
    }
}

impl<S: Stream + Unpin> FusedStream for Merge<S> {
    fn is_terminated(&self) -> bool {
        self.is_empty()
    }
}

impl<S> Drop for Merge<S> {
    fn drop(&mut self) {
        self.children.drain(..).for_each(drop_quietly);
    }
}

impl<S> fmt::Debug for Merge<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merge").field("len", &self.len()).finish_non_exhaustive()
    }
}
