//! Identifiers: opaque text, shared and never interpreted.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

macro_rules! id_types {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        ///
        /// Opaque text: compared and kept, never parsed. Cloning shares it.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name(Arc<str>);

        impl $name {
            /// An identifier with this text.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<&$name> for $name {
            fn from(id: &$name) -> Self {
                id.clone()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Arc::deserialize(deserializer).map(Self)
            }
        }
    )*};
}

id_types! {
    /// A session: the conversation of one agent, a root's or a child's.
    SessionId;
    /// A sub-agent as the application knows it, unique per spawn. It is on each of a child's events, in metadata too.
    SubagentId;
    /// One reply of an agent, from its first model call to its end. The assistant message of the reply has the same id.
    ReplyId;
    /// A tool call, unique within its session.
    ToolCallId;
    /// A block of text, thinking or data, unique within its session.
    BlockId;
    /// A message.
    MessageId;
}

impl From<ReplyId> for MessageId {
    /// A reply's message has the reply's id.
    fn from(id: ReplyId) -> Self {
        Self(id.0)
    }
}

/// An event's identifier.
///
/// Ours are ULIDs, kept as 16 bytes; any other text is accepted and kept exactly. Never used for order: that is what
/// [`Admitted::seq`](crate::Admitted::seq) is for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EventId(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Ulid([u8; 16]),
    Text(Arc<str>),
}

impl EventId {
    /// An identifier with this text.
    ///
    /// Kept as a ULID only where the ULID is written with exactly this text (upper case, no overflow).
    pub fn new(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if let Ok(ulid) = Ulid::from_string(text) {
            let mut buffer = [0; ulid::ULID_LEN];
            if ulid.array_to_str(&mut buffer) == text {
                return Self::from_ulid(ulid.to_bytes());
            }
        }
        Self(Repr::Text(text.into()))
    }

    /// An identifier from the 16 bytes of a ULID.
    #[must_use]
    pub fn from_ulid(bytes: [u8; 16]) -> Self {
        Self(Repr::Ulid(bytes))
    }

    /// Gives the text to `use_text`, without allocating.
    pub fn with_str<T>(&self, use_text: impl FnOnce(&str) -> T) -> T {
        match &self.0 {
            Repr::Ulid(bytes) => use_text(Ulid::from_bytes(*bytes).array_to_str(&mut [0; ulid::ULID_LEN])),
            Repr::Text(text) => use_text(text),
        }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_str(|text| f.write_str(text))
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_str(|text| write!(f, "EventId({text:?})"))
    }
}

impl From<&str> for EventId {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_str(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = EventId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event id (a string)")
            }
            fn visit_str<E>(self, text: &str) -> Result<EventId, E> {
                Ok(EventId::new(text))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_keeps_its_text() {
        for text in [
            "01JDXA0000000000000000000A",
            "01jdxa0000000000000000000a",
            "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "0123456789abcdef0123456789abcdef",
            "",
            "ü",
        ] {
            assert_eq!(EventId::new(text).to_string(), text);
        }
    }

    #[test]
    fn a_ulid_is_kept_as_bytes_and_equals_its_text() {
        let bytes = Ulid::from_string("01JDXA0000000000000000000A").unwrap().to_bytes();
        assert_eq!(EventId::from_ulid(bytes), EventId::new("01JDXA0000000000000000000A"));
        assert_eq!(size_of::<EventId>(), 24);
    }
}
