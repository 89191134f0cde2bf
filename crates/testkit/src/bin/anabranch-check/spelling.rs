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
    /// The spelling that a line tells: native where it has a number or is of a kind that has another form in the flat one,
    /// flat where it has such a form or is said to be a sub-agent's. None where it is the same in both; what is no JSON is
    /// either's fault.
    pub(crate) fn detect(line: &str) -> Option<Self> {
        // The values stay text: a long line is not taken apart twice.
        let fields = serde_json::from_str::<HashMap<String, &RawValue>>(line).ok()?;
        let text = |name| fields.get(name).and_then(|text| serde_json::from_str::<String>(text.get()).ok());
        let tag = text("type");
        let is_native = tag.as_deref().is_some_and(|tag| NATIVE_TYPES.contains(&tag));
        if is_native || fields.contains_key("seq") || fields.contains_key("event_kind") {
            return Some(Self::Native);
        }
        let is_own = tag.as_deref() == Some("CUSTOM")
            && text("name").is_some_and(|name| name.starts_with("anabranch."));
        let metadata = fields.get("metadata").map(|metadata| metadata.get());
        let is_childs = metadata
            .and_then(|metadata| serde_json::from_str::<HashMap<String, &RawValue>>(metadata).ok())
            .is_some_and(|metadata| metadata.contains_key("subagent_id"));
        (is_own || is_childs || fields.contains_key("anabranch")).then_some(Self::Flat)
    }
}

/// Reads a stream in the spelling that it is said to have, or that the first line has which tells it. Lines before that
/// one are the same in both, and both readers take note of them.
pub(crate) struct Reader {
    spelling: Option<Spelling>,
    native: native::Reader,
    flat: flat::Reader,
}

impl Reader {
    pub(crate) fn new(written: Written) -> Self {
        let spelling = match written {
            Written::Auto => None,
            Written::Native => Some(Spelling::Native),
            Written::Flat => Some(Spelling::Flat),
        };
        Self { spelling, native: native::Reader::default(), flat: flat::Reader::default() }
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
        self.spelling = self.spelling.or_else(|| Spelling::detect(text));
        if self.spelling == Some(Spelling::Flat) {
            return self.flat.read(text).map(|line| Read { seq: None, event: line.event });
        }
        let read = self.native.read(text).map(|line| Read { seq: line.seq, event: line.event });
        if self.spelling.is_none() && read.is_ok() {
            // For the sessions that it learns; what it makes of the line is the same.
            let _ = self.flat.read(text);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_its_spelling_or_is_the_same_in_both() {
        for (line, spelling) in [
            (r#"{"seq":1,"id":"e","type":"REPLY_START"}"#, Some(Spelling::Native)),
            (r#"{"id":"e","type":"USER_MESSAGE"}"#, Some(Spelling::Native)),
            (r#"{"type":"SUB_AGENT","event":{}}"#, Some(Spelling::Native)),
            (r#"{"event_kind":"spawn_session_start"}"#, Some(Spelling::Native)),
            ("not JSON", None),
            (r#"{"id":"e","type":"CUSTOM","name":"anabranch.user_message"}"#, Some(Spelling::Flat)),
            (r#"{"id":"e","metadata":{"subagent_id":"sa"},"type":"REPLY_START"}"#, Some(Spelling::Flat)),
            (r#"{"id":"e","metadata":{},"type":"REPLY_START"}"#, None),
            (r#"{"id":"e","type":"CUSTOM","name":"progress"}"#, None),
        ] {
            assert_eq!(Spelling::detect(line), spelling, "{line}");
        }
    }

    #[test]
    fn a_stream_whose_first_lines_tell_nothing_is_read_in_the_spelling_of_a_later_one() {
        let start = r#"{"id":"a","created_at":"2026-01-01T00:00:00Z","metadata":{},"type":"REPLY_START","session_id":"s","reply_id":"r","name":"m","role":"assistant"}"#;
        let text = |metadata: &str| {
            format!(
                r#"{{"id":"b","created_at":"2026-01-01T00:00:00Z","metadata":{metadata},"type":"TEXT_BLOCK_START","reply_id":"q","block_id":"b"}}"#
            )
        };
        let wrapped = format!(
            r#"{{"type":"SUB_AGENT","child_session_id":"c","run":1,"parent_session_id":"s","subagent_id":"sa","tool_call_id":null,"source_name":"n","source_type":"agent","depth":1,"event":{}}}"#,
            text("{}")
        );
        for told in [text(r#"{"subagent_id":"sa"}"#), wrapped] {
            let mut reader = Reader::new(Written::Auto);
            let [first, second] = [start, &told].map(|line| reader.read_line(line).unwrap().event);
            assert!(first.scope.child().is_none());
            assert_eq!(second.scope.child().unwrap().subagent_id.as_str(), "sa", "{told}");
        }
    }
}
