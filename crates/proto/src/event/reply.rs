//! Replies and model calls.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::payload;
use crate::{ErrorInfo, FinishedReason, ReplyId, Role, SessionId, Usage};

payload! {
    /// A reply begins.
    pub struct ReplyStart {
        /// The session that replies.
        session_id: SessionId,
        /// The reply, and the id of its message.
        reply_id: ReplyId,
        /// The agent's name.
        name: Arc<str>,
    }
    optional {
        /// Who speaks.
        #[serde(default = "assistant")]
        role: Role = Role::Assistant,
    }
}

fn assistant() -> Role {
    Role::Assistant
}

payload! {
    /// A reply ends.
    pub struct ReplyEnd {
        /// The session that replied.
        session_id: SessionId,
        /// The reply.
        reply_id: ReplyId,
        /// Why it ended.
        finished_reason: FinishedReason,
    }
    optional {
        /// What went wrong, where it failed.
        #[serde(default)]
        error: Option<Box<ErrorInfo>> = None,
    }
}

payload! {
    /// A model is called.
    pub struct ModelCallStart {
        /// The reply that the call is for.
        reply_id: ReplyId,
        /// The model's name.
        model_name: Arc<str>,
    }
}

payload! {
    /// A model call ends.
    pub struct ModelCallEnd {
        /// The reply that the call was for.
        reply_id: ReplyId,
        /// Tokens read.
        input_tokens: u64,
        /// Tokens written.
        output_tokens: u64,
    }
    optional {
        /// Of those read, tokens that came from a cache.
        #[serde(default)]
        cache_input_tokens: u64 = 0,
        /// Tokens written to a cache.
        #[serde(default)]
        cache_creation_input_tokens: u64 = 0,
        /// Why it ended.
        #[serde(default)]
        finished_reason: ModelFinishedReason = ModelFinishedReason::Completed,
    }
}

impl ModelCallEnd {
    /// The tokens of the call.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::new(self.input_tokens, self.output_tokens);
        usage.cache_input_tokens = self.cache_input_tokens;
        usage.cache_creation_input_tokens = self.cache_creation_input_tokens;
        usage
    }
}

/// Why a model call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelFinishedReason {
    /// The model was done.
    #[default]
    Completed,
    /// It was cut short: somebody stopped it, or it failed.
    Interrupted,
}

payload! {
    /// The agent used all its model calls. The reply's end follows.
    pub struct ExceedMaxIters {
        /// The reply.
        reply_id: ReplyId,
        /// The agent's name.
        name: Arc<str>,
    }
}
