//! Reading the native spelling.

use std::{collections::HashMap, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::payload::{self, Pairs, without_position};
use crate::{ChildScope, Event, EventId, EventKind, Metadata, Scope, SessionId, Timestamp};

/// An event that was read, with its number where the line has one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// The event's number in its session's stream.
    pub seq: Option<u64>,
    /// The event.
    pub event: Event,
}

/// A line that is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is not one JSON object.
    #[error("not a JSON object: {0}")]
    NotAnObject(String),
    /// A field is missing or of the wrong type.
    #[error("{kind}: {problem}")]
    Field {
        /// The event's `type`, or what it is part of.
        kind: String,
        /// The field and what is wrong with it.
        problem: String,
    },
}

/// Reads lines of one stream.
///
/// Remembers the scopes that it has read, so that the events of one run share theirs. Its memory grows with the number
/// of runs in the stream, not with its events.
#[derive(Debug, Default)]
pub struct Reader {
    scopes: HashMap<(SessionId, u32), Arc<ChildScope>>,
}

impl Reader {
    /// Reads one event from one JSON object.
    ///
    /// # Errors
    /// When the text is not one JSON object, or a known kind of event has a field that is missing or of the wrong
    /// type. The reader can go on with the next line.
    pub fn read(&mut self, text: &str) -> Result<Line, ReadError> {
        let mut object = object(text)?;
        let seq = object.take_optional("seq", "the line")?;
        let tag: String = object.take("type", "the line")?;
        if tag != "SUB_AGENT" {
            return Ok(Line { seq, event: event(object, &tag, Scope::Root)? });
        }
        let inner = object.take_raw("event").ok_or_else(|| field("SUB_AGENT", "field `event`: missing"))?;
        let scope = payload::read(object.borrowed()).map_err(|error| field("SUB_AGENT", error))?;
        let scope = self.intern(scope);
        let mut inner = self::object(inner.get())?;
        let tag: String = inner.take("type", "the event in SUB_AGENT")?;
        Ok(Line { seq, event: event(inner, &tag, Scope::Child(scope))? })
    }

    fn intern(&mut self, scope: ChildScope) -> Arc<ChildScope> {
        let key = (scope.child_session_id.clone(), scope.run);
        match self.scopes.get(&key) {
            Some(known) if **known == scope => Arc::clone(known),
            Some(_) | None => {
                let scope = Arc::new(scope);
                self.scopes.insert(key, Arc::clone(&scope));
                scope
            }
        }
    }
}

fn event(mut object: Object<'_>, tag: &str, scope: Scope) -> Result<Event, ReadError> {
    let id: EventId = object.take("id", tag)?;
    let created_at: Timestamp = object.take("created_at", tag)?;
    let metadata: Metadata = object.take_optional("metadata", tag)?.unwrap_or_default();
    let (kind, own) = EventKind::read(tag, object.borrowed()).map_err(|error| field(tag, error))?;
    let mut event = Event::new(id, created_at, scope, metadata, kind);
    if let Some(own) = own {
        let extra: Pairs<'_> =
            object.borrowed().into_iter().filter(|(name, _)| !own.contains(name)).collect();
        if !extra.is_empty() {
            event.extra = Some(Box::new(payload::to_fields(extra)));
        }
    }
    Ok(event)
}

fn field(kind: &str, problem: impl fmt::Display) -> ReadError {
    ReadError::Field { kind: kind.to_owned(), problem: problem.to_string() }
}

fn object(text: &str) -> Result<Object<'_>, ReadError> {
    serde_json::from_str(text).map_err(|error| ReadError::NotAnObject(error.to_string()))
}

/// An object whose fields are unread.
struct Object<'a>(Vec<(Name<'a>, &'a RawValue)>);

/// A key, borrowed where it has no escapes.
struct Name<'a>(std::borrow::Cow<'a, str>);

impl<'a> Object<'a> {
    fn take_raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(key, _)| key.0 == name)?;
        Some(self.0.remove(at).1)
    }

    fn take<T: Deserialize<'a>>(&mut self, name: &str, of: &str) -> Result<T, ReadError> {
        let raw = self.take_raw(name).ok_or_else(|| field(of, format_args!("field `{name}`: missing")))?;
        parse(name, of, raw)
    }

    fn take_optional<T: Deserialize<'a>>(&mut self, name: &str, of: &str) -> Result<Option<T>, ReadError> {
        self.take_raw(name).map(|raw| parse(name, of, raw)).transpose()
    }

    fn borrowed(&self) -> Pairs<'_> {
        self.0.iter().map(|(name, raw)| (&*name.0, *raw)).collect()
    }
}

fn parse<'a, T: Deserialize<'a>>(name: &str, of: &str, raw: &'a RawValue) -> Result<T, ReadError> {
    serde_json::from_str(raw.get())
        .map_err(|error| field(of, format_args!("field `{name}`: {}", without_position(&error.to_string()))))
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::with_capacity(12);
                while let Some(entry) = map.next_entry()? {
                    fields.push(entry);
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(key.into()))
            }
            fn visit_str<E>(self, key: &str) -> Result<Name<'de>, E> {
                Ok(Name(key.to_owned().into()))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}
