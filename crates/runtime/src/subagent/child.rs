//! A child at work, as the stream of the call that spawned it.

use std::{
    fmt,
    future::Future as _,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anabranch_pipeline::ToolYield;
use anabranch_proto::{
    ChildScope, ContentBlock, ErrorInfo, ErrorType, Event, Json, Metadata, Outcome, TextBlock, ToolChunk,
};
use futures::Stream;
use pin_project::pin_project;
use tokio::time::Sleep;

use crate::{
    limits::Slot,
    run::{AgentRun, RunResult, panic_message},
};

/// After how many events that came without a pause the deadline is looked at.
const EVENTS_PER_LOOK: u32 = 16;

/// What runs in a child: its events, the last of them its terminal, then what it came to.
pub(super) trait Work: Stream<Item = Arc<Event>> {
    /// What it came to, once the terminal was given.
    fn result(&self) -> Option<&RunResult>;

    /// Stops it and ends it with this outcome: its terminal is the next and last event, even where what is dropped for it
    /// panics.
    fn cut(self: Pin<&mut Self>, outcome: Outcome, error: ErrorInfo);
}

impl Work for AgentRun {
    fn result(&self) -> Option<&RunResult> {
        AgentRun::result(self)
    }

    fn cut(self: Pin<&mut Self>, outcome: Outcome, error: ErrorInfo) {
        AgentRun::cut(self.get_mut(), outcome, Some(error));
    }
}

/// The announcement, the child's events, and the result for the caller's model.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the child and frees its slot; the processor closes what
/// it left open.
#[pin_project]
pub(super) struct Child<W> {
    announcement: Option<Arc<Event>>,
    scope: Arc<ChildScope>,
    keys: Metadata,
    deadline: Option<(Pin<Box<Sleep>>, Duration)>,
    events_since_look: u32,
    /// Given back when the child has ended, not when the caller's model has read the result.
    running: Option<Slot>,
    is_ended: bool,
    #[pin]
    work: W,
}

impl<W: Work> Child<W> {
    pub(super) fn new(
        announcement: Arc<Event>,
        scope: Arc<ChildScope>,
        keys: Metadata,
        slot: Slot,
        timeout: Option<Duration>,
        work: W,
    ) -> Self {
        // The time counts from here, the moment of the call, whether or not the child was polled yet.
        let deadline = timeout.map(|timeout| (Box::pin(tokio::time::sleep(timeout)), timeout));
        Self {
            announcement: Some(announcement),
            scope,
            keys,
            deadline,
            events_since_look: 0,
            running: Some(slot),
            is_ended: false,
            work,
        }
    }
}

impl<W: Work> Stream for Child<W> {
    type Item = ToolYield;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ToolYield>> {
        let mut this = self.project();
        if let Some(announcement) = this.announcement.take() {
            return Poll::Ready(Some(ToolYield::Event(announcement)));
        }
        if *this.is_ended {
            return Poll::Ready(None);
        }
        loop {
            let look_now = *this.events_since_look >= EVENTS_PER_LOOK;
            let polled = if look_now {
                Ok(Poll::Pending)
            } else {
                // Our own runs catch their models' and tools' panics; a foreign stream catches nothing.
                catch_unwind(AssertUnwindSafe(|| this.work.as_mut().poll_next(cx)))
            };
            match polled {
                Ok(Poll::Ready(Some(event))) => {
                    *this.events_since_look += 1;
                    return Poll::Ready(Some(ToolYield::Event(event)));
                }
                Ok(Poll::Ready(None)) => {
                    *this.is_ended = true;
                    *this.running = None;
                    *this.deadline = None;
                    let result = this.work.result().cloned();
                    let result = result.unwrap_or_else(|| RunResult::new(Outcome::Failed));
                    return Poll::Ready(Some(ToolYield::Chunk(chunk(&result, this.scope, this.keys))));
                }
                Ok(Poll::Pending) => {
                    *this.events_since_look = 0;
                    match this.deadline.as_mut().map(|(sleep, timeout)| (sleep.as_mut().poll(cx), *timeout)) {
                        Some((Poll::Ready(()), timeout)) => {
                            *this.deadline = None;
                            let text = format!("timed out after {} s", timeout.as_secs_f64());
                            cut(
                                this.work.as_mut(),
                                Outcome::TimedOut,
                                ErrorInfo::new(ErrorType::UPSTREAM, text),
                            );
                        }
                        Some((Poll::Pending, _)) | None if look_now => {}
                        Some((Poll::Pending, _)) | None => return Poll::Pending,
                    }
                }
                Err(panic) => {
                    let text = format!("the sub-agent panicked: {}", panic_message(&*panic));
                    cut(this.work.as_mut(), Outcome::Failed, ErrorInfo::new(ErrorType::INTERNAL, text));
                }
            }
        }
    }
}

/// Stops the work. What is dropped then is somebody else's code, and may panic; the work has ended all the same.
fn cut(work: Pin<&mut impl Work>, outcome: Outcome, error: ErrorInfo) {
    if catch_unwind(AssertUnwindSafe(|| work.cut(outcome, error))).is_err() {
        tracing::warn!("a sub-agent panicked while it was stopped");
    }
}

/// The result for the caller's model and program.
fn chunk(result: &RunResult, scope: &ChildScope, keys: &Metadata) -> ToolChunk {
    let said = result.message.as_ref().map(|message| message.content.clone()).unwrap_or_default();
    let content = if result.outcome == Outcome::Completed {
        if said.is_empty() {
            vec![TextBlock::new("The sub-agent ended without saying anything.").into()]
        } else {
            said
        }
    } else {
        let why = match &result.error {
            Some(error) => error.message.clone(),
            None => format!("the sub-agent ended as {}", result.outcome),
        };
        without_success(why, said)
    };
    let mut metadata = Metadata::default()
        .with("subagent_id", scope.subagent_id.as_str())
        .with("child_session_id", scope.child_session_id.as_str())
        .with("outcome", result.outcome.as_str());
    if !result.files.is_empty()
        && let Ok(files) = Json::new(&result.files)
    {
        metadata = metadata.with_json("files", files);
    }
    ToolChunk::new(content).state(result.outcome.result_state()).metadata(metadata.merged(keys))
}

/// Why it did not succeed, then what it had said.
fn without_success(why: String, said: Vec<ContentBlock>) -> Vec<ContentBlock> {
    if said.is_empty() {
        return vec![TextBlock::new(why).into()];
    }
    let mut content = vec![TextBlock::new(format!("{why}\n\nBefore that, the sub-agent said:\n")).into()];
    content.extend(said);
    content
}

impl<W> fmt::Debug for Child<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("scope", &self.scope)
            .field("is_ended", &self.is_ended)
            .finish_non_exhaustive()
    }
}
