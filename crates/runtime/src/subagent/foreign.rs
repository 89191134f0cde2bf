//! A stream of events from somebody else's loop, as a child's run.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_proto::{
    ErrorInfo, ErrorType, Event, EventKind, FinishedReason, Outcome, Stamp,
    event::{MessageOrigin, StreamComplete, UserMessage},
};
use anabranch_session::MessageAccumulator;
use futures::Stream;
use pin_project::pin_project;

use super::{adopt::Adopt, child::Work};
use crate::{Prompt, run::RunResult};

/// Stream of a foreign run's events as a child's: scoped, with a prompt before and a terminal after.
#[pin_project(project = ForeignProjection)]
pub(super) struct Foreign<S> {
    #[pin]
    events: Option<S>,
    adopt: Adopt,
    stamp: Arc<dyn Stamp>,
    prompt: Option<Prompt>,
    /// The first event, read before it was known whether a prompt must come first.
    held: Option<Arc<Event>>,
    accumulator: MessageAccumulator,
    reply_ended: Option<(FinishedReason, Option<ErrorInfo>)>,
    /// A terminal that was made and not yet given.
    terminal: Option<Arc<Event>>,
    result: Option<RunResult>,
}

impl<S> Foreign<S> {
    pub(super) fn new(events: S, adopt: Adopt, stamp: Arc<dyn Stamp>, prompt: Prompt) -> Self {
        Self {
            events: Some(events),
            adopt,
            stamp,
            prompt: Some(prompt),
            held: None,
            accumulator: MessageAccumulator::new(),
            reply_ended: None,
            terminal: None,
            result: None,
        }
    }
}

/// How a run ended that never said so itself.
fn without_terminal(
    reply_ended: Option<(FinishedReason, Option<ErrorInfo>)>,
) -> (Outcome, Option<ErrorInfo>) {
    match reply_ended {
        Some((FinishedReason::Completed, _)) => (Outcome::Completed, None),
        Some((FinishedReason::Interrupted, error)) => (Outcome::Interrupted, error),
        Some((FinishedReason::ExceedMaxIters, error)) => (Outcome::ExceedMaxIters, error),
        Some((_, error)) => (Outcome::Failed, error),
        None => {
            let error =
                ErrorInfo::new(ErrorType::UPSTREAM, "the sub-agent's stream ended before its reply did");
            (Outcome::Failed, Some(error))
        }
    }
}

impl<S> Stream for Foreign<S>
where
    S: Stream,
    S::Item: Into<Arc<Event>>,
{
    type Item = Arc<Event>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        let mut this = self.project();
        if let Some(terminal) = this.terminal.take() {
            return Poll::Ready(Some(terminal));
        }
        let event = if let Some(held) = this.held.take() {
            Some(held)
        } else if let Some(events) = this.events.as_mut().as_pin_mut() {
            let event: Option<Arc<Event>> = std::task::ready!(events.poll_next(cx)).map(Into::into);
            event.map(|event| this.adopt.adopt(event))
        } else {
            return Poll::Ready(None);
        };
        let is_own = event.as_ref().is_some_and(|event| this.adopt.is_own(event));
        if let Some(prompt) = this.prompt.take()
            && !(is_own
                && event.as_ref().is_some_and(|event| matches!(event.kind, EventKind::UserMessage(_))))
        {
            // An end is read again: the stream is fused by `events` being taken away only below.
            this.held.clone_from(&event);
            let message = UserMessage::new(this.stamp.message_id(), prompt.content, MessageOrigin::Parent);
            let message = Event::stamped(&**this.stamp, this.adopt.scope(), this.adopt.metadata(), message);
            this.accumulator.apply(&message);
            if event.is_none() {
                end(&mut this);
            }
            return Poll::Ready(Some(Arc::new(message)));
        }
        let Some(event) = event else {
            end(&mut this);
            return Poll::Ready(this.terminal.take());
        };
        if is_own {
            this.accumulator.apply(&event);
            if let EventKind::ReplyEnd(end) = &event.kind {
                *this.reply_ended = Some((end.finished_reason, end.error.as_deref().cloned()));
            } else if let EventKind::StreamComplete(complete) = &event.kind {
                let mut result = RunResult::new(complete.outcome);
                result.error.clone_from(&complete.error);
                result.message = complete.message.clone().or_else(|| this.accumulator.final_message());
                *this.result = Some(result);
                // The first terminal ends the run; what a stream says after it is nobody's.
                this.events.set(None);
            }
        }
        Poll::Ready(Some(event))
    }
}

/// Makes the terminal of a stream that ended without one.
fn end<S>(this: &mut ForeignProjection<'_, S>) {
    let (outcome, error) = without_terminal(this.reply_ended.take());
    terminate(this, outcome, error);
    this.events.set(None);
}

fn terminate<S>(this: &mut ForeignProjection<'_, S>, outcome: Outcome, error: Option<ErrorInfo>) {
    let message = this.accumulator.final_message();
    let complete = StreamComplete::new(outcome).error(error.clone()).message(message.clone());
    let event = Event::stamped(&**this.stamp, this.adopt.scope(), this.adopt.metadata(), complete);
    *this.terminal = Some(Arc::new(event));
    let mut result = RunResult::new(outcome);
    result.error = error;
    result.message = message;
    *this.result = Some(result);
}

impl<S> Work for Foreign<S>
where
    S: Stream,
    S::Item: Into<Arc<Event>>,
{
    fn result(&self) -> Option<&RunResult> {
        self.result.as_ref()
    }

    fn cut(self: Pin<&mut Self>, outcome: Outcome, error: Option<ErrorInfo>) {
        let mut this = self.project();
        if this.result.is_none() {
            *this.held = None;
            // Before anything is dropped: that may panic, and the terminal must stand.
            terminate(&mut this, outcome, error);
            this.events.set(None);
        }
    }
}
