//! The metadata that a line shows, which says whose event it is and what a tool answered.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use super::{SUBAGENT_ID, TOOL_RESPONSE};
use crate::{Event, EventKind, Fields, Json, Metadata, Scope};

/// The metadata to show for an event, and whether the event's own can be told from it.
pub(super) fn visible(event: &Event) -> (Cow<'_, Metadata>, bool) {
    let own = &event.metadata;
    let is_routed = match &event.scope {
        Scope::Root => subagent_id(own).is_none(),
        Scope::Child(_) if !is_legible(own) => false,
        Scope::Child(child) => {
            own.get(SUBAGENT_ID).is_some_and(|id| is_string(id, child.subagent_id.as_str()))
        }
    };
    let EventKind::ToolResultEnd(end) = &event.kind else {
        return if is_routed {
            (Cow::Borrowed(own), true)
        } else {
            (Cow::Owned(routed(own, &event.scope, is_routed).into()), false)
        };
    };
    let shows_none = tool_response(own).is_none();
    if is_routed && shows_none && end.response.is_empty() {
        return (Cow::Borrowed(own), true);
    }
    let is_told = is_routed && is_legible(own) && own.get(TOOL_RESPONSE).is_none();
    let mut shown = routed(own, &event.scope, is_routed);
    shown.remove(TOOL_RESPONSE);
    if !end.response.is_empty()
        && let Ok(response) = Json::new(&end.response)
    {
        shown.insert(TOOL_RESPONSE, response);
    }
    (Cow::Owned(shown.into()), is_told)
}

/// The sub-agent that metadata names; a value that is no string names none.
pub(super) fn subagent_id(metadata: &Metadata) -> Option<String> {
    if is_legible(metadata) { metadata.get_str(SUBAGENT_ID) } else { spelt(&metadata.to_string()) }
}

/// Whether every key is text. One with half a surrogate pair is none, and then the metadata gives no value at all.
fn is_legible(metadata: &Metadata) -> bool {
    metadata.is_empty() || metadata.iter().next().is_some()
}

/// The sub-agent that metadata names of which some key is no text.
fn spelt(metadata: &str) -> Option<String> {
    struct Key(bool);
    impl<'de> Deserialize<'de> for Key {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct KeyVisitor;
            impl Visitor<'_> for KeyVisitor {
                type Value = Key;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a key")
                }
                fn visit_bytes<E>(self, key: &[u8]) -> Result<Key, E> {
                    Ok(Key(key == SUBAGENT_ID.as_bytes()))
                }
            }
            deserializer.deserialize_bytes(KeyVisitor)
        }
    }
    struct Named(Option<Json>);
    impl<'de> Deserialize<'de> for Named {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct NamedVisitor;
            impl<'de> Visitor<'de> for NamedVisitor {
                type Value = Named;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a JSON object")
                }
                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named, A::Error> {
                    let mut named = None;
                    while let Some((Key(is_it), value)) = map.next_entry::<Key, Json>()? {
                        if is_it {
                            named = Some(value);
                        }
                    }
                    Ok(Named(named))
                }
            }
            deserializer.deserialize_map(NamedVisitor)
        }
    }
    let Named(named) = serde_json::from_str(metadata).ok()?;
    named?.to().ok()
}

/// The structured result in metadata, where there is one.
pub(super) fn tool_response(metadata: &Metadata) -> Option<Metadata> {
    let response = metadata.get(TOOL_RESPONSE)?.clone();
    Metadata::try_from(response).ok().filter(|response| !response.is_empty())
}

pub(super) fn without_tool_response(metadata: &Metadata) -> Metadata {
    let mut fields = fields(metadata);
    fields.remove(TOOL_RESPONSE);
    fields.into()
}

/// The fields with the scope's `subagent_id`, and without any where the event is the root's.
fn routed(own: &Metadata, scope: &Scope, is_routed: bool) -> Fields {
    let mut shown = fields(own);
    if is_routed {
        return shown;
    }
    match scope {
        Scope::Root => {
            shown.remove(SUBAGENT_ID);
            shown
        }
        Scope::Child(child) => {
            let id = Json::from(serde_json::Value::from(child.subagent_id.as_str()));
            if shown.get(SUBAGENT_ID).is_some() {
                shown.insert(SUBAGENT_ID, id);
                return shown;
            }
            let mut routed = Fields::default();
            routed.insert(SUBAGENT_ID, id);
            for (key, value) in shown.iter() {
                routed.push(key, value.clone());
            }
            routed
        }
    }
}

fn fields(metadata: &Metadata) -> Fields {
    let mut fields = Fields::default();
    for (key, value) in metadata.iter() {
        fields.push(key, value.clone());
    }
    fields
}

/// Whether the JSON value is this string. Ids seldom have escapes, so that most are compared as they stand.
fn is_string(json: &Json, text: &str) -> bool {
    let bare = json.as_str().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match bare {
        Some(bare) if !bare.contains('\\') => bare == text,
        Some(_) => json.to::<String>().is_ok_and(|value| value == text),
        None => false,
    }
}
