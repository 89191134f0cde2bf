//! Writing the native spelling.

use serde::{Serialize, Serializer};

use super::payload::Wrap;
use crate::{ChildScope, Event, Scope};

/// An event in its native spelling, for any serde serializer.
#[derive(Clone, Copy, Debug)]
pub struct Native<'a> {
    seq: Option<u64>,
    event: &'a Event,
}

impl<'a> Native<'a> {
    /// An event, with its number where it has one.
    #[must_use]
    pub fn new(seq: Option<u64>, event: &'a Event) -> Self {
        Self { seq, event }
    }
}

/// The event as one line of JSON, without the line's end.
///
/// # Errors
/// None for events whose parts are this crate's own types; the signature is serde's.
pub fn to_string(event: &Event) -> serde_json::Result<String> {
    serde_json::to_string(&Native::new(None, event))
}

/// Appends the event as one line of JSON to `out`, without the line's end.
///
/// # Errors
/// None for events whose parts are this crate's own types; the signature is serde's. `out` may then hold a part of the
/// line.
pub fn write(seq: Option<u64>, event: &Event, out: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(out, &Native::new(seq, event))
}

impl Serialize for Native<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.event.scope {
            Scope::Root => Body { seq: self.seq, event: self.event }.serialize(serializer),
            Scope::Child(scope) => {
                let event = Body { seq: None, event: self.event };
                SubAgent { seq: self.seq, tag: "SUB_AGENT", scope, event }.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
struct SubAgent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(rename = "type")]
    tag: &'static str,
    #[serde(flatten)]
    scope: &'a ChildScope,
    event: Body<'a>,
}

struct Body<'a> {
    seq: Option<u64>,
    event: &'a Event,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wrap = Wrap {
            seq: self.seq,
            id: &self.event.id,
            created_at: &self.event.created_at,
            metadata: &self.event.metadata,
            tag: self.event.kind.tag(),
            extra: self.event.extra.as_deref(),
            note: None,
        };
        self.event.kind.serialize(wrap, serializer)
    }
}
