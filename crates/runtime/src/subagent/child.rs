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
    ChildScope, ContentBlock, ErrorInfo, ErrorType, Event, Json, Metadata, Outcome, SessionId, SubagentId,
    TextBlock, ToolChunk,
};
use futures::Stream;
use pin_project::pin_project;
use tokio::sync::oneshot;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{deadline::Deadline, spawn::Place};
use crate::{
    limits::Slot,
    run::{AgentRun, Looks, OpenRun, RunControl, RunResult, Shared, panic_message},
};

/// What runs in a child: its events, the last of them its terminal, then what it came to.
pub(crate) trait Work: Stream<Item = Arc<Event>> {
    /// What it came to, once the terminal was given.
    fn result(&self) -> Option<&RunResult>;

    /// Stops it and ends it with this outcome: its terminal is the next and last event, even where what is dropped for it
    /// panics.
    fn cut(self: Pin<&mut Self>, outcome: Outcome, error: Option<ErrorInfo>);
}

impl Work for AgentRun {
    fn result(&self) -> Option<&RunResult> {
        AgentRun::result(self)
    }

    fn cut(self: Pin<&mut Self>, outcome: Outcome, error: Option<ErrorInfo>) {
        AgentRun::cut(self.get_mut(), outcome, error);
    }
}

/// Who a child is, and what it may take.
pub(crate) struct Birth {
    pub(super) announcement: Option<Arc<Event>>,
    pub(crate) scope: Arc<ChildScope>,
    /// The caller's keys, for the result.
    pub(super) keys: Metadata,
    pub(super) place: Place,
    pub(super) slot: Slot,
    pub(crate) timeout: Option<Duration>,
    pub(super) control: Arc<RunControl>,
    pub(super) open: OpenRun,
    pub(super) shared: Arc<Shared>,
    /// What the caller's model is told behind the result.
    pub(super) footer: Option<String>,
    /// Told what it came to.
    pub(super) report: Option<oneshot::Sender<RunResult>>,
}

/// The announcement, the child's events, and the result for the caller's model.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the child and frees its slot; the processor closes what
/// it left open.
#[pin_project]
pub(super) struct Child<W> {
    announcement: Option<Arc<Event>>,
    footer: Option<String>,
    report: Option<oneshot::Sender<RunResult>>,
    scope: Arc<ChildScope>,
    keys: Metadata,
    deadline: Option<Deadline>,
    control: Arc<RunControl>,
    place: Place,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Whether it was stopped, by its time or by somebody: that happens once.
    is_cut: bool,
    looks: Looks,
    shared: Arc<Shared>,
    /// Given back when the child has ended, not when the caller's model has read the result.
    running: Option<(Slot, OpenRun)>,
    is_ended: bool,
    #[pin]
    work: W,
}

