//! Lines that are spelt as we write them, read in one pass.
//!
//! Nothing is decided here that is not decided the same in the general way: what is otherwise than expected, be it wrong
//! or only unusual, gives nothing, and the line is read the general way.

use std::fmt;

use serde::{
    Deserializer as _,
    de::{DeserializeSeed, Error as _, MapAccess, Visitor, value::BorrowedStrDeserializer},
};
use serde_json::value::RawValue;

use super::shared::Shared;
use crate::{EventId, EventKind, Fields, Json, Metadata, Timestamp};

/// The fields that are not a kind's.
const HEAD: &[&str] = &["seq", "id", "created_at", "metadata", "type"];

/// What stands before a child's event.
const EVENT: &str = ",\"event\":";

/// A child's line: its number, then what says whose the event is, then the event.
pub(super) struct Child<'a> {
    pub(super) seq: Option<u64>,
    /// What is behind the number, with the brace that ends the line.
    rest: &'a str,
}

impl<'a> Child<'a> {
    pub(super) fn of(line: &'a str) -> Option<Self> {
        let rest = line.strip_prefix('{')?;
        let (seq, rest) = match rest.strip_prefix("\"seq\":") {
            Some(numbered) => {
                let (digits, rest) = numbered.split_once(',')?;
                (Some(number(digits)?), rest)
            }
            None => (None, rest),
        };
        rest.starts_with("\"type\":\"SUB_AGENT\",").then_some(Self { seq, rest })
    }

    /// What was learnt of a line that had the same around its event, and this line's event.
    pub(super) fn known<T: Clone>(&self, wrappers: &mut Shared<T>) -> Option<(T, &'a str)> {
        let (known, event) = if let Some(last) = wrappers.of_prefix(self.rest) {
            last
        } else {
            let (wrapper, event) = self.rest.split_at_checked(self.rest.find(EVENT)? + EVENT.len())?;
            (wrappers.get(wrapper)?, event)
        };
        Some((known, event.strip_suffix('}')?))
    }

    /// What is around an event that is the line's last field. Another line that has the same up to its event says the
    /// same of it, whatever the event is.
    pub(super) fn wrapper(&self, event: &str) -> Option<&'a str> {
        let wrapper = self.rest.strip_suffix('}')?.strip_suffix(event)?;
        wrapper.ends_with(EVENT).then_some(wrapper)
    }
}

/// A number as JSON writes it, from 1.
fn number(digits: &str) -> Option<u64> {
    let is_written = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_written)
}

/// What an event is beside its scope.
pub(super) struct Read {
    pub(super) seq: Option<u64>,
    pub(super) id: EventId,
    pub(super) created_at: Timestamp,
    pub(super) metadata: Metadata,
    pub(super) kind: EventKind,
    pub(super) extra: Fields,
}

/// Reads an event's object, where the fields that each event has come before its kind's.
pub(super) fn event(text: &str, metadata: &mut Shared<Metadata>) -> Option<Read> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = deserializer.deserialize_map(EventVisitor { metadata }).ok()?;
    deserializer.end().ok()?;
    Some(read)
}

struct EventVisitor<'m> {
    metadata: &'m mut Shared<Metadata>,
}

impl<'de> Visitor<'de> for EventVisitor<'_> {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event that is spelt as we write it")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read, A::Error> {
        let (mut seq, mut id, mut created_at, mut metadata) = (None, None, None, None);
        loop {
            match map.next_key()? {
                Some("seq") if seq.is_none() => seq = Some(map.next_value()?),
                Some("id") if id.is_none() => id = Some(map.next_value()?),
                Some("created_at") if created_at.is_none() => created_at = Some(map.next_value()?),
                Some("metadata") if metadata.is_none() => {
                    let raw: &RawValue = map.next_value()?;
                    let read = self.metadata.get_or_read(raw.get(), || serde_json::from_str(raw.get()));
                    metadata = Some(read.map_err(A::Error::custom)?);
                }
                Some("type") => break,
                Some(_) | None => return Err(A::Error::custom("another field, or again")),
            }
        }
        let (Some(id), Some(created_at)) = (id, created_at) else {
            return Err(A::Error::custom("no id or no time"));
        };
        let tag: &str = map.next_value()?;
        if tag == "SUB_AGENT" {
            return Err(A::Error::custom("an event in an event"));
        }
        let (kind, extra) = EventKind::read_rest(tag, map)?;
        Ok(Read { seq, id, created_at, metadata: metadata.unwrap_or_default(), kind, extra })
    }
}

/// What is left of an object: a payload's fields are given, others kept.
pub(crate) struct Rest<'e, A> {
    map: A,
    own: &'static [&'static str],
    extra: &'e mut Fields,
}

impl<'de, 'e, A: MapAccess<'de>> Rest<'e, A> {
    /// Those with these names are the payload's.
    pub(crate) fn new(map: A, own: &'static [&'static str], extra: &'e mut Fields) -> Self {
        Self { map, own, extra }
    }

    /// The next field that is the payload's. Those before it are kept.
    fn next_own(&mut self) -> Result<Option<&'de str>, A::Error> {
        while let Some(name) = self.map.next_key::<&str>()? {
            if self.own.contains(&name) {
                return Ok(Some(name));
            }
            if HEAD.contains(&name) {
                return Err(A::Error::custom("a field of each event behind the kind's"));
            }
            let value: &RawValue = self.map.next_value()?;
            self.extra.push(name, Json::from_raw(value));
        }
        Ok(None)
    }

    /// Keeps all of them.
    pub(crate) fn keep(mut self) -> Result<(), A::Error> {
        match self.next_own()? {
            Some(_) => Err(A::Error::custom("it has none of its own")),
            None => Ok(()),
        }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(name) = self.next_own()? else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
