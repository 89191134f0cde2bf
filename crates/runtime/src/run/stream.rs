//! One run as a stream of its events.

use std::{
    any::Any,
    collections::VecDeque,
    future::Future as _,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anabranch_pipeline::{Acting, ExecuteToolCalls, Executed};
use anabranch_proto::{ErrorInfo, ErrorType, Event, EventKind, Message, Outcome, Scope};
use futures::{Stream, future::BoxFuture};
use tokio::time::Sleep;

use super::{
    Looks, RunIdentity, RunResult, Shared,
    machine::{Machine, Next},
};
use crate::{Agent, ModelError, ModelItem, ModelRequest, ModelStream, Prompt, question::Confirm};

/// How many items of a model that give no event are taken in one poll, before whoever else waits has its turn.
const SILENT_ITEMS: u32 = 32;

/// Stream of one run's events, those of its children among them; the last is the run's terminal.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the run; nothing is said of it then, for whoever drops
/// it knows why.
#[must_use = "streams do nothing unless polled"]
pub(crate) struct AgentRun {
    machine: Machine,
    acting: Acting,
    phase: Phase,
    /// The run has ended and its own background children have not: they are gone before it says so.
    stopping: Option<BoxFuture<'static, ()>>,
}

enum Phase {
    /// Nothing runs: the model is to be called when what is ready was read.
    CallModel,
    Model(Box<Asked>),
    Tools(Box<ExecuteToolCalls>),
    /// A background child is to end.
    Task(BoxFuture<'static, ()>),
    Ended,
}

/// A model at work.
struct Asked {
    stream: ModelStream,
    deadline: Pin<Box<Sleep>>,
    looks: Looks,
    is_late: bool,
}

impl Asked {
    /// The model's next item; at its deadline an error.
    fn poll(
        &mut self,
        limit: Duration,
        shared: &Shared,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<ModelItem, ModelError>>> {
        let look_first = self.looks.is_due(shared);
        if !look_first {
            match catch_unwind(AssertUnwindSafe(|| self.stream.as_mut().poll_next(cx))) {
                Ok(Poll::Ready(item)) => {
                    self.looks.passed();
                    return Poll::Ready(item);
                }
                Ok(Poll::Pending) => {}
                Err(panic) => return Poll::Ready(Some(Err(panicked(&*panic)))),
            }
        }
        self.looks.paused();
        if self.deadline.as_mut().poll(cx).is_ready() {
            self.is_late = true;
            let text = format!("the model did not finish within {} s", limit.as_secs_f64());
            return Poll::Ready(Some(Err(ModelError::new(ErrorType::UPSTREAM, text))));
        }
        if look_first { self.poll(limit, shared, cx) } else { Poll::Pending }
    }
}

impl AgentRun {
    /// A run of an agent on a prompt, after a conversation.
    pub(crate) fn new(
        agent: Agent,
        source_name: Arc<str>,
        identity: RunIdentity,
        history: Vec<Message>,
        prompt: Prompt,
    ) -> Self {
        let acting = agent.inner().acting.clone();
        let permissions = Arc::clone(&identity.permissions);
        let acting = if permissions.is_empty() {
            acting
        } else {
            let confirm = Confirm::new(permissions, Arc::clone(acting.toolkit()));
            acting.outermost(Arc::new(confirm))
        };
        let machine = Machine::new(agent, source_name, identity, history, prompt);
        Self { machine, acting, phase: Phase::CallModel, stopping: None }
    }

    /// What the run came to, once its terminal was given.
    pub(crate) fn result(&self) -> Option<&RunResult> {
        self.machine.result()
    }

    /// Whether the terminal was given: nothing follows.
    pub(crate) fn has_ended(&self) -> bool {
        self.machine.result().is_some() && self.machine.ready.is_empty()
    }

    /// Stops whatever runs and ends the run with this outcome: its terminal is the next and last event.
    pub(crate) fn cut(&mut self, outcome: Outcome, error: Option<ErrorInfo>) {
        // What was made and not yet read is still a part of the run.
        let next = self.machine.cut(outcome, error);
        self.follow(next);
    }

    fn follow(&mut self, next: Next) {
        if let Err(error) = self.stop() {
            tracing::warn!(%error, "the run goes on");
        }
        self.phase = match next {
            Next::CallModel(request) => match self.call(request) {
                Ok(phase) => phase,
                Err(error) => {
                    self.machine.model_failed(error);
                    Phase::Ended
                }
            },
            Next::RunTools(calls) => {
                let caller = Arc::clone(self.machine.caller());
                Phase::Tools(Box::new(ExecuteToolCalls::new(calls, caller, &self.acting)))
            }
            Next::AwaitTask => Phase::Task(Box::pin(await_task(self.machine.identity().clone()))),
            Next::End => Phase::Ended,
        };
        if matches!(self.phase, Phase::Ended) && self.stopping.is_none() {
            self.stop_tasks();
        }
    }

    /// Stops the background children that do not outlive the run.
    fn stop_tasks(&mut self) {
        let RunIdentity { session_id, shared, .. } = self.machine.identity();
        let stopped = shared.tasks.stop_awaited(session_id);
        if !stopped.is_empty() {
            let tasks = Arc::clone(&shared.tasks);
            self.stopping = Some(Box::pin(async move {
                stopped.gone(&tasks).await;
                stopped.finish(&tasks);
            }));
        }
    }

    /// What the run has said and nobody has read, but not that it has ended: it is being stopped.
    pub(crate) fn take_ready(&mut self) -> VecDeque<Arc<Event>> {
        let mut ready = std::mem::take(&mut self.machine.ready);
        let is_end = |event: &Arc<Event>| {
            event.scope.same_run(&self.machine.identity().scope)
                && matches!(event.kind, EventKind::ReplyEnd(_) | EventKind::StreamComplete(_))
        };
        if let Some(end) = ready.iter().position(is_end) {
            ready.truncate(end);
        }
        ready
    }

    /// Drops what runs. That is somebody else's code, and may panic.
    fn stop(&mut self) -> Result<(), ModelError> {
        let phase = mem::replace(&mut self.phase, Phase::Ended);
        catch_unwind(AssertUnwindSafe(|| drop(phase))).map_err(|panic| panicked(&*panic))
    }

    fn call(&self, request: ModelRequest) -> Result<Phase, ModelError> {
        let agent = self.machine.agent().inner();
        let stream = catch_unwind(AssertUnwindSafe(|| agent.model.stream(request)))
            .map_err(|panic| panicked(&*panic))?;
        let deadline = Box::pin(tokio::time::sleep(agent.limits.model_call));
        Ok(Phase::Model(Box::new(Asked { stream, deadline, looks: Looks::default(), is_late: false })))
    }

    /// Goes on until something is ready or the run has ended.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.phase {
            Phase::CallModel => {
                let next = self.machine.call_model();
                self.follow(next);
            }
            Phase::Model(asked) => {
                let limit = self.machine.agent().inner().limits.model_call;
                let next = match std::task::ready!(asked.poll(limit, &self.machine.identity().shared, cx)) {
                    Some(Ok(item)) => self.machine.model_item(item),
                    Some(Err(error)) if asked.is_late => {
                        Some(self.machine.cut(Outcome::TimedOut, Some(error.into())))
                    }
                    Some(Err(error)) => Some(self.machine.model_failed(error)),
                    // An answer is whole when its stream is gone.
                    None => Some(match self.stop() {
                        Ok(()) => self.machine.model_ended(),
                        Err(error) => self.machine.model_failed(error),
                    }),
                };
                if let Some(next) = next {
                    self.follow(next);
                }
            }
            Phase::Tools(tools) => match std::task::ready!(Pin::new(&mut **tools).poll_next(cx)) {
                Some(Executed::Event(event)) => self.machine.pass(event),
                Some(Executed::Response(call, response)) => self.machine.response(&call, &response),
                None => self.phase = Phase::CallModel,
            },
            Phase::Task(ended) => {
                std::task::ready!(ended.as_mut().poll(cx));
                let next = self.machine.go_on();
                self.follow(next);
            }
            Phase::Ended => {}
        }
        Poll::Ready(())
    }
}

impl Drop for AgentRun {
    fn drop(&mut self) {
        // Whoever drops a run in mid-work says what became of it; its background children are told to end here.
        let RunIdentity { session_id, scope, kept, shared, .. } = self.machine.identity();
        if *scope != Scope::Root {
            drop(shared.tasks.stop_awaited(session_id));
            if kept.is_none() {
                // Nobody will ever read it.
                drop(shared.tasks.take_untold(session_id));
            }
            self.machine.stopped();
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> ModelError {
    ModelError::new(ErrorType::INTERNAL, format!("the model panicked: {}", panic_message(panic)))
}

/// Waits until one of a run's own tasks has ended, or something was said to it.
async fn await_task(identity: RunIdentity) {
    let RunIdentity { session_id, scope, control, shared, .. } = identity;
    // Announcements wait for readers with the rest of the stream. What was not announced in twice that time, a layer lost.
    let lost = shared.limits.stall.saturating_mul(2).saturating_add(Duration::from_secs(1));
    tokio::select! {
        () = shared.tasks.one_ended(&session_id, scope != Scope::Root) => {}
        () = control.inbox.arrived() => {}
        () = tokio::time::sleep(lost) => shared.tasks.discard_of(&session_id),
    }
}

/// Drops what is somebody else's and may panic.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        tracing::warn!(panic = panic_message(&*panic), "an agent panicked when it was dropped");
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl Stream for AgentRun {
    type Item = Arc<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        for _ in 0..SILENT_ITEMS {
            if let Some(stopping) = &mut self.stopping {
                std::task::ready!(stopping.as_mut().poll(cx));
                self.stopping = None;
            }
            if let Some(event) = self.machine.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if matches!(self.phase, Phase::Ended) {
                return Poll::Ready(None);
            }
            std::task::ready!(self.advance(cx));
        }
        // A model may be ready for ever and give nothing; others have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
