//! What is known of one task.

use std::{fmt, sync::Arc, time::Duration};

use anabranch_pipeline::ToolStream;
use anabranch_proto::{Metadata, Outcome, SessionId, ToolCallId, ToolChunk, ToolResultState};
use tokio::{task::AbortHandle, time::Instant};

use crate::run::{Loan, RunControl};

/// What becomes of a background child when the reply is cancelled.
///
/// Closing the session stops all, and a background child of a sub-agent ends with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnCancel {
    /// It is stopped too.
    #[default]
    Stop,
    /// It goes on.
    Keep,
}

/// A background task, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task, as models name it.
    pub task_id: Arc<str>,
    /// The child's session.
    pub session_id: SessionId,
    /// The session that started it.
    pub parent_session_id: SessionId,
    /// The name of the agent.
    pub name: Arc<str>,
    /// What it does, for people.
    pub description: String,
    /// How it is doing.
    pub status: TaskStatus,
    /// How long it runs or ran.
    pub elapsed: Duration,
}

/// How a background task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskStatus {
    /// It runs, or is about to.
    Running,
    /// Its last run has ended.
    Ended(Outcome),
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Ended(outcome) => outcome.fmt(f),
        }
    }
}

/// What makes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A model's call, which did not wait.
    Background(OnCancel),
    /// Code.
    Manual,
}

/// A task that is to begin.
pub(crate) struct NewTask {
    /// The task that goes on with a further run of its child, where it is one.
    pub(crate) again: Option<usize>,
    pub(crate) kind: Kind,
    pub(crate) session: SessionId,
    /// Which run of the session it is.
    pub(crate) run: u32,
    pub(crate) parent: SessionId,
    /// The call of its parent that made it.
    pub(crate) call: Option<ToolCallId>,
    pub(crate) name: Arc<str>,
    pub(crate) description: String,
    pub(crate) control: Arc<RunControl>,
    /// The run from whose stream its announcement comes.
    pub(crate) within: Arc<RunControl>,
    /// Whether its parent's run ends after it, as far as that is known yet.
    pub(crate) is_waited_for: bool,
    pub(crate) loan: Option<Loan>,
}

/// A task that ended under the program before this one.
pub(crate) struct Restored {
    pub(crate) info: TaskInfo,
    /// Which run of the session was the last.
    pub(crate) run: u32,
    /// What it came to, where the parent's model has not been told.
    pub(crate) result: Option<ToolChunk>,
}

/// A task.
pub(super) struct Task {
    pub(super) id: Arc<str>,
    pub(super) kind: Kind,
    pub(super) session: SessionId,
    pub(super) run: u32,
    pub(super) parent: SessionId,
    pub(super) call: Option<ToolCallId>,
    pub(super) name: Arc<str>,
    pub(super) description: String,
    pub(super) control: Arc<RunControl>,
    pub(super) within: Arc<RunControl>,
    pub(super) started: Instant,
    /// Whether its parent's run ends after it: a sub-agent's and that of whoever code spawned during a run do.
    pub(super) is_waited_for: bool,
    pub(super) progress: Progress,
    /// How its run before this one ended and what is kept of it, until this one is announced.
    pub(super) before: Option<End>,
    pub(super) loan: Option<Loan>,
    /// What its runs came to, where the parent's model has not been told.
    pub(super) untold: Vec<Untold>,
}

/// How far a task is.
pub(super) enum Progress {
    /// It was made; the stream has not announced it.
    Made,
    /// It starts when its announcement has entered the session's stream.
    Ready(ToolStream),
    /// Its announcement has entered the stream, and its task is being made.
    Starting(Wanted),
    Running(AbortHandle),
    Ended(End),
    /// It was never announced, so nobody knows of it.
    Discarded,
}

/// Whether a task that is being made is still wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Yes,
    No,
}

/// How a task's last run ended.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) outcome: Outcome,
    pub(super) after: Duration,
}

/// A result that the parent's model has not been told.
pub(crate) struct Untold {
    pub(crate) info: TaskInfo,
    pub(crate) result: ToolChunk,
    /// How much room the result takes.
    pub(super) bytes: usize,
    /// In which order tasks ended.
    pub(super) number: u64,
    /// The call whose result has it, until that result has reached the model's conversation.
    pub(super) given_by: Option<ToolCallId>,
}

impl Task {
    pub(super) fn is_open(&self) -> bool {
        matches!(
            self.progress,
            Progress::Made | Progress::Ready(_) | Progress::Starting(_) | Progress::Running(_)
        )
    }

    /// Whether the stream has not announced it.
    pub(super) fn is_unannounced(&self) -> bool {
        matches!(self.progress, Progress::Made | Progress::Ready(_))
    }

    pub(super) fn info(&self) -> Option<TaskInfo> {
        let (status, elapsed) = match &self.progress {
            Progress::Made | Progress::Ready(_) | Progress::Starting(_) | Progress::Running(_) => {
                (TaskStatus::Running, self.started.elapsed())
            }
            Progress::Ended(end) => (TaskStatus::Ended(end.outcome), end.after),
            Progress::Discarded => return None,
        };
        Some(TaskInfo {
            task_id: Arc::clone(&self.id),
            session_id: self.session.clone(),
            parent_session_id: self.parent.clone(),
            name: Arc::clone(&self.name),
            description: self.description.clone(),
            status,
            elapsed,
        })
    }
}

/// What a task comes to that was stopped from outside.
pub(super) fn stopped(task: &Task) -> ToolChunk {
    let metadata = Metadata::default()
        .with("child_session_id", task.session.as_str())
        .with("outcome", Outcome::Interrupted.as_str());
    ToolChunk::text("the sub-agent was stopped").state(ToolResultState::Interrupted).metadata(metadata).last()
}
