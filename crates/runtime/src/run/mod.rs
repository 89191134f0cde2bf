//! One run of an agent: its loop of model calls and tool calls.

mod calls;
mod control;
mod conversation;
mod handle;
mod host;
mod inbox;
mod looks;
mod machine;
mod memory;
mod stream;

pub(crate) use control::{Asking, OpenRun, OwnTasks, RunControl, Runs};
pub(crate) use conversation::Conversation;
pub use conversation::Fork;
pub use handle::RunHandle;
pub(crate) use host::{Host, Manner, RunIdentity, Shared};
pub(crate) use looks::{Looks, Patience};
pub(crate) use memory::{Loan, Memories, Memory};
pub(crate) use stream::{AgentRun, drop_quietly, panic_message};

use anabranch_proto::{Artifact, ContentBlock, ErrorInfo, Message, Outcome};

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunResult {
    /// How it ended.
    pub outcome: Outcome,
    /// What went wrong, where it failed.
    pub error: Option<ErrorInfo>,
    /// What it said in the end: the text and data blocks after its last tool result.
    pub message: Option<Message>,
    /// The files that it and its sub-agents made.
    pub files: Vec<Artifact>,
    /// All text and data of the run, where it did not come to its end in order and has no last message to show.
    pub(crate) said: Vec<ContentBlock>,
}

impl RunResult {
    pub(crate) fn new(outcome: Outcome) -> Self {
        Self { outcome, error: None, message: None, files: Vec::new(), said: Vec::new() }
    }

    /// What it said in the end, as text.
    #[must_use]
    pub fn text(&self) -> String {
        self.message.as_ref().map(Message::text).unwrap_or_default()
    }
}
