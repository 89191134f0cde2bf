//! What events mean to a frontend that shows cards, whatever its protocol.
//!
//! [`Intents`] turns events into [`Intent`]s: a child's card opens, its text grows, a call opens, ends. The adapters
//! of this crate render from them and an adapter for another protocol may: it has a dozen arms to write instead of
//! one per kind of event, and the rules below hold for it too.
//!
//! - A card is opened once. What comes later for its id is an update; what comes for an id that was never opened is
//!   nothing.
//! - A card closes by its own event alone: the session's processor writes one for everything that is open when a
//!   session ends, so nothing is closed here by guess.
//! - A card closes once. After that nothing comes for it, but for what is learnt of a child's name
//!   ([`Intent::UpdateChild`]).
//! - Card ids are unique in the root session: `spawn:<child>` for a child's first run and `spawn:<child>#2` for its
//!   second; the call's own id for a call of the root and `<child>/<call>` for a child's, since models use `call_0`
//!   again and again. Where an id is taken all the same, a `#2` is appended.
//! - A spawn that is announced twice opens one card, and a child that nobody announced is opened by its first event, whose
//!   scope says who it is; its spawn, if it comes later, is an update. (The session's processor sees to both; this holds
//!   without it.)
//!
//! # What each kind of event becomes
//! | event | intents |
//! |---|---|
//! | `SPAWN_SESSION_START` | `OpenChild` |
//! | `SESSION_UPDATED` | `UpdateChild` |
//! | `STREAM_COMPLETE` | `CloseChild`, of the root `CloseRoot` |
//! | `TEXT_BLOCK_DELTA`, `THINKING_BLOCK_DELTA` | `Text`, `Thought` |
//! | `TEXT_BLOCK_END`, `THINKING_BLOCK_END` | `EndBlock` |
//! | `DATA_BLOCK_START` | `Data` |
//! | `HINT_BLOCK` | `Hint` |
//! | `USER_MESSAGE` | `Prompt` |
//! | `TOOL_CALL_START`, `_DELTA`, `_END` | `OpenCall`, `CallArguments`, `CallReady` |
//! | `TOOL_RESULT_TEXT_DELTA` | `AppendCall` |
//! | `TOOL_RESULT_END` | `CloseCall` |
//! | `REQUIRE_USER_CONFIRM`, `REQUIRE_EXTERNAL_EXECUTION` | `Ask` per call; a call that was not opened is opened first |
//! | `USER_CONFIRM_RESULT`, `EXTERNAL_EXECUTION_RESULT` | `Answer` per call |
//! | `CUSTOM` | `Custom` |
//! | `REPLY_START`, `REPLY_END`, `MODEL_CALL_START`, `MODEL_CALL_END`, `USER_INTERRUPT`, `EXCEED_MAX_ITERS` | nothing: how a run ended is in its `STREAM_COMPLETE` |
//! | `TEXT_BLOCK_START`, `THINKING_BLOCK_START`, `TOOL_RESULT_START` | nothing: the first piece says as much |
//! | `DATA_BLOCK_DELTA`, `DATA_BLOCK_END`, `TOOL_RESULT_DATA_DELTA` | nothing: no frontend here shows bytes |
//! | a kind that nobody knows | nothing |

mod block;
mod cards;
mod child;
mod machine;

#[cfg(any(feature = "acp", feature = "text", feature = "tool-calls"))]
pub(crate) use block::BlockKey;
pub use block::BlockKind;
pub use child::{Child, Speaker};
pub(crate) use child::{learnt, met};
pub use machine::Intents;

use std::sync::Arc;

use anabranch_proto::{
    BlockId, ReplyId, ToolCallId,
    event::{
        Custom, DataBlockStart, HintBlockEvent, SessionUpdated, StreamComplete, ToolResultEnd, UserMessage,
    },
};

