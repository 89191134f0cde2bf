//! The task of a session: runs its replies, admits their events, appends them.

use std::{
    future::{Future as _, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use anabranch_proto::{
    Admitted, ErrorInfo, ErrorType, Event, EventKind, Outcome, SessionId, SpawnMechanism, ToolResultState,
};
use anabranch_session::{AppendError, Ending, Status};
use futures::{FutureExt, Stream};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{handle::Core, window::Window};
use crate::{
    Agent, Prompt, SessionError,
    run::{AgentRun, RunControl, RunIdentity, panic_message},
    task::{BATCH, Entry, Stopped},
};

/// How many prompts may wait; whoever prompts beyond that waits in turn. People type them, so a few suffice.
pub(super) const PROMPTS_WAITING: usize = 32;

/// How many bytes of prompts may wait; a larger one waits alone.
pub(super) const PROMPT_BYTES: usize = 16 * 1024 * 1024;

/// After how many events the driver lets other tasks run.
pub(super) const EVENTS_PER_TURN: usize = 64;

/// What a handle asks of the driver.
pub(super) struct Command {
    pub(super) prompt: Prompt,
    pub(super) cancel: CancellationToken,
    /// The reply's reader, which holds producers back.
    pub(super) window: Arc<Window>,
    /// Told where the run begins.
    pub(super) started: oneshot::Sender<Started>,
    /// The room that the prompt takes while it waits.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// A run that has begun.
#[derive(Debug)]
pub(super) struct Started {
    /// The number of the last event before the run.
    pub(super) after: u64,
    pub(super) run: Arc<RunEnd>,
}

/// Where a run ends.
#[derive(Debug, Default)]
pub(super) struct RunEnd(AtomicU64);

impl RunEnd {
    /// The number of the run's last event, once it is known.
    pub(super) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|seq| *seq > 0)
    }

    fn set(&self, seq: u64) {
        self.0.store(seq, Ordering::Release);
    }
}

pub(super) struct Driver {
    agent: Agent,
    identity: RunIdentity,
    core: Arc<Core>,
    queue: mpsc::Receiver<Command>,
    /// What background children said.
    ingress: mpsc::Receiver<Entry>,
    /// Admitted and not yet appended.
    out: Vec<Admitted>,
    out_bytes: usize,
}

/// What a turn of a run came to.
enum Turn {
    /// There may be more at once.
    More,
    /// Nothing is ready.
    Waiting,
    /// The run has ended.
    Ended,
    /// Somebody stopped it.
    Cancelled,
}

/// What a driver does between two runs.
enum Idle {
    Close,
    Entry(Entry),
    Command(Command),
}

/// Whose turn it is between two runs, where both have something.
#[derive(Clone, Copy)]
enum First {
    Task,
    Prompt,
}

/// Says that the session has ended, in order or not, whatever ends its task.
struct Ended(Arc<Core>);

impl Drop for Ended {
    fn drop(&mut self) {
        // Nothing happens where the session ended in order or a reason is known.
        self.0.ending.set(Err(SessionError::Aborted)).ok();
        // Where the driver itself was stopped they are not gone yet, but will be.
        drop(self.0.tasks.stop_all());
        self.0.ended.cancel();
    }
}

impl Driver {
    pub(super) fn new(
        agent: Agent,
        identity: RunIdentity,
        core: Arc<Core>,
        queue: mpsc::Receiver<Command>,
        ingress: mpsc::Receiver<Entry>,
    ) -> Self {
        Self { agent, identity, core, queue, ingress, out: Vec::new(), out_bytes: 0 }
    }

    /// Answers prompts until the session is closed or nobody can prompt any more.
    pub(super) async fn run(mut self) {
        let ended = Ended(Arc::clone(&self.core));
        let closing = self.core.closing.clone();
        let mut first = First::Task;
        loop {
            match self.next(&closing, first).await {
                Idle::Close => break,
                Idle::Entry(entry) => {
                    self.take_entry(entry);
                    self.take_waiting_entries(EVENTS_PER_TURN / BATCH);
                    self.append();
                    self.wait_for_readers(&closing).await;
                    tokio::task::yield_now().await;
                    first = First::Prompt;
                }
                Idle::Command(command) => {
                    self.answer(command).await;
                    first = First::Task;
                }
            }
        }
        self.queue.close();
        self.core.slots.set_stopping(true);
        // What they had said may announce others, which start with that.
        loop {
            let stopped = self.core.tasks.stop_all();
            if stopped.is_empty() {
                break;
            }
            self.end_tasks(&stopped).await;
        }
        self.close(|core, out| {
            core.with_processor(|processor| processor.close(Outcome::Interrupted, &*core.stamp, out));
        });
        self.core.ending.set(Ok(())).ok();
        drop(ended);
    }

    /// What there is to do between two runs. What is to end ends, and else it is turn about: background children that always
    /// have something to say keep nobody from prompting.
    async fn next(&mut self, closing: &CancellationToken, first: First) -> Idle {
        match first {
            First::Task => tokio::select! {
                biased;
                () = closing.cancelled() => Idle::Close,
                Some(entry) = self.ingress.recv() => Idle::Entry(entry),
                command = self.queue.recv() => command.map_or(Idle::Close, Idle::Command),
            },
            First::Prompt => tokio::select! {
                biased;
                () = closing.cancelled() => Idle::Close,
                command = self.queue.recv() => command.map_or(Idle::Close, Idle::Command),
                Some(entry) = self.ingress.recv() => Idle::Entry(entry),
            },
        }
    }

    /// One run, from its prompt to its terminal.
    async fn answer(&mut self, command: Command) {
        let Command { prompt, cancel, window, started, room } = command;
        drop(room);
        self.core.hold_for(&window);
        // All that was admitted is appended. Readers may not see all of that yet.
        let after = self.core.with_processor(|processor| processor.last_seq());
        let end = Arc::new(RunEnd::default());
        let history = self.core.with_processor(|processor| processor.messages().to_vec());
        // A reply that nobody waits for any more is given all the same.
        started.send(Started { after, run: Arc::clone(&end) }).ok();

        let mut identity = self.identity.clone();
        let control = RunControl::top(self.core.id.clone(), cancel.clone());
        let open = self.core.runs.open(&control);
        identity.control = Arc::clone(&control);
        identity.metadata = identity.metadata.merged(&prompt.metadata);
        let name = Arc::clone(self.agent.name());
        let mut run = Box::pin(AgentRun::new(self.agent.clone(), name, identity, history, prompt));
        // Models and tools are caught further in; a panic here is a fault of our own, and still no lost stream.
        let driven = AssertUnwindSafe(self.drive(run.as_mut(), &cancel)).catch_unwind().await;
        let is_cancelled = matches!(&driven, Ok(ending) if ending.outcome == Outcome::Interrupted);
        // It gave its terminal itself.
        let is_told = matches!(&driven, Ok(ending) if ending.outcome == Outcome::Completed);
        let ending = driven.unwrap_or_else(|panic| {
            let text = format!("the agent's loop panicked: {}", panic_message(&*panic));
            Ending::new(Outcome::Failed).error(ErrorInfo::new(ErrorType::INTERNAL, text))
        });
        // What the run itself has said stands; a hint, say, was taken and is given once.
        for event in run.take_ready() {
            self.admit(event);
        }
        // Nothing is spawned by it from here on, and its children's tasks and slots are gone before the stream says so.
        control.cancel();
        if catch_unwind(AssertUnwindSafe(|| drop(run))).is_err() {
            tracing::warn!("a model, a tool or a layer panicked while it was stopped");
        }
        drop(open);
        control.gone().await;
        self.core.tasks.discard_unannounced(&control);
        let stopped = if is_cancelled {
            self.core.tasks.stop_with_reply(&self.core.id)
        } else {
            self.core.tasks.stop_awaited(&self.core.id)
        };
        self.end_tasks(&stopped).await;
        let root = self.core.id.clone();
        let runs = Arc::clone(&self.core.runs);
        let orphans = self.core.tasks.stop_orphans(|parent| *parent == root || runs.get(parent).is_some());
        self.end_tasks(&orphans).await;
        if !is_told {
            self.core.answered();
        }
        self.close(|core, out| {
            core.with_processor(|processor| processor.close_reply(ending, &*core.stamp, out));
        });
        end.set(self.core.with_processor(|processor| processor.last_seq()));
        window.open();
    }

    /// Drives the run to its end, or until somebody stops it. Says how to close what it leaves open.
    async fn drive(&mut self, mut run: Pin<&mut AgentRun>, cancel: &CancellationToken) -> Ending {
        let closing = self.core.closing.clone();
        // Closing the session stops the run too.
        let mut stopped = pin!(async {
            tokio::select! { () = cancel.cancelled() => {}, () = closing.cancelled() => {} }
        });
        let mut has_begun = false;
        let mut admitted_since_yield = 0;
        loop {
            let turn = poll_fn(|cx| {
                // A run has a prompt before it can be stopped: without one there would be nothing to close.
                if has_begun && stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Turn::Cancelled);
                }
                let limit = if has_begun { EVENTS_PER_TURN } else { 1 };
                let turn = self.turn(run.as_mut(), cx, limit, cancel);
                match if has_begun { self.turn_of_tasks(turn, cx) } else { turn } {
                    Turn::Waiting if self.out.is_empty() => Poll::Pending,
                    turn @ (Turn::More | Turn::Waiting | Turn::Ended | Turn::Cancelled) => Poll::Ready(turn),
                }
            })
            .await;
            has_begun = true;
            admitted_since_yield += self.out.len();
            if matches!(turn, Turn::Ended) {
                self.core.answered();
            }
            self.append();
            match turn {
                Turn::Ended => return Outcome::Completed.into(),
                Turn::Cancelled => return Outcome::Interrupted.into(),
                Turn::More | Turn::Waiting => {
                    self.wait_for_readers(cancel).await;
                    // Who waits for a moment between any two events is never at rest either.
                    if matches!(turn, Turn::More) || admitted_since_yield >= EVENTS_PER_TURN {
                        admitted_since_yield = 0;
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    /// Takes what is ready, up to `limit` events and as many bytes as a reader can take at once.
    fn turn(
        &mut self,
        mut run: Pin<&mut AgentRun>,
        cx: &mut Context<'_>,
        limit: usize,
        cancel: &CancellationToken,
    ) -> Turn {
        for taken in 0..limit {
            // One of its own tools may have stopped it: the next call or turn of the model does not start.
            if taken > 0 && (cancel.is_cancelled() || self.core.closing.is_cancelled()) {
                return Turn::Cancelled;
            }
            match run.as_mut().poll_next(cx) {
                Poll::Ready(Some(event)) => {
                    self.admit(event);
                    // Whoever reads the terminal finds the next prompt under way: nobody else has a turn in between.
                    if run.has_ended() {
                        return Turn::Ended;
                    }
                    if self.out_bytes >= self.core.limits.bytes_per_turn() {
                        return Turn::More;
                    }
                }
                Poll::Ready(None) => return Turn::Ended,
                Poll::Pending => return Turn::Waiting,
            }
        }
        Turn::More
    }

    /// After a turn of the run, one of the background children: as many events, whatever the run has.
    fn turn_of_tasks(&mut self, turn: Turn, cx: &mut Context<'_>) -> Turn {
        if matches!(turn, Turn::Ended | Turn::Cancelled) {
            return turn;
        }
        for _ in 0..EVENTS_PER_TURN / BATCH {
            match self.ingress.poll_recv(cx) {
                Poll::Ready(Some(entry)) => self.take_entry(entry),
                Poll::Ready(None) | Poll::Pending => return turn,
            }
        }
        Turn::More
    }

    /// Takes what is there of background children, up to so many batches.
    fn take_waiting_entries(&mut self, limit: usize) {
        for _ in 0..limit {
            let Ok(entry) = self.ingress.try_recv() else { return };
            self.take_entry(entry);
        }
    }

    /// Takes what a background child said, and what it came to.
    fn take_entry(&mut self, entry: Entry) {
        let Entry { task, events, end, .. } = entry;
        // What was on its way when somebody else ended the child is nobody's, nor is what those below it said.
        if !self.has_ended(task) {
            for event in events {
                self.admit(event);
            }
        }
        if let Some(end) = end {
            let has_ended = self.has_ended(task);
            if let Some((child, _, control)) = self.core.tasks.child(task) {
                let outcome = if end.state == ToolResultState::Interrupted {
                    Outcome::Interrupted
                } else {
                    Outcome::Failed
                };
                if !has_ended {
                    self.close_session(&child, outcome.into());
                }
                self.core.tasks.discard_unannounced(&control);
            }
            self.core.tasks.finish(task, end);
        }
    }

    /// Whether the run of a task's child has its terminal in the session's stream.
    fn has_ended(&self, task: usize) -> bool {
        let Some((child, run, _)) = self.core.tasks.child(task) else { return true };
        self.core.with_processor(|processor| {
            let record = processor.tree().get(&child);
            record.is_some_and(|record| {
                record.runs > run || (record.runs == run && matches!(record.status, Status::Ended(_)))
            })
        })
    }

    /// Admits an event, and starts the background child that it announces. With a child's end those go that it was to
    /// wait for: it may have ended before they began.
    fn admit(&mut self, event: Arc<Event>) {
        let spawned = if let EventKind::SpawnSessionStart(spawn) = &event.kind
            && spawn.spawn_mechanism != SpawnMechanism::Sync
        {
            Some((spawn.child_session_id.clone(), spawn.run.map_or(1, |run| run.max(1))))
        } else {
            None
        };
        let result_of = if let EventKind::ToolResultEnd(end) = &event.kind {
            Some((event.scope.session(&self.core.id).clone(), end.tool_call_id.clone()))
        } else {
            None
        };
        let ended = event.scope.child().filter(|_| matches!(event.kind, EventKind::StreamComplete(_)));
        let ended = ended.map(|child| child.child_session_id.clone());
        let Self { core, out, out_bytes, .. } = self;
        let before = out.len();
        core.with_processor(|processor| {
            processor.process(event, &*core.stamp, out);
            core.slots.note_tree(processor.tree().len().saturating_sub(1));
        });
        *out_bytes += bytes(out.get(before..).unwrap_or_default());
        if let Some(child) = ended {
            drop(core.tasks.stop_awaited(&child));
        }
        if let Some((child, run)) = spawned {
            let (is_admitted, is_waited_for) = core.with_processor(|processor| {
                let tree = processor.tree();
                let record = tree.get(&child);
                let is_admitted =
                    record.is_some_and(|record| record.status == Status::Running && record.runs == run);
                let is_background = record.is_some_and(|record| {
                    record.depth == 1
                        && (record.mechanism == Some(SpawnMechanism::AsyncWorker)
                            || tree.root().status != Status::Running)
                });
                (is_admitted, !is_background)
            });
            core.tasks.announced(&child, run, is_admitted, is_waited_for);
        }
        if let Some((session, call)) = result_of {
            core.tasks.call_ended(&session, &call);
        }
    }

    /// Closes what tasks that were stopped left open, once nothing of them lives.
    async fn end_tasks(&mut self, stopped: &Stopped) {
        if stopped.is_empty() {
            return;
        }
        stopped.gone(&self.core.tasks).await;
        // What they had said by then is a part of the stream.
        self.take_waiting_entries(usize::MAX);
        for child in stopped.sessions() {
            self.close_session(child, Outcome::Interrupted.into());
        }
        stopped.finish(&self.core.tasks);
        self.append();
    }

    fn close_session(&mut self, child: &SessionId, ending: Ending) {
        let Self { core, out, out_bytes, .. } = self;
        let before = out.len();
        core.with_processor(|processor| processor.close_session(child, ending, &*core.stamp, out));
        *out_bytes += bytes(out.get(before..).unwrap_or_default());
    }

    fn close(&mut self, close: impl FnOnce(&Core, &mut Vec<Admitted>)) {
        close(&self.core, &mut self.out);
        self.out_bytes = bytes(&self.out);
        self.append();
    }

    /// Appends what was admitted, and tells lossless readers how much there is to read.
    ///
    /// Once the log has refused a batch nothing is appended any more: a hole in the numbers would be a lie.
    fn append(&mut self) {
        let Some(last) = self.out.last().map(|admitted| admitted.seq) else { return };
        let bytes = std::mem::take(&mut self.out_bytes);
        if self.core.ending.get().is_none() {
            let windows = self.core.windows.lock().unwrap_or_else(PoisonError::into_inner);
            // A log is somebody else's code too.
            let appended = catch_unwind(AssertUnwindSafe(|| self.core.log.append(&self.out)));
            let appended = appended.unwrap_or_else(|panic| {
                Err(AppendError::failed(format!("the log panicked: {}", panic_message(&*panic))))
            });
            match appended {
                Ok(()) => {
                    self.core.last.store(last, Ordering::Release);
                    windows.iter().for_each(|window| window.produce(last, bytes));
                }
                Err(error) => {
                    let why: &dyn std::error::Error = &error;
                    tracing::error!(
                        last,
                        error = why,
                        "the log takes no more events; the session is being stopped"
                    );
                    self.core.ending.set(Err(SessionError::LogRefused(error))).ok();
                    self.core.closing.cancel();
                }
            }
        }
        self.out.clear();
    }

    /// Waits while a lossless reader's window is full, for at most the stall limit; then that reader holds nobody back
    /// until it has caught up.
    async fn wait_for_readers(&self, cancel: &CancellationToken) {
        // A log that cannot keep up holds producers back too, until it can or has failed.
        if let Some(room) = self.core.log.room() {
            self.core.closing.run_until_cancelled(cancel.run_until_cancelled(room)).await;
        }
        let windows = self.core.held_windows();
        if !windows.iter().any(|window| window.is_full()) {
            return;
        }
        let has_room = async {
            for window in &windows {
                window.has_room().await;
            }
        };
        let room = tokio::time::timeout(self.core.limits.stall, has_room);
        let room = self.core.closing.run_until_cancelled(cancel.run_until_cancelled(room));
        if let Some(Some(Err(_))) = room.await {
            tracing::warn!(
                "a reader held the session back for as long as it may; it is not waited for until it has caught up"
            );
            windows.iter().filter(|window| window.is_full()).for_each(|window| window.give_up());
        }
        self.identity.shared.patience.held_up();
    }
}

fn bytes(batch: &[Admitted]) -> usize {
    batch.iter().map(|admitted| admitted.event.approximate_bytes()).sum()
}
