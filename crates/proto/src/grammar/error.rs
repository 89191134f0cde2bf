//! What is wrong with a stream.

use std::fmt;

use super::Rule;
use crate::{Event, EventId, SessionId};

/// The first broken rule of a stream, and what broke it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The event that broke it; none where the stream ended too early.
    pub event: Option<EventId>,
    /// The event's `type`; none where the stream ended too early.
    pub kind: Option<Box<str>>,
    /// The session whose event it is, or that has not ended; none for the root.
    pub session: Option<SessionId>,
    /// What was expected instead.
    pub expected: String,
}

impl Violation {
    pub(super) fn of(event: &Event, breach: Breach) -> Self {
        Self {
            rule: breach.rule,
            event: Some(event.id.clone()),
            kind: Some(event.kind.tag().into()),
            session: event.scope.child().map(|child| child.child_session_id.clone()),
            expected: breach.expected,
        }
    }

    pub(super) fn at_end(session: Option<SessionId>, breach: Breach) -> Self {
        Self { rule: breach.rule, event: None, kind: None, session, expected: breach.expected }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.event) {
            (Some(kind), Some(event)) => write!(f, "{kind} {event}")?,
            (Some(_) | None, Some(_) | None) => f.write_str("the end of the stream")?,
        }
        let session = self.session.as_ref().map_or("root", SessionId::as_str);
        write!(f, " of {session} breaks `{}`: expected {}", self.rule, self.expected)
    }
}

impl std::error::Error for Violation {}

/// A broken rule, before it is known by which event.
#[derive(Debug)]
pub(super) struct Breach {
    rule: Rule,
    expected: String,
}

/// What a step comes to.
pub(super) type Step<T = ()> = Result<T, Breach>;

impl Rule {
    /// That this rule is broken.
    pub(super) fn expected(self, expected: impl Into<String>) -> Breach {
        Breach { rule: self, expected: expected.into() }
    }

    /// That this rule is broken unless it is `kept`.
    pub(super) fn demand(self, kept: bool, expected: impl FnOnce() -> String) -> Step {
        if kept { Ok(()) } else { Err(self.expected(expected())) }
    }
}