impl<W: Work> Child<W> {
    pub(super) fn new(birth: Birth, work: W) -> Self {
        let Birth { announcement, scope, keys, place, slot, timeout, control, open, shared, footer, report } =
            birth;
        Self {
            announcement,
            footer,
            report,
            scope,
            keys,
            // The time counts from here, the moment of the call, whether or not the child was polled yet.
            deadline: timeout.map(Deadline::new),
            stopped: Box::pin(control.token().clone().cancelled_owned()),
            control,
            place,
            is_cut: false,
            looks: Looks::default(),
            shared,
            running: Some((slot, open)),
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
            // Nothing of it starts once it was stopped, however much it has ready.
            let is_stopping = !*this.is_cut && is_stopping(this.control, *this.place);
            let look_now = this.looks.is_due(this.shared) || is_stopping;
            let polled = if look_now {
                Ok(Poll::Pending)
            } else {
                // Our own runs catch their models' and tools' panics; a foreign stream catches nothing.
                catch_unwind(AssertUnwindSafe(|| this.work.as_mut().poll_next(cx)))
            };
            match polled {
                Ok(Poll::Ready(Some(event))) => {
                    this.looks.passed();
                    return Poll::Ready(Some(ToolYield::Event(event)));
                }
                Ok(Poll::Ready(None)) => {
                    *this.is_ended = true;
                    *this.running = None;
                    *this.deadline = None;
                    let lost = RunResult::new(Outcome::Failed);
                    let result = this.work.result().unwrap_or(&lost);
                    let mut chunk = chunk(result, this.scope, this.keys);
                    chunk.content.extend(this.footer.take().map(|footer| TextBlock::new(footer).into()));
                    if let Some(report) = this.report.take() {
                        // Whoever spawned it need not wait for what it comes to.
                        report.send(result.clone()).ok();
                    }
                    return Poll::Ready(Some(ToolYield::Chunk(chunk)));
                }
                Ok(Poll::Pending) => {
                    this.looks.paused();
                    if *this.is_cut {
                        if !look_now {
                            return Poll::Pending;
                        }
                    } else if is_stopping || this.stopped.as_mut().poll(cx).is_ready() {
                        *this.is_cut = true;
                        cut(this.work.as_mut(), Outcome::Interrupted, None);
                    } else if let Some(deadline) = this.deadline
                        && deadline.poll(this.control.is_asking(cx.waker()), cx).is_ready()
                    {
                        *this.is_cut = true;
                        let text = format!("timed out after {} s", deadline.timeout().as_secs_f64());
                        let error = ErrorInfo::new(ErrorType::UPSTREAM, text);
                        cut(this.work.as_mut(), Outcome::TimedOut, Some(error));
                    } else if !look_now {
                        return Poll::Pending;
                    }
                }
                Err(panic) => {
                    *this.is_cut = true;
                    let text = format!("the sub-agent panicked: {}", panic_message(&*panic));
                    let error = ErrorInfo::new(ErrorType::INTERNAL, text);
                    cut(this.work.as_mut(), Outcome::Failed, Some(error));
                }
            }
        }
    }
}

/// Whether nothing of the child may start any more. Where it runs with its parent, those above it were asked before.
fn is_stopping(control: &RunControl, place: Place) -> bool {
    match place {
        Place::WithParent => control.token().is_cancelled(),
        Place::OwnTask => control.is_stopping(),
    }
}

/// Stops the work. What is dropped then is somebody else's code, and may panic; the work has ended all the same.
fn cut(work: Pin<&mut impl Work>, outcome: Outcome, error: Option<ErrorInfo>) {
    if catch_unwind(AssertUnwindSafe(|| work.cut(outcome, error))).is_err() {
        tracing::warn!("a sub-agent panicked while it was stopped");
    }
}

/// The result for the caller's model and program.
fn chunk(result: &RunResult, scope: &ChildScope, keys: &Metadata) -> ToolChunk {
    result_chunk(result, (&scope.subagent_id, &scope.child_session_id), keys)
}

/// The result of a sub-agent in a session.
pub(crate) fn result_chunk(
    result: &RunResult,
    (subagent, session): (&SubagentId, &SessionId),
    keys: &Metadata,
) -> ToolChunk {
    let said = result.message.as_ref().map(|message| message.content.clone()).unwrap_or_default();
    let said = if said.is_empty() { result.said.clone() } else { said };
    let content = if result.outcome == Outcome::Completed {
        if said.is_empty() {
            vec![TextBlock::new("The sub-agent ended without saying anything.").into()]
        } else {
            said
        }
    } else {
        let why = match &result.error {
            Some(error) => error.message.clone(),
            None if result.outcome == Outcome::Interrupted => "the sub-agent was stopped".to_owned(),
            None => format!("the sub-agent ended as {}", result.outcome),
        };
        without_success(why, said)
    };
    let mut metadata = Metadata::default()
        .with_json("subagent_id", subagent.as_str().into())
        .with_json("child_session_id", session.as_str().into())
        .with_json("outcome", result.outcome.as_str().into());
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
