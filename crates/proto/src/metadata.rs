//! The open JSON object that applications put on events.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Fields, Json};

/// An open JSON object for applications: tenants, traces, DAG nodes.
///
/// Shared by every event that carries it and copied only when written. Key order and the spelling of numbers survive.
/// The runtime writes the keys in [`Metadata::RESERVED`]; nothing in this workspace decides anything by metadata.
///
/// ```
/// # use anabranch_proto::Metadata;
/// let inherited = Metadata::default().with("tenant_id", "acme").with("node_id", "n0");
/// let own = Metadata::default().with("node_id", "n1");
/// assert_eq!(inherited.merged(&own).to_string(), r#"{"tenant_id":"acme","node_id":"n1"}"#);
/// ```
#[derive(Clone, Default)]
pub struct Metadata(Option<Arc<Inner>>);

/// A non-empty object: what it was made of, its text or its fields, and the other once somebody asked for it.
struct Inner {
    text: OnceLock<Box<RawValue>>,
    fields: OnceLock<Fields>,
    /// How many bytes the text has, once somebody asked.
    written: OnceLock<usize>,
}

impl Inner {
    fn text(&self) -> &RawValue {
        // Strings and JSON text always have a spelling.
        let write =
            |fields| serde_json::value::to_raw_value(fields).unwrap_or_else(|_| RawValue::NULL.to_owned());
        self.text.get_or_init(|| self.fields.get().map_or_else(|| RawValue::NULL.to_owned(), write))
    }

    fn fields(&self) -> &Fields {
        let read = |text: &RawValue| serde_json::from_str(text.get()).unwrap_or_default();
        self.fields.get_or_init(|| self.text.get().map(|text| read(text)).unwrap_or_default())
    }

    fn written(&self) -> usize {
        let count = || match self.text.get() {
            Some(text) => text.get().len(),
            None => self.fields().written(),
        };
        *self.written.get_or_init(count)
    }

    /// Its fields, to be changed.
    fn edit(&mut self) -> Option<&mut Fields> {
        self.fields();
        self.text.take();
        self.written.take();
        self.fields.get_mut()
    }
}

/// The JSON value is not an object, so it cannot be metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata must be a JSON object, found {found}")]
pub struct NotAnObject {
    found: String,
}

impl Metadata {
    /// Keys that the runtime writes, and that it refuses from a model and overrides from an application.
    pub const RESERVED: [&str; 9] = [
        "subagent_id",
        "child_session_id",
        "prompt",
        "task_id",
        "user_message_id",
        "max_depth",
        "tool_response",
        "outcome",
        "files",
    ];

    /// The value under `key`; the last one where a key came twice.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.fields()?.get(key)
    }

    /// The text under `key`, where there is a string.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<String> {
        self.get(key)?.to().ok()
    }

    /// The names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.fields().into_iter().flat_map(Fields::iter)
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// With `key` set to `value`: in its place where the key exists, else at the end.
    #[must_use]
    pub fn with(self, key: &str, value: impl Into<serde_json::Value>) -> Self {
        self.with_json(key, Json::from(value.into()))
    }

    /// With `key` set to a value whose spelling is kept.
    #[must_use]
    pub fn with_json(self, key: &str, value: Json) -> Self {
        self.edited(|fields| fields.insert(key, value))
    }

    /// These fields with those of `over` on top: what both have comes from `over`.
    #[must_use]
    pub fn merged(self, over: &Self) -> Self {
        if self.is_empty() {
            return over.clone();
        }
        match over.fields() {
            Some(over) => self.edited(|fields| fields.overlay(over)),
            None => self,
        }
    }

    /// With its fields changed: in place where nobody else has them.
    fn edited(mut self, edit: impl FnOnce(&mut Fields)) -> Self {
        if let Some(fields) = self.0.as_mut().and_then(Arc::get_mut).and_then(Inner::edit) {
            edit(fields);
            return self;
        }
        let mut fields = self.fields().cloned().unwrap_or_default();
        edit(&mut fields);
        Self::from(fields)
    }

    /// Without the keys in [`Metadata::RESERVED`].
    #[must_use]
    pub fn without_reserved(self) -> Self {
        if !self.iter().any(|(key, _)| Self::RESERVED.contains(&key)) {
            return self;
        }
        let mut fields = self.into_fields();
        fields.retain(|key| !Self::RESERVED.contains(&key));
        Self::from(fields)
    }

    /// Whether both are the same object in memory, which most events of one run share. Cheaper than `==`.
    #[must_use]
    pub fn shares_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// How many bytes it is as JSON.
    pub(crate) fn written(&self) -> usize {
        self.0.as_deref().map_or(2, Inner::written)
    }

    fn fields(&self) -> Option<&Fields> {
        self.0.as_deref().map(Inner::fields)
    }

    /// Its fields, without a copy where nobody else has them.
    fn into_fields(self) -> Fields {
        let Some(inner) = self.0 else { return Fields::default() };
        match Arc::try_unwrap(inner) {
            Ok(inner) => {
                inner.fields();
                inner.fields.into_inner().unwrap_or_default()
            }
            Err(shared) => shared.fields().clone(),
        }
    }
}

