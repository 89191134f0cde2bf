//! Questions to people and to other executors, and how the answers find their calls.
//!
//! A question is asked inside its call's own stream, so whoever is not waited for by the call goes on: parents, siblings and
//! their sub-agents. The answer finds the call by session and call.

mod answer;
mod confirm;
mod external;
mod permissions;
mod registry;

pub use answer::{Answer, AnswerError};
pub(crate) use confirm::Confirm;
pub use external::ExternalTool;
pub(crate) use permissions::by_rules;
pub use permissions::{Permission, Permissions};
pub(crate) use registry::Questions;
pub use registry::{Question, QuestionKind};

/// On a question that is for the code of the side that gave the order of a run: nobody sees it.
pub(crate) const ASKED_OF_CODE: &str = "asked_of_code";
