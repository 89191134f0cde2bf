//! What can be refused.

/// The session has ended, so it takes no more prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended; start another")]
#[non_exhaustive]
pub struct SessionEnded {}

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
    #[error("{limit} sub-agents are running, which is the limit; wait for one to end")]
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
    /// An argument is not what it must be.
    #[error("{0}")]
    Argument(String),
    /// The tool runs under no session of this runtime.
    #[error("sub-agents can be spawned only by tools that run in an anabranch session")]
    NoSession,
}
