//! The frames, with RFC-0014's names.

use anabranch_proto::{
    ErrorInfo, Json, Metadata, Outcome, ReplyId, SessionId, SpawnMechanism, ToolResultState,
};
use serde::Serialize;

/// One frame. Its `type` is the variant's name in `snake_case`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Frame<'a> {
    /// A card opens.
    ToolCallStart(ToolCallStart<'a>),
    /// A card changes, or closes.
    ToolCallUpdate(ToolCallUpdate<'a>),
    /// A piece of the root's text.
    AgentMessageChunk(AgentMessageChunk<'a>),
    /// A piece of the root's thinking.
    AgentThoughtChunk(AgentThoughtChunk<'a>),
}

/// A card opens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolCallStart<'a> {
    /// The card's id, unique in the root session.
    pub tool_call_id: &'a str,
    /// What to show, one line.
    pub title: &'a str,
    /// What sort of work it is.
    pub kind: ToolKind,
    /// Always [`Status::InProgress`].
    pub status: Status,
    /// What the card is for.
    pub metadata: StartMetadata<'a>,
}

/// What sort of work a card stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolKind {
    /// None that frontends have an icon for.
    Other,
}

/// How far a card is. Moves once, from `InProgress` to one of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// At work.
    InProgress,
    /// Done.
    Completed,
    /// It did not come to its end.
    Failed,
}

/// What a card is for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StartMetadata<'a> {
    /// A child's run.
    #[non_exhaustive]
    SpawnStart {
        /// The child's session.
        child_session_id: &'a SessionId,
        /// What created it.
        spawn_mechanism: SpawnMechanism,
        /// How deep it lies, from 1.
        depth: u32,
    },
    /// A tool call.
    #[non_exhaustive]
    ToolCall {
        /// The session that calls, where it is a child's.
        #[serde(skip_serializing_if = "Option::is_none")]
        child_session_id: Option<&'a SessionId>,
        /// How deep the caller lies: 0 for the root.
        depth: u32,
    },
}

/// A card changes. What is absent stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolCallUpdate<'a> {
    /// The card's id.
    pub tool_call_id: &'a str,
    /// What to show from now on, one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// How far it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Text of the card. The metadata says what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'a str>,
    /// Why it changes.
    pub metadata: UpdateMetadata<'a>,
}

/// Why a card changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum UpdateMetadata<'a> {
    /// The child said something: the content is to be appended.
    SpawnText,
    /// The child thought something: the content is to be appended.
    SpawnThinking,
    /// Something was learnt of the child.
    #[non_exhaustive]
    SpawnUpdate {
        /// What created it.
        spawn_mechanism: SpawnMechanism,
        /// What it is to do, one line.
        description: &'a str,
    },
    /// The child ended: the content is its final text.
    #[non_exhaustive]
    SpawnEnd {
        /// How it ended.
        outcome: Outcome,
        /// What went wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorInfo>,
    },
    /// The call's arguments are complete.
    #[non_exhaustive]
    ToolCallInput {
        /// The arguments as the model wrote them: JSON text, perhaps malformed.
        input: &'a str,
    },
    /// A person is to allow the call.
    ConfirmationRequired,
    /// A person has answered.
    #[non_exhaustive]
    ConfirmationResult {
        /// Whether the call may run.
        confirmed: bool,
    },
    /// Another executor is to run the call.
    ExternalExecutionRequired,
    /// Another executor has run the call.
    ExternalExecutionResult,
    /// The call has its result: the content is the result's text.
    #[non_exhaustive]
    ToolCallEnd {
        /// How it ended.
        state: ToolResultState,
        /// The structured result for programs.
        #[serde(skip_serializing_if = "Metadata::is_empty")]
        response: &'a Metadata,
    },
    /// An application's own event of the child.
    #[non_exhaustive]
    Custom {
        /// What the application calls it.
        name: &'a str,
        /// Whatever belongs to it.
        value: &'a Json,
    },
}

/// A piece of the root's text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AgentMessageChunk<'a> {
    /// What is to be appended.
    pub text: &'a str,
    /// The message that it is part of: the reply's id.
    pub message_id: &'a ReplyId,
}

/// A piece of the root's thinking.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AgentThoughtChunk<'a> {
    /// What is to be appended.
    pub text: &'a str,
    /// The message that it is part of: the reply's id.
    pub message_id: &'a ReplyId,
}
