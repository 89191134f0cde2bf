//! What is refused, in the protocol's words.

use agent_client_protocol::Error;
use anabranch_proto::SessionId;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("there is no session `{0}` on this connection; session/list has those that are")]
    Unknown(String),
    #[error(
        "the session `{0}` is a sub-agent's: a client may watch it, and cancel it where that was granted"
    )]
    Child(SessionId),
    #[error("the session `{0}` is answering a prompt; wait for that answer, or cancel it")]
    Busy(String),
    #[error("a prompt has text and links to resources; this one has {0}")]
    Content(&'static str),
    #[error("a prompt has at most {most} bytes of text; this one has {bytes}")]
    TooLong { bytes: usize, most: usize },
    #[error("a connection has at most {0} sessions; close one with session/close")]
    TooMany(usize),
    #[error("the folder of a session is an absolute path; `{0}` is not")]
    Folder(String),
    #[error("cursors are not known here: session/list answers with all sessions at once")]
    Cursor,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let mut error = Self::invalid_params();
        error.message = refusal.to_string();
        error
    }
}
