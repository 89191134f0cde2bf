//! A call that somebody may cut short.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures::Stream;

use crate::{ActingStream, CallItem, accumulate::Accumulator};

/// After how many items that came without a pause it is looked at whether the call is to be cut short.
const ITEMS_PER_LOOK: u32 = 16;

/// Stream of a call until a future says why it goes no further.
pub(crate) struct Until<F> {
    call: Option<ActingStream>,
    cut: Pin<Box<F>>,
    passed: Accumulator,
    items_since_look: u32,
    ready: VecDeque<CallItem>,
}

impl<F: Future<Output = String>> Until<F> {
    pub(crate) fn new(call: ActingStream, cut: F) -> Self {
        Self {
            call: Some(call),
            cut: Box::pin(cut),
            passed: Accumulator::new(),
            items_since_look: 0,
            ready: VecDeque::new(),
        }
    }

    /// Stops the call, and ends it as failed after what came.
    fn cut(&mut self, why: &str) {
        // A tool or a layer that panics now does so in there.
        self.call = None;
        let chunk = self.passed.fail(why);
        self.ready.push_back(CallItem::Chunk(chunk));
        self.ready.push_back(CallItem::Response(self.passed.finish(&[])));
    }
}

impl<F: Future<Output = String>> Stream for Until<F> {
    type Item = CallItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallItem>> {
        let this = &mut *self;
        loop {
            if let Some(item) = this.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            let Some(call) = &mut this.call else { return Poll::Ready(None) };
            if this.items_since_look < ITEMS_PER_LOOK
                && let Poll::Ready(item) = Pin::new(call).poll_next(cx)
            {
                this.items_since_look += 1;
                match &item {
                    Some(CallItem::Chunk(chunk)) => this.passed.add(chunk),
                    Some(CallItem::Event(_)) => {}
                    Some(CallItem::Response(_)) | None => this.call = None,
                }
                return Poll::Ready(item);
            }
            let is_behind = std::mem::take(&mut this.items_since_look) >= ITEMS_PER_LOOK;
            match this.cut.as_mut().poll(cx) {
                Poll::Ready(why) => this.cut(&why),
                Poll::Pending if is_behind => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<F> fmt::Debug for Until<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Until").field("call", &self.call).finish_non_exhaustive()
    }
}
