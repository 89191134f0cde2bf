//! What a reader has of what was written, whatever its protocol.

use std::collections::BTreeMap;

use serde_json::Value;

use super::conversation::{Kind, Voice};

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    /// A piece of a text, and which one.
    Text(Voice, String, String),
    /// Anything else.
    Event(Value),
}

/// Between two frames that are no text, the texts that grew and by what; and the frame.
pub(crate) type Shape = Vec<(BTreeMap<(Voice, String), String>, Option<Value>)>;

/// Frames with the pieces of each text together, as far as nothing is between.
pub(crate) fn shape(frames: &[Seen]) -> Shape {
    let (mut shape, mut texts) = (Shape::new(), BTreeMap::<_, String>::new());
    for frame in frames {
        match frame {
            Seen::Text(voice, of, text) => texts.entry((*voice, of.clone())).or_default().push_str(text),
            Seen::Event(event) => shape.push((std::mem::take(&mut texts), Some(event.clone()))),
        }
    }
    shape.push((texts, None));
    shape
}

/// All that each said.
pub(crate) fn said(frames: &[Seen]) -> BTreeMap<Voice, String> {
    let mut said = BTreeMap::<_, String>::new();
    for frame in frames {
        if let Seen::Text(voice, _, text) = frame {
            said.entry(*voice).or_default().push_str(text);
        }
    }
    said
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Who an id belongs to that begins with a session's.
fn who(id: &str) -> &'static str {
    if id.starts_with("ses_1") {
        "left"
    } else if id.starts_with("ses_2") {
        "right"
    } else {
        "root"
    }
}

/// AG-UI: messages, by their ids.
pub(crate) fn ag_ui(frames: &[Value]) -> Vec<Seen> {
    let seen = |frame: &Value| {
        let kind = match frame["type"].as_str().unwrap() {
            "TEXT_MESSAGE_CONTENT" => Kind::Text,
            "REASONING_MESSAGE_CONTENT" => Kind::Thinking,
            _ => return Seen::Event(frame.clone()),
        };
        let id = text(&frame["messageId"]);
        Seen::Text((who(&id), kind), id, text(&frame["delta"]))
    };
    frames.iter().map(seen).collect()
}

/// Tool calls: the content of a child's card, a block an update.
pub(crate) fn tool_calls(frames: &[Value]) -> Vec<Seen> {
    let seen = |(at, frame): (usize, &Value)| {
        let card = text(&frame["tool_call_id"]);
        let content = text(&frame["content"]);
        let of_child =
            |kind| Seen::Text((who(card.trim_start_matches("spawn:")), kind), at.to_string(), content);
        match (frame["type"].as_str().unwrap(), frame["metadata"]["type"].as_str()) {
            ("agent_message_chunk", _) => {
                Seen::Text(("root", Kind::Text), text(&frame["message_id"]), text(&frame["text"]))
            }
            (_, Some("spawn_text")) => of_child(Kind::Text),
            (_, Some("spawn_thinking")) => of_child(Kind::Thinking),
            _ => Seen::Event(frame.clone()),
        }
    };
    // Which update it is does not count what the root said between: that is merged or not.
    let mut at = 0;
    let numbered = frames.iter().map(|frame| {
        at += usize::from(frame["type"] != "agent_message_chunk");
        (at, frame)
    });
    numbered.map(seen).collect()
}

/// The Agent Client Protocol: messages by their ids, and what cards say when they end. What they say before that depends
/// on time and is said again.
#[cfg(feature = "acp")]
pub(crate) fn acp(frames: &[Value]) -> Vec<Seen> {
    use agent_client_protocol_schema::v1::SessionNotification;

    let mut all = Vec::new();
    for frame in frames {
        serde_json::from_value::<SessionNotification>(frame["params"].clone()).unwrap();
        let (session, update) = (text(&frame["params"]["sessionId"]), &frame["params"]["update"]);
        match update["sessionUpdate"].as_str().unwrap() {
            kind @ ("agent_message_chunk" | "agent_thought_chunk") => {
                let kind = if kind == "agent_thought_chunk" { Kind::Thinking } else { Kind::Text };
                let id = text(&update["messageId"]);
                all.push(Seen::Text((who(&session), kind), id, text(&update["content"]["text"])));
            }
            "tool_call_update" if update.get("status").is_none() && update.get("content").is_some() => {
                assert!(frame.to_string().len() < 10_000, "progress is bounded");
            }
            "tool_call_update" => {
                let card = text(&update["toolCallId"]);
                for (at, part) in update["content"].as_array().into_iter().flatten().enumerate() {
                    let kind = match part["_meta"]["anabranch/event"]["part"].as_str() {
                        None => Kind::Text,
                        Some("thinking") => Kind::Thinking,
                        Some(_) => continue,
                    };
                    if let Some(session) = card.strip_prefix("spawn:") {
                        all.push(Seen::Text(
                            (who(session), kind),
                            at.to_string(),
                            text(&part["content"]["text"]),
                        ));
                    }
                }
                all.push(Seen::Event(frame.clone()));
            }
            _ => all.push(Seen::Event(frame.clone())),
        }
    }
    all
}

/// Lines: those of a child bear its name, and where they end is not what is looked at here.
pub(crate) fn lines(frames: &[Value]) -> Vec<Seen> {
    let whole: String = frames.iter().map(|frame| frame["text"].as_str().unwrap()).collect();
    let seen = |line: &str| {
        let (who, said) = match line.split_once(" │ ") {
            Some(("n1", said)) => ("left", said),
            Some(("n1·2", said)) => ("right", said),
            Some((name, _)) => panic!("nobody is called {name}"),
            None => ("root", line),
        };
        let text = |kind, said: &str| Seen::Text((who, kind), String::new(), said.to_owned());
        if let Some(thought) = said.strip_prefix("· ") {
            text(Kind::Thinking, thought)
        } else if said.starts_with(['→', '✓', '✗', '■', '🚀']) {
            Seen::Event(Value::from(line))
        } else {
            text(Kind::Text, said)
        }
    };
    whole.lines().map(seen).collect()
}
