//! How something is to be closed.

use anabranch_proto::{ErrorInfo, ErrorType, Outcome, ToolResultState};

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
}

impl Ending {
    /// An outcome without an error.
    #[must_use]
    pub fn new(outcome: Outcome) -> Self {
        Self { outcome, error: None }
    }

    /// What went wrong.
    #[must_use]
    pub fn error(mut self, error: impl Into<Option<ErrorInfo>>) -> Self {
        self.error = error.into();
        self
    }

    /// The ending of what was open beneath something that ended so: interrupted with it, or failed because of it.
    pub(crate) fn beneath(&self, why: &str) -> Self {
        if self.outcome == Outcome::Interrupted {
            Self::new(Outcome::Interrupted)
        } else {
            Self::new(Outcome::Failed).error(ErrorInfo::new(ErrorType::INTERNAL, why))
        }
    }

    /// The state of a result that nobody gave.
    pub(crate) fn result_state(&self) -> ToolResultState {
        if self.outcome == Outcome::Interrupted {
            ToolResultState::Interrupted
        } else {
            ToolResultState::Error
        }
    }

    /// The text of a result that nobody gave, for the model.
    pub(crate) fn result_text(&self) -> &str {
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
