//! What a model is.

use std::{pin::Pin, sync::Arc};

use anabranch_pipeline::{ToolCall, ToolDefinition};
use anabranch_proto::{ContentBlock, ErrorInfo, ErrorType, Message, ToolCallId, ToolResultBlock, Usage};
use futures::Stream;

/// The stream of one model call. Its end is the end of the model's turn.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelItem, ModelError>> + Send>>;

/// A language model, or whatever takes its place.
///
/// Shared by all agents that use it, so a call's state lives in its stream. Dropping the stream stops the call.
pub trait Model: Send + Sync {
    /// The model's name, as it is to stand on the stream.
    fn name(&self) -> &str;

    /// Answers a request. An `Err` ends the agent's run as failed; a panic is caught and does too.
    fn stream(&self, request: ModelRequest) -> ModelStream;
}

/// What a model is asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation so far, the prompt and what the agent has done for it included.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolDefinition]>,
    /// Which model call of the reply this is, from 0.
    pub turn: u32,
}

impl ModelRequest {
    /// A request.
    pub fn new(
        system: impl Into<Arc<str>>,
        messages: Vec<Message>,
        tools: impl Into<Arc<[ToolDefinition]>>,
    ) -> Self {
        Self { system: system.into(), messages, tools: tools.into(), turn: 0 }
    }

    /// The results of the calls that the agent's last message holds, in call order.
    #[must_use]
    pub fn results(&self) -> impl DoubleEndedIterator<Item = &ToolResultBlock> {
        self.messages.last().into_iter().flat_map(|message| &message.content).filter_map(|block| {
            if let ContentBlock::ToolResult(result) = block { Some(result) } else { None }
        })
    }

    /// The text of the last result, or nothing.
    #[must_use]
    pub fn last_result_text(&self) -> String {
        self.results().next_back().map(|result| result.output.text()).unwrap_or_default()
    }

    /// The text of the last prompt, or nothing.
    #[must_use]
    pub fn prompt_text(&self) -> String {
        let prompt = self.messages.iter().rev().find(|message| message.role == anabranch_proto::Role::User);
        prompt.map(Message::text).unwrap_or_default()
    }
}

/// A part of a model's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelItem {
    /// A piece of text.
    Text(String),
    /// A piece of thinking.
    Thinking(String),
    /// A tool call begins.
    ToolCallStart {
        /// The call as the model names it; renamed on the stream where the session has had it.
        id: ToolCallId,
        /// The tool's name.
        name: Arc<str>,
    },
    /// A piece of a call's arguments.
    ToolCallDelta {
        /// The call as the model names it.
        id: ToolCallId,
        /// A fragment of JSON text, to be appended.
        delta: String,
    },
    /// A whole tool call.
    ToolCall(ToolCall),
    /// Tokens used by the call; several add up.
    Usage(Usage),
}

/// Why a model gave no answer, or only a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ModelError {
    /// The kind of error.
    pub error_type: ErrorType,
    /// A text for people.
    pub message: String,
}

impl ModelError {
    /// An error of a kind, with a text for people.
    pub fn new(error_type: ErrorType, message: impl Into<String>) -> Self {
        Self { error_type, message: message.into() }
    }
}

impl From<ModelError> for ErrorInfo {
    fn from(error: ModelError) -> Self {
        Self::new(error.error_type, error.message)
    }
}
