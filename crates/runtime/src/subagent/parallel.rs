//! A child on a task of its own, as the stream of the call that waits for it.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use anabranch_pipeline::{ToolStream, ToolYield};
use anabranch_proto::ToolChunk;
use futures::Stream;
use tokio::{sync::mpsc, task::AbortHandle};

use crate::{
    run::{OwnTasks, Patience},
    task::{Batch, hand_over},
};

/// How many batches wait for the call's reader: one to read while the next is filled.
const BATCHES: usize = 2;

/// Stream of a child that runs on a task of its own: everything comes by one channel, the result last, so that it cannot
/// overtake the child's events.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the task.
pub(super) struct Parallel {
    state: State,
    ready: VecDeque<ToolYield>,
}

enum State {
    /// Not polled yet.
    Waiting(ToolStream, OwnTasks, Patience),
    Running {
        batches: mpsc::Receiver<Batch>,
        _task: Abort,
    },
    Ended,
}

/// Stops a task when it is dropped.
struct Abort(AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Parallel {
    pub(super) fn new(child: ToolStream, tasks: OwnTasks, patience: Patience) -> Self {
        Self { state: State::Waiting(child, tasks, patience), ready: VecDeque::new() }
    }
}

impl Stream for Parallel {
    type Item = ToolYield;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ToolYield>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            match &mut self.state {
                State::Waiting(..) => {
                    if let State::Waiting(child, tasks, patience) =
                        std::mem::replace(&mut self.state, State::Ended)
                    {
                        let (sender, receiver) = mpsc::channel(BATCHES);
                        let OwnTasks { tracker, over, .. } = tasks;
                        // A tool may have moved this stream to where its call's end does not reach.
                        let run = async move { over.run_until_cancelled(run(child, sender, patience)).await };
                        let task = tracker.spawn(run).abort_handle();
                        self.state = State::Running { batches: receiver, _task: Abort(task) };
                    }
                }
                State::Running { batches, .. } => {
                    let batch = std::task::ready!(batches.poll_recv(cx));
                    let is_over = batch.as_ref().is_none_or(|batch| batch.end.is_some());
                    let Batch { events, end, .. } = batch.unwrap_or_else(|| {
                        Batch::end(ToolChunk::error("the sub-agent's task was stopped before it ended"))
                    });
                    self.ready.extend(events.into_iter().map(ToolYield::Event));
                    self.ready.extend(end.map(ToolYield::Chunk));
                    if is_over {
                        self.state = State::Ended;
                    }
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }
}

async fn run(child: ToolStream, sender: mpsc::Sender<Batch>, patience: Patience) {
    hand_over(child, &patience, async |batch| sender.send(batch).await.is_ok()).await;
}

/// A stream on a task of its own, which waits so long for room before it is asked for more all the same.
pub(super) fn on_own_task(child: ToolStream, tasks: OwnTasks, patience: Patience) -> ToolStream {
    Box::pin(Parallel::new(child, tasks, patience))
}
