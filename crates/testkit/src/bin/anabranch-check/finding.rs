//! What is wrong, told to a person: where, what, and what to do.

use std::{error::Error as _, fmt, io};

use anabranch_proto::{grammar::Violation, lines::LineError};

/// Why a stream is not well formed.
#[derive(Debug)]
pub(crate) enum Finding {
    /// The input cannot be read.
    Input { input: String, source: io::Error },
    /// There is no event in it.
    Nothing,
    /// A line is no event.
    Line { error: LineError, before: u64 },
    /// An event breaks a rule, or the stream ends too early.
    Violation { line: u64, violation: Violation },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { input, source } => write!(f, "error: cannot read {input}: {source}"),
            Self::Nothing => {
                f.write_str("error: no events in the input; did the program that writes them fail?")
            }
            Self::Line { error, before } => {
                write!(f, "error: {error}")?;
                let mut source = error.source();
                while let Some(cause) = source {
                    write!(f, ": {cause}")?;
                    source = cause.source();
                }
                write!(f, "\n  events before it, well-formed so far: {before}")
            }
            Self::Violation { line, violation } => {
                let place = if violation.event.is_some() { "line" } else { "after line" };
                write!(f, "error: {place} {line}: {violation}\n  rule: {}", violation.rule.text())
            }
        }
    }
}
