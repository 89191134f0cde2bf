//! Which spelling a stream has, and reading it.

use std::collections::HashMap;

use anabranch_proto::{Event, flat, lines::EventReader, native};
use serde_json::value::RawValue;

use crate::cli::Written;

/// How a stream's events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    Native,
    Flat,
}

/// What only the native spelling has as a `type`.
const NATIVE_TYPES: &[&str] =
    &["SUB_AGENT", "USER_MESSAGE", "SPAWN_SESSION_START", "SESSION_UPDATED", "STREAM_COMPLETE"];

impl Spelling {
    /// The spelling of a stream that begins with this line: native where the line has a number or is of a kind that has
    /// another form in the flat one. What is no JSON is either's fault.
    pub(crate) fn detect(line: &str) -> Self {
        // The values stay text: a long line is not taken apart twice.
        let Ok(fields) = serde_json::from_str::<HashMap<String, &RawValue>>(line) else {
            return Self::Native;
        };
        let tag = fields.get("type").and_then(|tag| serde_json::from_str::<String>(tag.get()).ok());
        let is_native = tag.is_some_and(|tag| NATIVE_TYPES.contains(&&*tag));
        if is_native || fields.contains_key("seq") || fields.contains_key("event_kind") {
            Self::Native
        } else {
            Self::Flat
        }
    }
}

/// Reads a stream in the spelling that it is said to have, or that its first line has.
pub(crate) enum Reader {
    Unknown,
    Native(native::Reader),
    Flat(flat::Reader),
}

impl Reader {
    pub(crate) fn new(written: Written) -> Self {
        match written {
            Written::Auto => Self::Unknown,
            Written::Native => Self::of(Spelling::Native),
            Written::Flat => Self::of(Spelling::Flat),
        }
    }

    fn of(spelling: Spelling) -> Self {
        match spelling {
            Spelling::Native => Self::Native(native::Reader::default()),
            Spelling::Flat => Self::Flat(flat::Reader::default()),
        }
    }
}

/// An event, with its number where the line has one.
pub(crate) struct Read {
    pub(crate) seq: Option<u64>,
    pub(crate) event: Event,
}

impl EventReader for Reader {
    type Line = Read;

    fn read_line(&mut self, text: &str) -> Result<Read, native::ReadError> {
        loop {
            match self {
                Self::Unknown => *self = Self::of(Spelling::detect(text)),
                Self::Native(reader) => {
                    return reader.read(text).map(|line| Read { seq: line.seq, event: line.event });
                }
                Self::Flat(reader) => {
                    return reader.read(text).map(|line| Read { seq: None, event: line.event });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_the_spelling() {
        for (line, spelling) in [
            (r#"{"seq":1,"id":"e","type":"REPLY_START"}"#, Spelling::Native),
            (r#"{"id":"e","type":"USER_MESSAGE"}"#, Spelling::Native),
            (r#"{"type":"SUB_AGENT","event":{}}"#, Spelling::Native),
            (r#"{"event_kind":"spawn_session_start"}"#, Spelling::Native),
            ("not JSON", Spelling::Native),
            (r#"{"id":"e","type":"CUSTOM","name":"anabranch.user_message"}"#, Spelling::Flat),
            (r#"{"id":"e","metadata":{},"type":"REPLY_START"}"#, Spelling::Flat),
        ] {
            assert_eq!(Spelling::detect(line), spelling, "{line}");
        }
    }
}
