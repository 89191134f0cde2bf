//! What can be wrong with a line.

use std::fmt;

/// A line that is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is not one JSON object.
    #[error("not a JSON object: {0}")]
    NotAnObject(String),
    /// The text nests deeper than any reader of JSON should have to follow.
    #[error("nested more than {max} deep")]
    TooDeep {
        /// How deep it may be.
        max: usize,
    },
    /// A field is missing or of the wrong type.
    #[error("{kind}: {problem}")]
    Field {
        /// The event's `type`, or what it is part of.
        kind: String,
        /// The field and what is wrong with it.
        problem: String,
    },
}

impl ReadError {
    /// A field of `kind` that could not be read.
    pub(crate) fn field(kind: &str, problem: impl fmt::Display) -> Self {
        Self::Field { kind: kind.to_owned(), problem: problem.to_string() }
    }

    /// A field of `kind` that is not there.
    pub(crate) fn missing(kind: &str, name: &str) -> Self {
        Self::field(kind, format_args!("field `{name}`: missing"))
    }

    /// A text that does not parse as an object.
    pub(crate) fn not_an_object(error: &serde_json::Error) -> Self {
        Self::NotAnObject(if error.is_eof() {
            format!("it is cut short at column {}", error.column())
        } else {
            error.to_string()
        })
    }
}
