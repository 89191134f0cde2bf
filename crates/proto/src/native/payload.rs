//! The object around a payload: written with the payload's fields in it, read field by field with errors that name one.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor, value::BorrowedStrDeserializer},
    forward_to_deserialize_any,
};
use serde_json::value::RawValue;

use crate::{EventId, Fields, Json, Metadata, Timestamp, flat::note::Note};

/// The fields that every event has, and those that were read beyond its kind's.
#[derive(Clone, Copy)]
pub(crate) struct Wrap<'a> {
    pub(crate) seq: Option<u64>,
    pub(crate) id: &'a EventId,
    pub(crate) created_at: &'a Timestamp,
    pub(crate) metadata: &'a Metadata,
    pub(crate) tag: &'a str,
    pub(crate) extra: Option<&'a Fields>,
    /// What the flat spelling has to add so that it can be read back.
    pub(crate) note: Option<&'a Note>,
}

impl Wrap<'_> {
    /// Writes one object with these fields and the payload's.
    pub(crate) fn serialize<P: Serialize, S: Serializer>(
        self,
        payload: &P,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Object<'a, P> {
            #[serde(skip_serializing_if = "Option::is_none")]
            seq: Option<u64>,
            id: &'a EventId,
            created_at: &'a Timestamp,
            metadata: &'a Metadata,
            #[serde(rename = "type")]
            tag: &'a str,
            #[serde(flatten)]
            payload: &'a P,
            #[serde(flatten)]
            extra: Option<&'a Fields>,
            #[serde(rename = "anabranch", skip_serializing_if = "Option::is_none")]
            note: Option<&'a Note>,
        }
        let Self { seq, id, created_at, metadata, tag, extra, note } = self;
        Object { seq, id, created_at, metadata, tag, payload, extra, note }.serialize(serializer)
    }
}

/// The fields of an object, unread.
pub(crate) type Pairs<'a> = Vec<(&'a str, &'a RawValue)>;

pub(crate) fn pairs(fields: &Fields) -> Pairs<'_> {
    fields.iter().map(|(name, value)| (name, value.raw())).collect()
}

pub(crate) fn to_fields(pairs: Pairs<'_>) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in pairs {
        fields.push(name, Json::from_raw(value));
    }
    fields
}

/// The fields with these names. A payload with a flattened part would read the others too, and lose how they are spelt.
pub(crate) fn only<'a>(mut pairs: Pairs<'a>, names: &[&str]) -> Pairs<'a> {
    pairs.retain(|(name, _)| names.contains(name));
    pairs
}

/// Reads a payload from its fields; fields that it does not have are passed over.
pub(crate) fn read<'de, P: Deserialize<'de>>(pairs: Pairs<'de>) -> Result<P, FieldError> {
    P::deserialize(PayloadDeserializer { pairs: pairs.into_iter(), value: None })
}

/// A field that could not be read.
#[derive(Debug)]
pub(crate) struct FieldError {
    field: Option<String>,
    message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "field `{field}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for FieldError {}

impl serde::de::Error for FieldError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { field: None, message: message.to_string() }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { field: Some(field.to_owned()), message: "missing".to_owned() }
    }
}

struct PayloadDeserializer<'de> {
    pairs: std::vec::IntoIter<(&'de str, &'de RawValue)>,
    value: Option<(&'de str, &'de RawValue)>,
}

impl<'de> Deserializer<'de> for PayloadDeserializer<'de> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_map(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for PayloadDeserializer<'de> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldError> {
        self.value = self.pairs.next();
        let Some((name, _)) = self.value else {
            return Ok(None);
        };
        let name: BorrowedStrDeserializer<'de, FieldError> = BorrowedStrDeserializer::new(name);
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FieldError> {
        let Some((name, raw)) = self.value.take() else {
            return Err(FieldError::custom("a value was asked for before its key"));
        };
        seed.deserialize(&mut serde_json::Deserializer::from_str(raw.get())).map_err(|error| FieldError {
            field: Some(name.to_owned()),
            message: without_position(&error.to_string()),
        })
    }
}

/// The message without its position, which would be relative to the field.
pub(crate) fn without_position(message: &str) -> String {
    match message.rfind(" at line ") {
        Some(end) => message.get(..end).unwrap_or(message).to_owned(),
        None => message.to_owned(),
    }
}
