//! A JSON value kept as its text.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Any JSON value, kept as compact text.
///
/// Key order and the spelling of numbers survive: `1e2` stays `1e2`, and a number of thirty digits keeps them. White
/// space between tokens does not.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

/// The text is not one JSON value, or a value has no JSON spelling.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON value")]
pub struct JsonError(#[from] serde_json::Error);

impl Json {
    /// The JSON spelling of a value.
    ///
    /// # Errors
    /// When the value has none: a map whose keys are not strings, or a `Serialize` that fails.
    pub fn new(value: &(impl Serialize + ?Sized)) -> Result<Self, JsonError> {
        Ok(Self::from_box(serde_json::value::to_raw_value(value)?))
    }

    /// Reads text that holds exactly one JSON value.
    ///
    /// # Errors
    /// When it does not.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Ok(Self::from_raw(serde_json::from_str(text)?))
    }

    /// The compact text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a type.
    ///
    /// # Errors
    /// When the value is of another shape.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        Ok(serde_json::from_str(self.as_str())?)
    }

    pub(crate) fn from_raw(raw: &RawValue) -> Self {
        Self::from_box(raw.to_owned())
    }

    fn from_box(raw: Box<RawValue>) -> Self {
        if is_compact(raw.get()) {
            return Self(raw.into());
        }
        let compact = compact(raw.get());
        // The compacted text of a JSON value is that value, so the second parse cannot fail; were it to, the text as
        // it came would still be right.
        Self(RawValue::from_string(compact).unwrap_or(raw).into())
    }

    pub(crate) fn raw(&self) -> &RawValue {
        &self.0
    }
}

/// Whether there is no white space between tokens.
fn is_compact(text: &str) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte == b'"' {
            in_string = true;
        } else if byte.is_ascii_whitespace() {
            return false;
        }
    }
    true
}

/// The JSON text without white space between its tokens.
pub(crate) fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for character in text.chars() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character == '"' {
            in_string = true;
        } else if character.is_ascii_whitespace() {
            continue;
        }
        out.push(character);
    }
    out
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        // A `Value` always has a spelling; `null` stands for the impossible rest.
        Self(serde_json::value::to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned()).into())
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        // A text always has a spelling.
        Self(serde_json::value::to_raw_value(text).unwrap_or_else(|_| RawValue::NULL.to_owned()).into())
    }
}

impl PartialEq for Json {
    /// Equal text, so equal key order and equally spelt numbers.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    /// Reads from JSON text; other formats have no raw text to keep.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from_box)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_survives_and_white_space_goes() {
        let text =
            "{ \"b\" : [ 1e2,\n 123456789012345678901234567890 , \"a b \\\" c \\\\\" ] , \"a\" : null }";
        assert_eq!(
            Json::parse(text).unwrap().as_str(),
            r#"{"b":[1e2,123456789012345678901234567890,"a b \" c \\"],"a":null}"#
        );
    }

    #[test]
    fn more_or_less_than_one_value_is_refused() {
        for text in ["", "1 2", "{", "nul", "[1,]"] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }
}
