//! Ids by order of appearance.

use std::{borrow::Borrow, collections::HashMap, sync::Arc};

use anabranch_proto::{Event, native};
use serde_json::{Map, Value};

/// What every time becomes.
const TIME: &str = "2026-01-01T00:00:00Z";
/// Ids from this length on are also renamed where they occur inside other texts. A shorter one could be a word.
const LONG: usize = 16;

/// Renames ids by order of appearance and per kind, and makes all times the same, so that two runs of the same thing
/// are the same text and identity stays visible.
///
/// | kind | new name | fields |
/// |---|---|---|
/// | session | `ses:0` | `session_id`, `child_session_id`, `parent_session_id`, `sessionId` |
/// | sub-agent | `sub:0` | `subagent_id` |
/// | tool call | `call:0` | `tool_call_id`, `toolCallId`, `parentToolUseId`, `id` of call and result blocks |
/// | reply | `reply:0` | `reply_id` |
/// | block | `block:0` | `block_id`, `id` of the other blocks |
/// | message | `msg:0` | `message_id`, `user_message_id`, `id` of messages |
/// | event | `evt:0` | `id` of events |
/// | task | `task:0` | `task_id` |
///
/// A text that was renamed once has that name everywhere; a reply's message, whose id is the reply's, is `reply:0`
/// too. In a tool call's id, `spawn:<session>` and `<session>/<call>` are renamed by their parts, and in `messageId`
/// `<reply>/<block>` and `<session>/<reply>/<block>` are. Ids of 16 bytes and
/// more are also renamed inside of other texts, once they are known.
///
/// The names that it gave stay as they are when they come again.
///
/// Best applied to the events *before* they go to an adapter: what it writes is then normal in whatever protocol.
///
/// ```
/// use anabranch_testkit::Normalizer;
///
/// let mut normalizer = Normalizer::new();
/// let line = r#"{"id":"01J","created_at":"2026-11-30T10:00:00Z","metadata":{},"type":"TEXT_BLOCK_END","reply_id":"r7","block_id":"b9"}"#;
/// assert_eq!(
///     normalizer.line(line),
///     r#"{"id":"evt:0","created_at":"2026-01-01T00:00:00Z","metadata":{},"type":"TEXT_BLOCK_END","reply_id":"reply:0","block_id":"block:0"}"#,
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct Normalizer {
    names: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
    /// Known ids that are renamed inside of texts, in the order in which they came.
    long: Vec<String>,
}

impl Normalizer {
    /// Knows no id yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Renames the ids of an event, in its scope and metadata too.
    ///
    /// # Panics
    /// When the event does not survive its native spelling, which would be a fault of `anabranch-proto`.
    #[expect(clippy::expect_used, reason = "for tests, where a failure is best told at once")]
    pub fn event(&mut self, event: &Event) -> Event {
        let line = native::to_string(event).expect("an event has a native spelling");
        native::Reader::default()
            .read(&self.line(&line))
            .expect("the native spelling of an event can be read")
            .event
    }

    /// Renames the ids of events; all events of a run share their scope's text, not its memory.
    pub fn events<E: Borrow<Event>>(
        &mut self,
        events: impl IntoIterator<Item = impl std::ops::Deref<Target = E>>,
    ) -> Vec<Arc<Event>> {
        events.into_iter().map(|event| Arc::new(self.event((*event).borrow()))).collect()
    }

    /// Renames the ids in JSON text: an event in its native spelling, or a frame of an adapter.
    ///
    /// # Panics
    /// When the text is not JSON.
    #[expect(clippy::expect_used, reason = "for tests, where a failure is best told at once")]
    pub fn line(&mut self, json: &str) -> String {
        let mut value = serde_json::from_str(json).expect("a line is JSON");
        self.value(&mut value);
        value.to_string()
    }

    /// Renames the ids in a JSON value: an event in its native spelling, or a frame of an adapter.
    pub fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::String(text) => self.text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        let id_kind = kind_of_id(fields);
        for (key, value) in fields {
            let Value::String(text) = value else {
                self.value(value);
                continue;
            };
            let kind = match key.as_str() {
                "id" => id_kind,
                key => kind_of_field(key),
            };
            match (kind, key.as_str()) {
                (Some("call"), _) => *text = self.call(text),
                (None, "messageId") => *text = self.message(text),
                (Some(kind), _) => *text = self.name(kind, text),
                (None, "created_at" | "finished_at") => TIME.clone_into(text),
                (None, _) => self.text(text),
            }
        }
    }

    /// A tool call's id, or the id of a card.
    fn call(&mut self, text: &str) -> String {
        if self.names.contains_key(text) {
            return self.name("call", text);
        }
        if let Some(child) = text.strip_prefix("spawn:") {
            return match child.split_once('/') {
                Some((child, rest)) => format!("spawn:{}/{rest}", self.with_run(child)),
                None => format!("spawn:{}", self.with_run(child)),
            };
        }
        if let Some((child, call)) = text.split_once('/') {
            return format!("{}/{}", self.with_run(child), self.name("call", call));
        }
        self.name("call", text)
    }

    /// A message's id, made of those of a reply and a block, and of a child's session before them.
    fn message(&mut self, text: &str) -> String {
        match text.split('/').collect::<Vec<_>>()[..] {
            [reply, block] => format!("{}/{}", self.name("reply", reply), self.name("block", block)),
            [session, reply, block] => {
                let session = self.with_run(session);
                format!("{session}/{}/{}", self.name("reply", reply), self.name("block", block))
            }
            _ => self.name("msg", text),
        }
    }

    /// A session's id, with `#2` or its like behind it or not.
    fn with_run(&mut self, text: &str) -> String {
        match text.split_once('#') {
            Some((session, run)) => format!("{}#{run}", self.name("ses", session)),
            None => self.name("ses", text),
        }
    }

    fn name(&mut self, kind: &'static str, id: &str) -> String {
        if let Some(name) = self.names.get(id) {
            return name.clone();
        }
        let count = self.counts.entry(kind).or_insert(0);
        let name = format!("{kind}:{count}");
        *count += 1;
        self.names.insert(id.to_owned(), name.clone());
        // A name that we gave is not renamed again, so that normalising twice changes nothing.
        self.names.insert(name.clone(), name.clone());
        if id.len() >= LONG {
            self.long.push(id.to_owned());
        }
        name
    }

    /// Renames what is inside of a text that is no id itself.
    fn text(&self, text: &mut String) {
        for id in &self.long {
            if text.contains(id.as_str())
                && let Some(name) = self.names.get(id)
            {
                *text = text.replace(id.as_str(), name);
            }
        }
    }
}

