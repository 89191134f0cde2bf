//! What can be refused, and what can end.

use std::{sync::Arc, time::Duration};

use anabranch_proto::SessionId;
use anabranch_session::{AppendError, LogError, RecoverError};

/// Why a session takes no prompt, or why a reply's end is not to be had.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session was closed.
    #[error("the session has ended; start another")]
    Ended,
    /// The session's log took no more events.
    #[error("the session's log took no more events, so the session was stopped")]
    LogRefused(#[source] AppendError),
    /// The session's log could not be read.
    #[error("the session's log could not be read")]
    LogUnreadable(#[source] Arc<LogError>),
    /// The log was told to forget the end of the reply before it was read.
    #[error("the log was told to forget the reply's end before it was read")]
    Forgotten,
    /// The session's task was stopped from outside, such as by the end of its async runtime.
    #[error("the session's task was stopped before the session ended")]
    Aborted,
}

/// The log has events already; a session begins with an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log has {events} events already; a new session needs a log of its own")]
#[non_exhaustive]
pub struct LogNotEmpty {
    /// How many events the log has had.
    pub events: u64,
}

/// Why a session does not go on from its log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The session's id is not stated; events of a root do not say it.
    #[error(
        "a session that goes on needs its id, which its log does not have; state it with `SessionBuilder::id`"
    )]
    NoId,
    /// No log is stated.
    #[error("a session that goes on needs its log; state it with `SessionBuilder::log`")]
    NoLog,
    /// The log has no session that can go on.
    #[error(transparent)]
    Log(#[from] RecoverError),
}

/// Nothing runs in a session now: it never did, or its run has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing runs in the session `{session}` now")]
#[non_exhaustive]
pub struct NotRunning {
    /// The session.
    pub session: SessionId,
}

/// A message that did not reach a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SteerError {
    /// Nothing runs in the session now.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// The run has just ended, or is ending.
    #[error("the run has ended")]
    Ended,
    /// What runs there is no agent of this runtime.
    #[error("what runs in the session takes no messages")]
    Deaf,
    /// As many messages wait as may.
    #[error("the run has not read what waits for it, which may be {messages} messages and {bytes} bytes")]
    Full {
        /// How many messages may wait.
        messages: usize,
        /// How many bytes they may have together.
        bytes: usize,
    },
}

/// A time that nothing can have: none, or so much that it is a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time-out must be more than nought and at most {} s, not {} s", max.as_secs(), given.as_secs_f64())]
#[non_exhaustive]
pub struct InvalidTimeout {
    /// What was given.
    pub given: Duration,
    /// The most that can be.
    pub max: Duration,
}

/// A sub-agent that was not spawned. Nothing was announced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The child would lie deeper than the limit.
    #[error("a sub-agent here would be at depth {depth}, and the limit is {limit}; do the work yourself")]
    TooDeep {
        /// How deep the child would lie.
        depth: u32,
        /// The limit.
        limit: u32,
    },
    /// As many sub-agents run as may.
    #[error("{}", too_many_running(*.limit))]
    TooManyRunning {
        /// The limit.
        limit: usize,
    },
    /// As many sub-agents have been spawned as may.
    #[error("{limit} sub-agents have been spawned in this session, which is the limit; do the work yourself")]
    TooManySpawned {
        /// The limit.
        limit: usize,
    },
    /// The session is being stopped.
    #[error("the session is being stopped")]
    Stopping,
    /// The child's time is none that it can have.
    #[error(transparent)]
    Timeout(#[from] InvalidTimeout),
    /// An argument is not what it must be.
    #[error("{0}")]
    Argument(String),
    /// The tool runs under no session of this runtime.
    #[error("sub-agents can be spawned only by tools that run in an anabranch session")]
    NoSession,
}

fn too_many_running(limit: usize) -> String {
    match limit {
        0 => "no sub-agent may run here; do the work yourself".to_owned(),
        1 => "1 sub-agent is running, which is the limit; wait for it to end".to_owned(),
        _ => format!("{limit} sub-agents are running, which is the limit; wait for one to end"),
    }
}
