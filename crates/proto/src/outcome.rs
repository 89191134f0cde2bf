//! How things end.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use crate::ToolResultState;

/// How a session's run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It did its work.
    Completed,
    /// It could not.
    Failed,
    /// Its deadline passed.
    TimedOut,
    /// Somebody stopped it.
    Interrupted,
    /// It used all the model calls that it had.
    ExceedMaxIters,
}

impl Outcome {
    /// The reason on the run's `REPLY_END`.
    #[must_use]
    pub fn finished_reason(self) -> FinishedReason {
        match self {
            Self::Completed => FinishedReason::Completed,
            Self::Failed | Self::TimedOut => FinishedReason::Error,
            Self::Interrupted => FinishedReason::Interrupted,
            Self::ExceedMaxIters => FinishedReason::ExceedMaxIters,
        }
    }

    /// The state of the parent's result for the call that spawned the run.
    #[must_use]
    pub fn result_state(self) -> ToolResultState {
        match self {
            Self::Completed => ToolResultState::Success,
            Self::Failed | Self::TimedOut | Self::ExceedMaxIters => ToolResultState::Error,
            Self::Interrupted => ToolResultState::Interrupted,
        }
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
            Self::ExceedMaxIters => "exceed_max_iters",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a reply ended (agentscope, `ReplyFinishedReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishedReason {
    /// The agent was done.
    Completed,
    /// Somebody stopped it.
    Interrupted,
    /// It used all the model calls that it had.
    ExceedMaxIters,
    /// It failed.
    Error,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ErrorInfo {
    /// The kind of error.
    #[serde(rename = "type")]
    pub error_type: ErrorType,
    /// A text for people.
    pub message: String,
}

impl ErrorInfo {
    /// An error of a kind, with a text for people.
    pub fn new(error_type: ErrorType, message: impl Into<String>) -> Self {
        Self { error_type, message: message.into() }
    }
}

impl fmt::Display for ErrorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type, self.message)
    }
}

/// The kind of an error: agentscope's names, and any other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ErrorType(Cow<'static, str>);

impl ErrorType {
    /// A credential was refused.
    pub const AUTHENTICATION: Self = Self(Cow::Borrowed("authentication"));
    /// A permission was missing.
    pub const PERMISSION: Self = Self(Cow::Borrowed("permission"));
    /// Too many requests.
    pub const RATE_LIMIT: Self = Self(Cow::Borrowed("rate_limit"));
    /// The request was wrong.
    pub const INVALID_REQUEST: Self = Self(Cow::Borrowed("invalid_request"));
    /// A service that we called failed.
    pub const UPSTREAM: Self = Self(Cow::Borrowed("upstream"));
    /// A connection failed.
    pub const CONNECTION: Self = Self(Cow::Borrowed("connection"));
    /// A fault of our own.
    pub const INTERNAL: Self = Self(Cow::Borrowed("internal"));
    /// Something was not set up.
    pub const SETUP: Self = Self(Cow::Borrowed("setup"));
    /// Nobody knows.
    pub const UNKNOWN: Self = Self(Cow::Borrowed("unknown"));

    /// Another kind.
    pub fn other(name: impl Into<String>) -> Self {
        Self(Cow::Owned(name.into()))
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
