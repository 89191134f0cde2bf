//! Answers.

use anabranch_pipeline::Arguments;
use anabranch_proto::{PermissionRule, SessionId, ToolCallId, ToolChunk};
use serde::{Deserialize, Serialize};

use super::QuestionKind;

/// An answer to a question about a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// The call may run.
    #[non_exhaustive]
    Allow {
        /// Other arguments than the model's: JSON text of an object.
        #[serde(default)]
        arguments: Option<String>,
        /// Rules for later calls, anywhere in the session.
        #[serde(default)]
        rules: Vec<PermissionRule>,
    },
    /// The call may not run.
    #[non_exhaustive]
    Deny {
        /// Why, for the model.
        #[serde(default)]
        reason: Option<String>,
    },
    /// What somebody else's execution of the call came to.
    Output(ToolChunk),
}

impl Answer {
    /// The call may run as the model made it.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { arguments: None, rules: Vec::new() }
    }

    /// The call may run with other arguments: JSON text of an object.
    pub fn allow_with(arguments: impl Into<String>) -> Self {
        Self::Allow { arguments: Some(arguments.into()), rules: Vec::new() }
    }

    /// With rules for later calls, anywhere in the session. Only an answer that allows brings rules.
    #[must_use]
    pub fn remember(mut self, rules: impl IntoIterator<Item = PermissionRule>) -> Self {
        if let Self::Allow { rules: known, .. } = &mut self {
            known.extend(rules);
        }
        self
    }

    /// The call may not run.
    #[must_use]
    pub fn deny() -> Self {
        Self::Deny { reason: None }
    }

    /// The call may not run, and why, for the model.
    pub fn deny_because(reason: impl Into<String>) -> Self {
        Self::Deny { reason: Some(reason.into()) }
    }

    /// What somebody else's execution of the call came to. A chunk without a state is a success.
    pub fn output(chunk: impl Into<ToolChunk>) -> Self {
        Self::Output(chunk.into())
    }

    /// For this call alone.
    pub(crate) fn without_rules(mut self) -> Self {
        if let Self::Allow { rules, .. } = &mut self {
            rules.clear();
        }
        self
    }

    /// Refuses an answer that does not fit its question.
    pub(super) fn check(&self, kind: QuestionKind) -> Result<(), AnswerError> {
        match (self, kind) {
            (Self::Allow { arguments, .. }, QuestionKind::Confirm) => match arguments {
                Some(arguments) => Arguments::parse(arguments)
                    .map(drop)
                    .map_err(|error| AnswerError::Arguments(error.to_string())),
                None => Ok(()),
            },
            (Self::Deny { .. }, QuestionKind::Confirm) | (Self::Output(_), QuestionKind::External) => Ok(()),
            (Self::Allow { .. } | Self::Deny { .. }, QuestionKind::External)
            | (Self::Output(_), QuestionKind::Confirm) => Err(AnswerError::OfAnotherKind { asked: kind }),
        }
    }
}

/// An answer that was not taken. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No such question is open: it was never asked, nobody answered it in time, or its call was stopped.
    #[error("no question about the call `{call}` of the session `{session}` is open")]
    NotOpen {
        /// The session.
        session: SessionId,
        /// The call.
        call: ToolCallId,
    },
    /// The question was answered before.
    #[error("the question about the call `{call}` of the session `{session}` was answered before")]
    Answered {
        /// The session.
        session: SessionId,
        /// The call.
        call: ToolCallId,
    },
    /// The answer is not of the question's kind; the question is still open.
    #[error("the question is {asked}, and the answer is of another kind; it is still open")]
    OfAnotherKind {
        /// What is asked.
        asked: QuestionKind,
    },
    /// The arguments are none that a call can have; the question is still open.
    #[error("the call cannot run with these arguments, and the question is still open: {0}")]
    Arguments(String),
}