fn kind_of_field(key: &str) -> Option<&'static str> {
    Some(match key {
        "session_id" | "child_session_id" | "parent_session_id" | "sessionId" => "ses",
        "subagent_id" => "sub",
        "tool_call_id" | "toolCallId" | "parentToolUseId" => "call",
        "reply_id" => "reply",
        "block_id" => "block",
        "message_id" | "user_message_id" => "msg",
        "task_id" => "task",
        _ => return None,
    })
}

/// What the `id` of an object is the id of; it depends on what else is in the object.
fn kind_of_id(fields: &Map<String, Value>) -> Option<&'static str> {
    let has = |key| fields.contains_key(key);
    Some(match fields.get("type").and_then(Value::as_str) {
        Some("tool_call" | "tool_result") => "call",
        Some("text" | "thinking" | "hint" | "data") => "block",
        _ if has("role") && has("content") => "msg",
        _ if has("input") || has("output") => "call",
        _ if has("created_at") && has("type") => "evt",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;

    #[test]
    fn ids_inside_card_ids_are_renamed_by_their_parts() {
        let mut normalizer = Normalizer::new();
        let line = |id: &str| format!(r#"{{"tool_call_id":"{id}"}}"#);
        for (given, expected) in [
            ("spawn:ses_x", "spawn:ses:0"),
            ("spawn:ses_x#2", "spawn:ses:0#2"),
            ("ses_x/call_7", "ses:0/call:0"),
            ("ses_y#2/call_7", "ses:1#2/call:0"),
            ("call_7", "call:0"),
            ("ses:0/call:0", "ses:0/call:0"),
            ("spawn:ses_x/result", "spawn:ses:0/result"),
        ] {
            assert_eq!(normalizer.line(&line(given)), line(expected));
        }
    }

    #[test]
    fn ids_inside_message_ids_are_renamed_by_their_parts() {
        let mut normalizer = Normalizer::new();
        let line = |id: &str| format!(r#"{{"messageId":"{id}"}}"#);
        for (given, expected) in [
            ("r7/b9", "reply:0/block:0"),
            ("ses_x#2/r8/b9", "ses:0#2/reply:1/block:0"),
            ("m1", "msg:0"),
            ("ses:0#2/reply:1/block:0", "ses:0#2/reply:1/block:0"),
        ] {
            assert_eq!(normalizer.line(&line(given)), line(expected));
        }
    }

    #[test]
    fn a_known_long_id_is_renamed_inside_of_texts() {
        let mut normalizer = Normalizer::new();
        let json = r#"{"child_session_id":"ses_01JDXA0000000000000000000A","text":"see ses_01JDXA0000000000000000000A."}"#;
        assert_eq!(normalizer.line(json), r#"{"child_session_id":"ses:0","text":"see ses:0."}"#);
    }

    #[test]
    fn an_id_of_any_kind_is_known_by_where_it_stands() {
        let mut normalizer = Normalizer::new();
        let json = r#"{"type":"STREAM_COMPLETE","id":"e","created_at":"x","outcome":"completed","message":{"id":"m","name":"n","role":"assistant","content":[{"type":"text","id":"b","text":"id"},{"type":"tool_call","id":"c","input":"{}"}]},"tool_calls":[{"id":"c","name":"t","input":""}]}"#;
        assert_eq!(
            normalizer.line(json),
            r#"{"type":"STREAM_COMPLETE","id":"evt:0","created_at":"2026-01-01T00:00:00Z","outcome":"completed","message":{"id":"msg:0","name":"n","role":"assistant","content":[{"type":"text","id":"block:0","text":"id"},{"type":"tool_call","id":"call:0","input":"{}"}]},"tool_calls":[{"id":"call:0","name":"t","input":""}]}"#
        );
    }

    #[test]
    fn normalising_twice_equals_once() {
        let stage = Stage::new();
        let root = stage.root();
        root.begin("go");
        let child = root.spawn("n1");
        child.use_tool("read", "{}", "ok");
        let once = Normalizer::new().events(stage.events());
        assert_eq!(Normalizer::new().events(&once), once);
        assert_ne!(once, stage.events());
    }
}
