//! Questions to people and to other executors, and their answers.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::{PermissionRule, ReplyId, ToolCallBlock, ToolResultBlock};

payload! {
    /// A person must allow calls before they run.
    pub struct RequireUserConfirm {
        /// The reply that the calls are part of.
        reply_id: ReplyId,
        /// The calls.
        tool_calls: Vec<ToolCallBlock>,
    }
}

payload! {
    /// Somebody else must run calls.
    pub struct RequireExternalExecution {
        /// The reply that the calls are part of.
        reply_id: ReplyId,
        /// The calls.
        tool_calls: Vec<ToolCallBlock>,
    }
}

payload! {
    /// A person answered.
    pub struct UserConfirmResult {
        /// The reply that the calls are part of.
        reply_id: ReplyId,
        /// An answer for each call.
        confirm_results: Vec<ConfirmResult>,
    }
}

/// A person's answer for one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ConfirmResult {
    /// Whether the call may run.
    pub confirmed: bool,
    /// The call, perhaps with other arguments.
    pub tool_call: ToolCallBlock,
    /// Rules to keep for later calls.
    #[serde(default)]
    pub rules: Option<Vec<PermissionRule>>,
}

impl ConfirmResult {
    /// An answer for one call, with no rules to keep.
    #[must_use]
    pub fn new(confirmed: bool, tool_call: ToolCallBlock) -> Self {
        Self { confirmed, tool_call, rules: None }
    }
}

payload! {
    /// A person stopped the reply.
    pub struct UserInterrupt {
        /// The reply.
        reply_id: ReplyId,
    }
}

payload! {
    /// Somebody else ran calls.
    pub struct ExternalExecutionResult {
        /// The reply that the calls are part of.
        reply_id: ReplyId,
        /// A result for each call.
        execution_results: Vec<ToolResultBlock>,
    }
}
