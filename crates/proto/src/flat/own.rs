//! What agentscope does not have, and how it travels: our own kinds as `CUSTOM` events, other errors as unknown ones.

use crate::{ErrorType, event::ReplyEnd};

/// Each of our own kinds: its name as a `CUSTOM`, and its tag.
const NAMES: [(&str, &str); 4] = [
    (USER_MESSAGE, "USER_MESSAGE"),
    (SPAWN_SESSION_START, "SPAWN_SESSION_START"),
    (SESSION_UPDATED, "SESSION_UPDATED"),
    (STREAM_COMPLETE, "STREAM_COMPLETE"),
];

pub(super) const USER_MESSAGE: &str = "anabranch.user_message";
pub(super) const SPAWN_SESSION_START: &str = "anabranch.spawn_session_start";
pub(super) const SESSION_UPDATED: &str = "anabranch.session_updated";
pub(super) const STREAM_COMPLETE: &str = "anabranch.stream_complete";

/// The tag of the kind that a `CUSTOM` of this name is, where it is one of ours.
pub(super) fn tag(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(own, _)| *own == name).map(|(_, tag)| *tag)
}

/// The kinds of errors that agentscope's union accepts.
const ERRORS: [ErrorType; 9] = [
    ErrorType::AUTHENTICATION,
    ErrorType::PERMISSION,
    ErrorType::RATE_LIMIT,
    ErrorType::INVALID_REQUEST,
    ErrorType::UPSTREAM,
    ErrorType::CONNECTION,
    ErrorType::INTERNAL,
    ErrorType::SETUP,
    ErrorType::UNKNOWN,
];

/// The kind of a reply's error, where agentscope does not have it.
pub(super) fn foreign_error(end: &ReplyEnd) -> Option<ErrorType> {
    let error_type = &end.error.as_ref()?.error_type;
    (!ERRORS.contains(error_type)).then(|| error_type.clone())
}
