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

use anabranch_proto::{Admitted, ErrorInfo, ErrorType, Outcome};
use anabranch_session::{Ending, approximate_bytes};
use futures::{FutureExt, Stream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{handle::Core, window::Window};
use crate::{
    Agent, Prompt, SessionError,
    run::{AgentRun, RunControl, RunIdentity, panic_message},
};

/// How many prompts may wait; whoever prompts beyond that waits in turn. People type them, so a few suffice.
pub(super) const PROMPTS_WAITING: usize = 32;

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

/// Says that the session has ended, in order or not, whatever ends its task.
struct Ended(Arc<Core>);

impl Drop for Ended {
    fn drop(&mut self) {
        // Nothing happens where the session ended in order or a reason is known.
        self.0.ending.set(Err(SessionError::Aborted)).ok();
        self.0.ended.cancel();
    }
}

impl Driver {
    pub(super) fn new(
        agent: Agent,
        identity: RunIdentity,
        core: Arc<Core>,
        queue: mpsc::Receiver<Command>,
    ) -> Self {
        Self { agent, identity, core, queue, out: Vec::new(), out_bytes: 0 }
    }

    /// Answers prompts until the session is closed or nobody can prompt any more.
    pub(super) async fn run(mut self) {
        let ended = Ended(Arc::clone(&self.core));
        let closing = self.core.closing.clone();
        while let Some(Some(command)) = closing.run_until_cancelled(self.queue.recv()).await {
            self.answer(command).await;
            self.core.prompts.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        }
        self.queue.close();
        self.core.slots.set_stopping(true);
        self.close(|core, out| {
            core.with_processor(|processor| processor.close(Outcome::Interrupted, &*core.stamp, out));
        });
        self.core.ending.set(Ok(())).ok();
        drop(ended);
    }

    /// One run, from its prompt to its terminal.
    async fn answer(&mut self, command: Command) {
        let Command { prompt, cancel, window, started } = command;
        let after = self.core.hold_for(&window);
        let end = Arc::new(RunEnd::default());
        let history = self.core.with_processor(|processor| processor.messages().to_vec());
        // A reply that nobody waits for any more is given all the same.
        started.send(Started { after, run: Arc::clone(&end) }).ok();

        let mut identity = self.identity.clone();
        let control = RunControl::root(self.core.id.clone(), cancel.clone());
        let open = self.core.runs.open(&control);
        identity.control = control;
        identity.metadata = identity.metadata.merged(&prompt.metadata);
        let name = Arc::clone(self.agent.name());
        let mut run = Box::pin(AgentRun::new(self.agent.clone(), name, identity, history, prompt));
        // Models and tools are caught further in; a panic here is a fault of our own, and still no lost stream.
        let driven = AssertUnwindSafe(self.drive(run.as_mut(), &cancel)).catch_unwind().await;
        let ending = driven.unwrap_or_else(|panic| {
            let text = format!("the agent's loop panicked: {}", panic_message(&*panic));
            Ending::new(Outcome::Failed).error(ErrorInfo::new(ErrorType::INTERNAL, text))
        });
        // The children's tasks and slots are gone before the stream says that they are.
        self.core.slots.set_stopping(true);
        if catch_unwind(AssertUnwindSafe(|| drop(run))).is_err() {
            tracing::warn!("a model, a tool or a layer panicked while it was stopped");
        }
        drop(open);
        self.close(|core, out| {
            core.with_processor(|processor| processor.close_reply(ending, &*core.stamp, out));
        });
        self.core.slots.set_stopping(false);
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
        loop {
            let turn = poll_fn(|cx| {
                // A run has a prompt before it can be stopped: without one there would be nothing to close.
                if has_begun && stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Turn::Cancelled);
                }
                match self.turn(run.as_mut(), cx, if has_begun { EVENTS_PER_TURN } else { 1 }) {
                    Turn::Waiting if self.out.is_empty() => Poll::Pending,
                    turn @ (Turn::More | Turn::Waiting | Turn::Ended | Turn::Cancelled) => Poll::Ready(turn),
                }
            })
            .await;
            has_begun = true;
            self.append();
            match turn {
                Turn::Ended => return Outcome::Completed.into(),
                Turn::Cancelled => return Outcome::Interrupted.into(),
                Turn::More => {
                    self.wait_for_readers(cancel).await;
                    tokio::task::yield_now().await;
                }
                Turn::Waiting => self.wait_for_readers(cancel).await,
            }
        }
    }

    /// Takes what is ready, up to `limit` events and as many bytes as a reader can take at once.
    fn turn(&mut self, mut run: Pin<&mut AgentRun>, cx: &mut Context<'_>, limit: usize) -> Turn {
        let Self { core, out, out_bytes, .. } = self;
        for _ in 0..limit {
            match run.as_mut().poll_next(cx) {
                Poll::Ready(Some(event)) => {
                    let before = out.len();
                    core.with_processor(|processor| {
                        processor.process(event, &*core.stamp, out);
                        core.slots.note_tree(processor.tree().len().saturating_sub(1));
                    });
                    *out_bytes += bytes(out.get(before..).unwrap_or_default());
                    // Whoever reads the terminal finds the next prompt under way: nobody else has a turn in between.
                    if run.has_ended() {
                        return Turn::Ended;
                    }
                    if *out_bytes >= core.limits.bytes_per_turn() {
                        return Turn::More;
                    }
                }
                Poll::Ready(None) => return Turn::Ended,
                Poll::Pending => return Turn::Waiting,
            }
        }
        Turn::More
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
            if let Ok(Ok(())) = appended {
                windows.iter().for_each(|window| window.produce(last, bytes));
            } else {
                tracing::error!(last, "the log takes no more events; the session is being stopped");
                self.core.ending.set(Err(SessionError::LogFull)).ok();
                self.core.closing.cancel();
            }
        }
        self.out.clear();
    }

    /// Waits while a lossless reader's window is full, for at most the stall limit; then that reader holds nobody back
    /// any more.
    async fn wait_for_readers(&self, cancel: &CancellationToken) {
        let windows = self.core.held_windows();
        if windows.is_empty() {
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
                "a reader held the session back for as long as it may; it is not waited for any more"
            );
            windows.iter().filter(|window| window.is_full()).for_each(|window| window.open());
        }
    }
}

fn bytes(batch: &[Admitted]) -> usize {
    batch.iter().map(|admitted| approximate_bytes(&admitted.event)).sum()
}
