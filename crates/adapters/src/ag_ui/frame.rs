//! The frames: those events of AG-UI 1.0 that are sent, with its names.

use anabranch_proto::{Json, Metadata, Outcome, event};
use serde::Serialize;

use super::metadata::FrameMetadata;

/// One event of AG-UI.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// What happened; its name is the frame's `type`.
    #[serde(flatten)]
    pub body: Body<'a>,
    /// Which child's run it belongs to; absent for the root's.
    #[serde(rename = "subagentRunId", skip_serializing_if = "Option::is_none")]
    pub subagent_run_id: Option<&'a str>,
    /// When it happened, in milliseconds since 1970.
    pub timestamp: i64,
    /// The application's metadata and what the protocol has no field for.
    #[serde(skip_serializing_if = "FrameMetadata::is_empty")]
    pub metadata: FrameMetadata<'a>,
}

/// What happened. The fields are the protocol's; one that is absent is not written, since it may not be `null`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "AG-UI's specification says what each field is")]
#[non_exhaustive]
pub enum Body<'a> {
    #[non_exhaustive]
    RunStarted { thread_id: &'a str, run_id: &'a str, protocol_version: &'static str },
    #[non_exhaustive]
    RunFinished {
        thread_id: &'a str,
        run_id: &'a str,
        outcome: RunOutcome<'a>,
        #[serde(skip_serializing_if = "<[TokenUsage]>::is_empty")]
        usage: &'a [TokenUsage],
    },
    #[non_exhaustive]
    RunError {
        message: &'a str,
        code: &'static str,
        #[serde(skip_serializing_if = "<[TokenUsage]>::is_empty")]
        usage: &'a [TokenUsage],
    },
    #[non_exhaustive]
    StepStarted { step_name: &'a str },
    #[non_exhaustive]
    StepFinished { step_name: &'a str },
    #[non_exhaustive]
    TextMessageStart {
        message_id: &'a str,
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
    },
    #[non_exhaustive]
    TextMessageContent { message_id: &'a str, delta: &'a str },
    #[non_exhaustive]
    TextMessageEnd { message_id: &'a str },
    #[non_exhaustive]
    ReasoningStart { message_id: &'a str },
    #[non_exhaustive]
    ReasoningMessageStart { message_id: &'a str, role: &'static str },
    #[non_exhaustive]
    ReasoningMessageContent { message_id: &'a str, delta: &'a str },
    #[non_exhaustive]
    ReasoningMessageEnd { message_id: &'a str },
    #[non_exhaustive]
    ReasoningEnd { message_id: &'a str },
    #[non_exhaustive]
    ToolCallStart {
        tool_call_id: &'a str,
        tool_call_name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<&'a str>,
    },
    #[non_exhaustive]
    ToolCallArgs { tool_call_id: &'a str, delta: &'a str },
    #[non_exhaustive]
    ToolCallEnd { tool_call_id: &'a str },
    #[non_exhaustive]
    ToolCallResult { message_id: &'a str, tool_call_id: &'a str, content: &'a str, role: &'static str },
    #[non_exhaustive]
    SubagentStarted {
        name: &'a str,
        description: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<&'a str>,
    },
    #[non_exhaustive]
    SubagentFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a str>,
        outcome: SubagentOutcome<'a>,
    },
    #[non_exhaustive]
    SubagentError { message: &'a str, code: &'static str },
    #[non_exhaustive]
    Custom { name: &'a str, value: Value<'a> },
    #[non_exhaustive]
    Raw { event: RawEvent<'a>, source: &'static str },
}

impl Body<'_> {
    /// Whether the frame stands alone or opens something: those bear the event's metadata, which clients keep with what
    /// is opened. Pieces and ends do not repeat it.
    pub(super) fn bears_metadata(&self) -> bool {
        match self {
            Self::StepFinished { .. }
            | Self::TextMessageContent { .. }
            | Self::TextMessageEnd { .. }
            | Self::ReasoningMessageContent { .. }
            | Self::ReasoningMessageEnd { .. }
            | Self::ReasoningEnd { .. }
            | Self::ToolCallArgs { .. }
            | Self::ToolCallEnd { .. } => false,
            Self::RunStarted { .. }
            | Self::RunFinished { .. }
            | Self::RunError { .. }
            | Self::StepStarted { .. }
            | Self::TextMessageStart { .. }
            | Self::ReasoningStart { .. }
            | Self::ReasoningMessageStart { .. }
            | Self::ToolCallStart { .. }
            | Self::ToolCallResult { .. }
            | Self::SubagentStarted { .. }
            | Self::SubagentFinished { .. }
            | Self::SubagentError { .. }
            | Self::Custom { .. }
            | Self::Raw { .. } => true,
        }
    }
}

/// How a run came to its end.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum RunOutcome<'a> {
    /// The root did its work.
    Success,
    /// Somebody stopped it.
    Cancelled,
    /// It waits for answers, which come with the next run.
    #[non_exhaustive]
    Interrupt {
        /// What it waits for.
        interrupts: &'a [Interrupt],
    },
}

/// How a child's run came to its end, where it is no error.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum SubagentOutcome<'a> {
    /// It did its work.
    Success,
    /// It goes on, in the next run.
    #[serde(rename_all = "camelCase")]
    #[non_exhaustive]
    Suspended {
        /// The interrupts that it waits for itself.
        #[serde(skip_serializing_if = "<[&str]>::is_empty")]
        interrupt_ids: &'a [&'a str],
    },
}

/// A question that ends a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Interrupt {
    /// The child's run that asks; absent where the root does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_run_id: Option<std::sync::Arc<str>>,
    /// The id that the answer names.
    pub id: String,
    /// What sort of question it is: `tool_call` or `external_execution`.
    pub reason: &'static str,
    /// The question, for people.
    pub message: String,
    /// The call that waits.
    pub tool_call_id: std::sync::Arc<str>,
    /// What the answer's payload is to look like, as a JSON Schema.
    pub response_schema: Json,
}

/// Tokens that a model used in a run, children's included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TokenUsage {
    /// The model.
    pub model: std::sync::Arc<str>,
    /// Tokens read, those of a cache included.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Of those read, tokens that came from a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Of those read, tokens that were written to a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_input_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a `CUSTOM` frame tells.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value<'a> {
    /// An application's own value.
    Application(&'a Json),
    /// `anabranch.hint`: something was put before the model.
    Hint(&'a event::HintBlockEvent),
    /// `anabranch.session_updated`: something was learnt of a child.
    Updated(&'a event::SessionUpdated),
    /// `anabranch.data_block_start`.
    DataStart(&'a event::DataBlockStart),
    /// `anabranch.data_block_delta`.
    DataDelta(&'a event::DataBlockDelta),
    /// `anabranch.data_block_end`.
    DataEnd(&'a event::DataBlockEnd),
    /// `anabranch.tool_result_data_delta`.
    ResultData(&'a event::ToolResultDataDelta),
    /// `anabranch.text_replaced`: the whole text of a message, where it is another than its pieces.
    #[serde(rename_all = "camelCase")]
    #[non_exhaustive]
    Replaced {
        /// The message.
        message_id: &'a str,
        /// Its text.
        text: &'a str,
    },
    /// `anabranch.events_dropped`: what background children did between two runs and was too much to keep.
    #[non_exhaustive]
    Dropped {
        /// How many events.
        count: u64,
    },
}

/// An event of a kind that nobody here knows, as it came.
#[derive(Clone, Debug, Serialize)]
pub struct RawEvent<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(flatten)]
    pub(super) fields: &'a anabranch_proto::Fields,
}

/// How an outcome is called in a frame's `code`.
#[expect(clippy::match_same_arms, reason = "the known outcomes are named")]
pub(super) fn code(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::TimedOut => "timeout",
        Outcome::Interrupted => "cancelled",
        Outcome::ExceedMaxIters => "max_iters",
        Outcome::Completed | Outcome::Failed => "error",
        // An outcome that is not known here is no success.
        _ => "error",
    }
}

/// How an outcome reads where nothing else says what went wrong.
pub(super) fn in_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::TimedOut => "timed out",
        Outcome::Interrupted => "interrupted",
        Outcome::ExceedMaxIters => "used all its model calls",
        _ => outcome.as_str(),
    }
}

/// The metadata of whoever has none.
pub(super) fn no_metadata() -> &'static Metadata {
    static NONE: std::sync::LazyLock<Metadata> = std::sync::LazyLock::new(Metadata::default);
    &NONE
}