impl From<Fields> for Metadata {
    fn from(fields: Fields) -> Self {
        if fields.is_empty() {
            return Self(None);
        }
        let fields = OnceLock::from(fields);
        Self(Some(Arc::new(Inner { text: OnceLock::new(), fields, written: OnceLock::new() })))
    }
}

impl TryFrom<Json> for Metadata {
    type Error = NotAnObject;

    fn try_from(json: Json) -> Result<Self, NotAnObject> {
        match json.as_str() {
            "{}" => Ok(Self(None)),
            text if text.starts_with('{') => {
                let written = OnceLock::from(text.len());
                let text = OnceLock::from(json.raw().to_owned());
                Ok(Self(Some(Arc::new(Inner { text, fields: OnceLock::new(), written }))))
            }
            text => Err(NotAnObject { found: text.chars().take(40).collect() }),
        }
    }
}

impl TryFrom<serde_json::Value> for Metadata {
    type Error = NotAnObject;

    fn try_from(value: serde_json::Value) -> Result<Self, NotAnObject> {
        Json::from(value).try_into()
    }
}

impl<K: AsRef<str>, V: Into<serde_json::Value>> FromIterator<(K, V)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut fields = Fields::default();
        for (key, value) in entries {
            fields.insert(key.as_ref(), Json::from(value.into()));
        }
        Self::from(fields)
    }
}

impl PartialEq for Metadata {
    /// Equal text, so equal key order and equally spelt numbers.
    fn eq(&self, other: &Self) -> bool {
        self.shares_with(other)
            || match (&self.0, &other.0) {
                (Some(a), Some(b)) => a.text().get() == b.text().get(),
                (Some(_) | None, None) | (None, Some(_)) => false,
            }
    }
}

impl Eq for Metadata {}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_ref().map_or("{}", |inner| inner.text().get()))
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(inner) => inner.text().serialize(serializer),
            None => serializer.collect_map(std::iter::empty::<((), ())>()),
        }
    }
}

impl<'de> Deserialize<'de> for Metadata {
    /// Reads a JSON object from text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_keeps_order_numbers_and_nulls() {
        let text = r#"{"z":1e2,"a":null,"n":123456789012345678901234567890}"#;
        let metadata: Metadata = serde_json::from_str(&text.replace(',', " ,\n")).unwrap();
        assert_eq!(metadata.to_string(), text);
        assert_eq!(serde_json::to_string(&metadata).unwrap(), text);
        let written = metadata.with("a", 7);
        assert_eq!(written.to_string(), r#"{"z":1e2,"a":7,"n":123456789012345678901234567890}"#);
    }

    #[test]
    fn only_an_object_is_metadata() {
        let error = serde_json::from_str::<Metadata>("[1]").unwrap_err().to_string();
        assert_eq!(error, "metadata must be a JSON object, found [1]");
        assert!(Metadata::try_from(serde_json::json!("x")).is_err());
    }

    #[test]
    fn writing_a_clone_leaves_the_original_alone() {
        let shared = Metadata::default().with("a", 1);
        let clone = shared.clone();
        assert!(clone.shares_with(&shared));
        let written = clone.with("a", 2);
        assert_eq!(shared.to_string(), r#"{"a":1}"#);
        assert_eq!(written.to_string(), r#"{"a":2}"#);
    }

    #[test]
    fn empty_objects_are_all_the_same() {
        assert_eq!(serde_json::from_str::<Metadata>("{ }").unwrap(), Metadata::default());
        assert_eq!(Metadata::default().to_string(), "{}");
        assert_eq!(serde_json::to_string(&Metadata::default()).unwrap(), "{}");
        assert_eq!(Metadata::default().with("prompt", "x").without_reserved(), Metadata::default());
    }

    #[test]
    fn its_length_is_known_without_its_text() {
        let keys =
            ["plain", "quote\"d", "back\\slash", "tab\t\n\r\u{8}\u{c}", "bell\u{7}\u{1f}", "ü\u{7f}\u{2028}"];
        let metadata: Metadata = keys.map(|key| (key, format!("{key} said"))).into_iter().collect();
        let length = metadata.written();
        assert_eq!(length, metadata.to_string().len());
        assert_eq!(length, metadata.written());
        assert_eq!(Metadata::default().written(), "{}".len());
    }
}
