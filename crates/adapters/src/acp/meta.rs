//! `_meta`, the protocol's place for what it does not have.

use agent_client_protocol_schema::v1::Meta;
use anabranch_proto::Metadata;
use serde_json::{Map, Value, json};

use super::trace;

/// The one key of ours.
const KEY: &str = "anabranch/event";

/// Another agent's key that several clients nest calls by: the card that this one belongs to.
const COMPATIBLE: (&str, &str) = ("claudeCode", "parentToolUseId");

/// What a piece of a card's content is.
pub(super) fn of_part(name: &'static str) -> Meta {
    Map::from_iter([(KEY.to_owned(), json!({ "part": name }))])
}

/// What an update is about: facts of ours, the application's metadata, and the card that it belongs to.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    facts: Map<String, Value>,
    trace: Meta,
    within: Option<Value>,
}

impl About {
    pub(super) fn new(what: &str) -> Self {
        Self::default().with("type", what)
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    /// An event's metadata, but for the prompt: clients write `_meta` to their logs.
    pub(super) fn metadata(mut self, metadata: &Metadata) -> Self {
        let mut all = Map::new();
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "prompt") {
            // What is in metadata is JSON, so this cannot fail.
            all.extend(value.to().ok().map(|value: Value| (key.to_owned(), value)));
        }
        self.trace = trace::of(&all);
        if all.is_empty() { self } else { self.with("metadata", all) }
    }

    /// The card that it is shown within.
    pub(super) fn within(mut self, card: Option<&str>) -> Self {
        self.within = card.map(|card| json!({ COMPATIBLE.1: card }));
        self
    }

    /// The object, where there is anything in it.
    pub(super) fn meta(self) -> Option<Meta> {
        let mut meta = self.trace;
        if !self.facts.is_empty() {
            meta.insert(KEY.to_owned(), Value::Object(self.facts));
        }
        meta.extend(self.within.map(|within| (COMPATIBLE.0.to_owned(), within)));
        (!meta.is_empty()).then_some(meta)
    }
}
