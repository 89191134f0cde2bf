//! What a stream had so far.

/// How much of what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Events, all kinds.
    pub events: u64,
    /// Sessions, the root's included once it has had a run.
    pub sessions: u64,
    /// Runs of all sessions.
    pub runs: u64,
    /// Replies.
    pub replies: u64,
    /// Model calls.
    pub model_calls: u64,
    /// Blocks of text, thinking and data, and hints.
    pub blocks: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Results of tool calls that are complete.
    pub tool_results: u64,
    /// How deep the deepest session lies: 0 for the root.
    pub deepest: u32,
}
