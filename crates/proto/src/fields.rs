//! An ordered list of named JSON values: what is left of an object when its known fields are taken.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};

use crate::{Json, Metadata};

/// The names that the runtime writes again and again, each in memory once.
static SHARED: LazyLock<Vec<Arc<str>>> =
    LazyLock::new(|| Metadata::RESERVED.iter().map(|name| Arc::from(*name)).collect());

/// Named JSON values in their order, each with its spelling.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(Arc<str>, Json)>);

impl Fields {
    /// The value under `key`; the last one where a key came twice.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().rev().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    /// Sets the value under `key`, in its place where the key exists, else at the end.
    pub fn insert(&mut self, key: impl AsRef<str> + Into<Arc<str>>, value: impl Into<Json>) {
        let value = value.into();
        if let Some((_, old)) = self.0.iter_mut().rev().find(|(name, _)| **name == *key.as_ref()) {
            *old = value;
            return;
        }
        let shared = SHARED.iter().find(|name| ***name == *key.as_ref()).map(Arc::clone);
        self.0.push((shared.unwrap_or_else(|| key.into()), value));
    }

    /// Takes out every value under `key`; the last one where a key came twice.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let mut removed = None;
        self.0.retain_mut(|(name, value)| {
            let keep = &**name != key;
            if !keep {
                removed = Some(value.clone());
            }
            keep
        });
        removed
    }

    /// The names and values, in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These with those of `over` on top.
    pub(crate) fn overlay(&mut self, over: &Self) {
        self.0.reserve(over.len());
        for (key, value) in &over.0 {
            match self.0.iter_mut().rev().find(|(name, _)| name == key) {
                Some((_, old)) => old.clone_from(value),
                None => self.0.push((Arc::clone(key), value.clone())),
            }
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|(name, _)| keep(name));
    }

    /// How many bytes the fields are as a JSON object.
    pub(crate) fn written(&self) -> usize {
        let field = |(name, value): &(Arc<str>, Json)| written(name) + 1 + value.as_str().len();
        let commas = self.0.len().saturating_sub(1);
        2 + commas + self.0.iter().map(field).sum::<usize>()
    }

    pub(crate) fn push(&mut self, key: &str, value: Json) {
        self.0.push((key.into(), value));
    }
}

/// How many bytes a text is as a JSON string.
fn written(text: &str) -> usize {
    let escaped = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(escaped).sum::<usize>()
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    /// Reads a JSON object from text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry::<String, Json>()? {
                    fields.push((entry.0.into(), entry.1));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}
