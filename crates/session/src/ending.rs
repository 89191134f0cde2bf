//! How something is to be closed.

use std::borrow::Cow;

use anabranch_proto::{ErrorInfo, ErrorType, Outcome, ToolResultState};

use crate::run::OpenCall;

/// The outcome of a run, and what went wrong where it failed.
///
/// ```
/// use anabranch_proto::{ErrorInfo, ErrorType, Outcome};
/// use anabranch_session::Ending;
///
/// let cancelled = Ending::from(Outcome::Interrupted);
/// let failed = Ending::new(Outcome::Failed).error(ErrorInfo::new(ErrorType::INTERNAL, "the tool panicked"));
/// assert_ne!(cancelled, failed);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ending {
    /// How it ended.
    pub outcome: Outcome,
    /// What went wrong, where it failed.
    pub error: Option<ErrorInfo>,
    /// Whether what ended it ended everything: the program that ran it.
    pub(crate) is_of_all: bool,
}

impl Ending {
    /// An outcome without an error.
    #[must_use]
    pub fn new(outcome: Outcome) -> Self {
        Self { outcome, error: None, is_of_all: false }
    }

    /// The ending of all that ran in a program that has ended.
    pub(crate) fn of_all(why: ErrorInfo) -> Self {
        Self { outcome: Outcome::Interrupted, error: Some(why), is_of_all: true }
    }

    /// What went wrong.
    #[must_use]
    pub fn error(mut self, error: impl Into<Option<ErrorInfo>>) -> Self {
        self.error = error.into();
        self
    }

    /// The ending of what was open beneath something that ended so: interrupted with it, or failed because of it.
    pub(crate) fn beneath(&self, why: &str) -> Self {
        if self.is_of_all {
            self.clone()
        } else if self.outcome == Outcome::Interrupted {
            Self::new(Outcome::Interrupted)
        } else {
            Self::new(Outcome::Failed).error(ErrorInfo::new(ErrorType::INTERNAL, why))
        }
    }

    /// What a call comes to whose result nobody gave: the state, and a text for the model.
    pub(crate) fn result(&self, call: &OpenCall) -> (ToolResultState, Cow<'_, str>) {
        if self.is_of_all && call.is_asked {
            let why = self.result_text();
            let text = format!(
                "{why}: nobody had answered whether `{}` may run, so it was not run; the user has not refused it",
                call.name
            );
            return (ToolResultState::Denied, text.into());
        }
        (self.result_state(), self.result_text().into())
    }

    fn result_state(&self) -> ToolResultState {
        if self.outcome == Outcome::Interrupted {
            ToolResultState::Interrupted
        } else {
            ToolResultState::Error
        }
    }

    fn result_text(&self) -> &str {
        match (&self.error, self.outcome) {
            (Some(error), _) => &error.message,
            (None, Outcome::Completed) => "ended without a result",
            (None, Outcome::TimedOut) => "timed out",
            (None, Outcome::ExceedMaxIters) => "the agent used all its model calls",
            (None, outcome) => outcome.as_str(),
        }
    }
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        Self::new(outcome)
    }
}
