//! An object whose fields are unread: the known ones are taken out, the others stay as they are.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    ReadError, nesting,
    payload::{Pairs, without_position},
    shared::Shared,
};
use crate::{EventKind, Fields, Json, Metadata};

/// An object whose fields are unread.
pub(crate) struct Object<'a>(Vec<(Name<'a>, &'a RawValue)>);

/// A key, borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'a> Object<'a> {
    /// The object that a line is. Refuses one that nests too deep.
    pub(crate) fn line(text: &'a str) -> Result<Self, ReadError> {
        nesting::check(text)?;
        Self::parse(text)
    }

    /// An object within a line.
    pub(crate) fn parse(text: &'a str) -> Result<Self, ReadError> {
        serde_json::from_str(text).map_err(|error| ReadError::not_an_object(&error))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(key, _)| key.0 == name).map(|(_, raw)| *raw)
    }

    /// The value of the last field, where that has this name.
    pub(crate) fn last(&self, name: &str) -> Option<&'a RawValue> {
        self.0.last().filter(|(key, _)| key.0 == name).map(|(_, raw)| *raw)
    }

    /// Whether the field before the last one has this name.
    pub(crate) fn last_but_one(&self, name: &str) -> bool {
        self.0.iter().rev().nth(1).is_some_and(|(key, _)| key.0 == name)
    }

    pub(crate) fn drop_last(&mut self) {
        self.0.pop();
    }

    pub(crate) fn take_raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(key, _)| key.0 == name)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn take<T: Deserialize<'a>>(&mut self, name: &str, of: &str) -> Result<T, ReadError> {
        let raw = self.take_raw(name).ok_or_else(|| ReadError::missing(of, name))?;
        parse(name, of, raw)
    }

    pub(crate) fn take_optional<T: Deserialize<'a>>(
        &mut self,
        name: &str,
        of: &str,
    ) -> Result<Option<T>, ReadError> {
        self.take_raw(name).map(|raw| parse(name, of, raw)).transpose()
    }

    /// The metadata, shared with the events that had the same.
    pub(crate) fn take_metadata(
        &mut self,
        of: &str,
        shared: &mut Shared<Metadata>,
    ) -> Result<Metadata, ReadError> {
        match self.take_raw("metadata") {
            Some(raw) => shared.get_or_read(raw.get(), || parse("metadata", of, raw)),
            None => Ok(Metadata::default()),
        }
    }

    /// Names and values as one text, the same for objects that say the same in the same way.
    pub(crate) fn write_to(&self, text: &mut String) {
        for (name, value) in &self.0 {
            // A name may have any character in it, so its length comes first.
            let _ = write!(text, "{}:{}{}", name.0.len(), name.0, value.get());
            text.push('\0');
        }
    }

    pub(crate) fn borrowed(&self) -> Pairs<'_> {
        self.0.iter().map(|(name, raw)| (&*name.0, *raw)).collect()
    }

    /// The payload of the kind `tag`, and the fields that it does not have.
    pub(crate) fn payload(&self, tag: &str) -> Result<(EventKind, Fields), ReadError> {
        let mut pairs = self.borrowed();
        if tag == "TOOL_RESULT_END" {
            absent_if_null(&mut pairs, "response");
        }
        let (kind, own) = EventKind::read(tag, pairs).map_err(|error| ReadError::field(tag, error))?;
        let mut extra = Fields::default();
        if let Some(own) = own {
            for (name, value) in self.0.iter().filter(|(name, _)| !own.contains(&&*name.0)) {
                extra.push(&name.0, Json::from_raw(value));
            }
        }
        Ok((kind, extra))
    }
}

/// Leaves the field out where it is `null`: a producer in another language writes its absence so.
pub(super) fn absent_if_null(pairs: &mut Pairs<'_>, name: &str) {
    pairs.retain(|(key, raw)| *key != name || raw.get() != "null");
}

pub(crate) fn parse<'a, T: Deserialize<'a>>(name: &str, of: &str, raw: &'a RawValue) -> Result<T, ReadError> {
    serde_json::from_str(raw.get()).map_err(|error| {
        ReadError::field(of, format_args!("field `{name}`: {}", without_position(&error.to_string())))
    })
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
