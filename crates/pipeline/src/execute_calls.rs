//! A turn's calls, side by side where they may.

use std::{
    collections::VecDeque,
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, stream::FusedStream};

use crate::{
    Acting, Caller, ExecuteToolCall, Executed, Merge, ToolCall, Toolkit,
    panics::{catch, drop_quietly},
};

/// Stream of a turn's calls as events.
///
/// The calls are cut, in their order, into groups: calls that may run side by side, and single exclusive ones. Groups run
/// one after another. Within a group the streams are merged fairly; each result ends as soon as its call does, and one
/// that fails stops no other.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the calls.
#[must_use = "streams do nothing unless polled"]
pub struct ExecuteToolCalls {
    caller: Arc<Caller>,
    acting: Acting,
    waiting: VecDeque<ToolCall>,
    running: Merge<ExecuteToolCall>,
}

impl ExecuteToolCalls {
    /// Runs the calls of one turn of the caller's model, given in call order.
    pub fn new(calls: impl IntoIterator<Item = ToolCall>, caller: Arc<Caller>, acting: &Acting) -> Self {
        Self { caller, acting: acting.clone(), waiting: calls.into_iter().collect(), running: Merge::new() }
    }

    fn is_exclusive(&self, call: &ToolCall) -> bool {
        let ask = || self.acting.toolkit().get(&call.name).is_some_and(|tool| tool.is_exclusive());
        // A tool that panics when it is asked says why when it is called.
        catch(ask).unwrap_or(false)
    }

    /// Starts the next group.
    fn start(&mut self) {
        let alone = self.waiting.front().is_some_and(|call| self.is_exclusive(call));
        while let Some(call) = self.waiting.pop_front() {
            if self.is_exclusive(&call) && !alone {
                self.waiting.push_front(call);
                break;
            }
            self.running.push(ExecuteToolCall::new(call, Arc::clone(&self.caller), &self.acting));
            if alone {
                break;
            }
        }
    }
}

impl Stream for ExecuteToolCalls {
    type Item = Executed;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Executed>> {
        loop {
            if self.running.is_empty() {
                if self.waiting.is_empty() {
                    return Poll::Ready(None);
                }
                self.start();
            }
            if let Some(item) = std::task::ready!(Pin::new(&mut self.running).poll_next(cx)) {
                return Poll::Ready(Some(item));
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A call that waits will give a start, an end and a response.
        let (running, _) = self.running.size_hint();
        (running.saturating_add(self.waiting.len().saturating_mul(3)), self.is_terminated().then_some(0))
    }
}

impl FusedStream for ExecuteToolCalls {
    fn is_terminated(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }
}

impl Drop for ExecuteToolCalls {
    fn drop(&mut self) {
        // Tools and layers may be dropped with it, and panic.
        drop_quietly(mem::replace(&mut self.acting, Acting::new(Toolkit::new())));
    }
}

impl fmt::Debug for ExecuteToolCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecuteToolCalls")
            .field("waiting", &self.waiting.len())
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}
