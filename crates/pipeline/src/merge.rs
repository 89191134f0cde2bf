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
    /// The streams that are to be polled, in order. A stream that gives an item returns to it, which concerns no other
    /// thread and so takes no lock.
    line: VecDeque<Ticket>,
    woken: Arc<Woken>,
    /// Whether the reader waits to be woken, or did when it was last here.
    is_registered: bool,
}

struct Child<S> {
    stream: S,
    waker: Waker,
    state: Arc<ChildWaker>,
    /// Whether it stands in the line, so that it does so once.
    is_in_line: bool,
}

/// Which stream is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ticket {
    index: usize,
    /// How many streams had been pushed before. Tells a stream from the one that had its place before: a late wake-up of
    /// that one must not give it two turns in a round.
    serial: u64,
}

/// The streams that were woken and do not stand in the line yet, and who waits for one.
#[derive(Default)]
struct Woken {
    tickets: Mutex<VecDeque<Ticket>>,
    /// Whether there are any: a look that takes no lock.
    any: AtomicBool,
    reader: AtomicWaker,
}

struct ChildWaker {
    ticket: Ticket,
    /// Whether the stream was woken and not yet put in the line, so that it is noted once.
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for ChildWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.woken.push(self.ticket);
            self.woken.reader.wake();
        }
    }
}

impl Woken {
    fn push(&self, ticket: Ticket) {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).push_back(ticket);
        // Behind the ticket: who takes the mark away finds it.
        self.any.store(true, Ordering::Release);
    }
}

impl<S> Merge<S> {
    /// A merge without streams.
    pub fn new() -> Self {
        Self {
            children: Vec::new(),
            vacant: Vec::new(),
            pushed: 0,
            line: VecDeque::new(),
            woken: Arc::default(),
            is_registered: false,
        }
    }

    /// Adds a stream, at the end of the line.
    pub fn push(&mut self, stream: S) {
        let index = self.vacant.pop().unwrap_or(self.children.len());
        let ticket = Ticket { index, serial: self.pushed };
        self.pushed += 1;
        let woken = Arc::clone(&self.woken);
        let state = Arc::new(ChildWaker { ticket, is_woken: AtomicBool::new(false), woken });
        let waker = Waker::from(Arc::clone(&state));
        let child = Some(Child { stream, waker, state, is_in_line: true });
        match self.children.get_mut(index) {
            Some(place) => *place = child,
            None => self.children.push(child),
        }
        self.line.push_back(ticket);
        self.woken.reader.wake();
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

    /// Puts the streams that were woken at the end of the line.
    #[inline]
    fn take_woken(&mut self) {
        if self.woken.any.load(Ordering::Acquire) {
            self.take_tickets();
        }
    }

    fn take_tickets(&mut self) {
        // The mark goes before the tickets do, so that one that comes in between is looked for again.
        if !self.woken.any.swap(false, Ordering::AcqRel) {
            return;
        }
        let Self { children, line, woken, .. } = self;
        for ticket in woken.tickets.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let child = children.get_mut(ticket.index).and_then(Option::as_mut);
            let Some(child) = child.filter(|child| child.state.ticket == ticket) else { continue };
            // Before the stream is polled, so that a wake-up during the poll notes it again. A swap, not a store: whoever
            // found the mark just before noted nothing, so what he did before must be seen by the poll.
            child.state.is_woken.swap(false, Ordering::AcqRel);
            if !child.is_in_line {
                child.is_in_line = true;
                line.push_back(ticket);
            }
        }
    }
}

impl<S> Default for Merge<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Stream + Unpin> Stream for Merge<S> {
    type Item = S::Item;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = &mut *self;
        // Whoever is at work need not be woken.
        if std::mem::take(&mut this.is_registered) {
            drop(this.woken.reader.take());
        }
        this.take_woken();
        // A stream that wakes itself goes to the end of the line again and again; after one round the executor decides.
        let mut round = this.len();
        loop {
            while round > 0
                && let Some(ticket) = this.line.front().copied()
            {
                round -= 1;
                let Some(child) = this.children.get_mut(ticket.index).and_then(Option::as_mut) else {
                    this.line.pop_front();
                    continue;
                };
                let polled = Pin::new(&mut child.stream).poll_next(&mut Context::from_waker(&child.waker));
                match polled {
                    Poll::Ready(Some(_)) => {
                        // Who stands there alone is the next again.
                        if this.line.len() > 1 {
                            this.line.rotate_left(1);
                        }
                        return polled;
                    }
                    Poll::Ready(None) => {
                        // It stays marked, so that late wake-ups do nothing.
                        child.state.is_woken.store(true, Ordering::Release);
                        let ended = this.children.get_mut(ticket.index).and_then(Option::take);
                        this.vacant.push(ticket.index);
                        this.line.pop_front();
                        drop_quietly(ended);
                    }
                    Poll::Pending => {
                        child.is_in_line = false;
                        this.line.pop_front();
                    }
                }
            }
            if this.is_empty() {
                return Poll::Ready(None);
            }
            this.take_woken();
            if this.line.is_empty() {
                // Only who is about to wait has to be woken. A stream that is woken from here on wakes us; one that was
                // woken before is found by another look.
                this.woken.reader.register(cx.waker());
                this.is_registered = true;
                this.take_woken();
                if this.line.is_empty() {
                    return Poll::Pending;
                }
            }
            if round == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
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