/// What a frontend is to show.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Intent<'a> {
    /// A child begins: open its card.
    OpenChild(&'a Child),
    /// Something was learnt of a child.
    UpdateChild(UpdateChild<'a>),
    /// A child's run ended: close its card.
    CloseChild(CloseChild<'a>),
    /// The root's run ended.
    CloseRoot(&'a StreamComplete),
    /// A piece of text.
    Text(Piece<'a>),
    /// A piece of thinking.
    Thought(Piece<'a>),
    /// A block of text or thinking is complete.
    EndBlock(EndBlock<'a>),
    /// A block of data begins.
    Data(Data<'a>),
    /// Something was put before the model.
    Hint(Hint<'a>),
    /// A prompt.
    Prompt(Prompt<'a>),
    /// A tool call begins: open its card.
    OpenCall(Call<'a>),
    /// A piece of a call's arguments.
    CallArguments(CallPiece<'a>),
    /// A call's arguments are complete.
    CallReady(Call<'a>),
    /// A piece of a call's output.
    AppendCall(CallPiece<'a>),
    /// A call waits for somebody.
    Ask(Ask<'a>),
    /// Whom a call waited for has answered. The call goes on.
    Answer(Answer<'a>),
    /// A call has its result: close its card.
    CloseCall(CloseCall<'a>),
    /// An application's own event.
    Custom(CustomOf<'a>),
}

/// Something was learnt of a child after it had begun, perhaps after it had ended.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpdateChild<'a> {
    /// The child as it is known now.
    pub child: &'a Child,
    /// What changed.
    pub update: &'a SessionUpdated,
}

/// A child's run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CloseChild<'a> {
    /// The child.
    pub child: &'a Child,
    /// How it ended.
    pub complete: &'a StreamComplete,
}

/// A piece of text or thinking.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// Who says it.
    pub speaker: Speaker<'a>,
    /// The reply that it is part of, which is also the message's id.
    pub reply: &'a ReplyId,
    /// The block that it is part of.
    pub block: &'a BlockId,
    /// What is to be appended.
    pub text: &'a str,
}

/// A block of text or thinking is complete.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct EndBlock<'a> {
    /// Who said it.
    pub speaker: Speaker<'a>,
    /// The reply that it is part of, which is also the message's id.
    pub reply: &'a ReplyId,
    /// The block.
    pub block: &'a BlockId,
    /// What the block is of.
    pub kind: BlockKind,
    /// The whole text, where it differs from the pieces and replaces them; nothing for thinking.
    pub whole: Option<&'a str>,
}

/// A block of data begins.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Data<'a> {
    /// Whose it is.
    pub speaker: Speaker<'a>,
    /// The block.
    pub start: &'a DataBlockStart,
}

/// Something was put before the model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hint<'a> {
    /// Whose model.
    pub speaker: Speaker<'a>,
    /// What.
    pub hint: &'a HintBlockEvent,
}

/// A prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prompt<'a> {
    /// Who is prompted.
    pub speaker: Speaker<'a>,
    /// The prompt.
    pub message: &'a UserMessage,
}

/// A tool call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Call<'a> {
    /// Who calls.
    pub speaker: Speaker<'a>,
    /// The card's id, unique in the root session.
    pub id: &'a Arc<str>,
    /// The call's own id, unique among the calls of its reply at most.
    pub call: &'a ToolCallId,
    /// The tool's name.
    pub name: &'a Arc<str>,
}

/// A piece of a call's arguments or output.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallPiece<'a> {
    /// The call.
    pub call: Call<'a>,
    /// What is to be appended.
    pub text: &'a str,
}

/// A call waits for somebody.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ask<'a> {
    /// The call.
    pub call: Call<'a>,
    /// Whom it waits for.
    pub asked: Asked,
    /// The arguments that are asked about: JSON text, perhaps malformed.
    pub input: &'a str,
}

/// Whom a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Asked {
    /// A person is to allow it.
    Person,
    /// Another executor is to run it.
    Executor,
}

/// Whom a call waited for has answered.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer<'a> {
    /// The call.
    pub call: Call<'a>,
    /// Who answered.
    pub asked: Asked,
    /// Whether a person allowed the call; another executor's answer always is `true`.
    pub allowed: bool,
}

/// A call has its result.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CloseCall<'a> {
    /// The call.
    pub call: Call<'a>,
    /// How it ended.
    pub end: &'a ToolResultEnd,
}

/// An application's own event.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CustomOf<'a> {
    /// Whose it is.
    pub speaker: Speaker<'a>,
    /// The event.
    pub custom: &'a Custom,
}
