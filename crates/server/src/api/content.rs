//! What a client says: text and data.

use std::fmt;

use anabranch_proto::{ContentBlock, DataBlock, DataSource, TextBlock};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

use crate::http::{Object, Refusal};

/// The most blocks that are said at once.
const MOST_BLOCKS: usize = 256;

/// What is said: a text, or blocks of text and data.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
pub(super) enum Content {
    /// A text.
    Text(#[schemars(regex(pattern = r"\S"))] String),
    /// Blocks of text and data.
    Blocks(#[schemars(length(min = 1, max = MOST_BLOCKS))] Vec<Block>),
}

/// A part of what is said.
#[derive(Debug, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Block {
    /// Text.
    Text {
        /// The text.
        #[schemars(regex(pattern = r"\S"))]
        text: String,
    },
    /// An image, a sound, a file.
    Data {
        /// The data, or where it lies.
        source: Source,
        /// A name to show.
        #[schemars(default)]
        name: Option<String>,
    },
}

/// Data, or where it lies.
#[derive(Debug, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Source {
    /// The bytes, in base64.
    Base64 {
        /// The base64 text.
        data: String,
        /// The media type, such as `image/png`.
        media_type: String,
    },
    /// An address.
    Url {
        /// The address.
        url: String,
        /// The media type, such as `image/png`.
        media_type: String,
    },
}

/// The fields of blocks of both types. Serde's own reading of such enums takes lists and numbers for them, too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockFields {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    source: Option<Object<SourceFields>>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceFields {
    #[serde(rename = "type")]
    kind: String,
    data: Option<String>,
    url: Option<String>,
    media_type: String,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrBlocks;

        impl<'de> Visitor<'de> for TextOrBlocks {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of blocks of type `text` or `data` as `content`")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
                let mut blocks = Vec::new();
                while let Some(Object(fields)) = items.next_element::<Object<BlockFields>>()? {
                    blocks.push(fields.read().map_err(A::Error::custom)?);
                }
                Ok(Content::Blocks(blocks))
            }
        }

        deserializer.deserialize_any(TextOrBlocks)
    }
}

impl BlockFields {
    fn read(self) -> Result<Block, &'static str> {
        let Self { kind, text, source, name } = self;
        match (&*kind, text, source, name) {
            ("text", Some(text), None, None) => Ok(Block::Text { text }),
            ("data", None, Some(Object(source)), name) => Ok(Block::Data { source: source.read()?, name }),
            ("text", ..) => Err("a block of type `text` in `content` is to have `text` alone"),
            ("data", ..) => {
                Err("a block of type `data` in `content` is to have `source`, and perhaps `name`")
            }
            _ => Err("a block in `content` is to be of type `text` or `data`"),
        }
    }
}

impl SourceFields {
    fn read(self) -> Result<Source, &'static str> {
        let Self { kind, data, url, media_type } = self;
        match (&*kind, data, url) {
            ("base64", Some(data), None) => Ok(Source::Base64 { data, media_type }),
            ("url", None, Some(url)) => Ok(Source::Url { url, media_type }),
            _ => Err(
                "a `source` in `content` is to be of type `base64` with `data`, or of type `url` with `url`",
            ),
        }
    }
}

impl Content {
    /// The blocks, of which each says something.
    pub(super) fn read(self) -> Result<Vec<ContentBlock>, Refusal> {
        let blocks = match self {
            Self::Text(text) => vec![Block::Text { text }],
            Self::Blocks(blocks) => blocks,
        };
        if !(1..=MOST_BLOCKS).contains(&blocks.len()) {
            return Err(Refusal::BadBody(format!("`content` is to have 1 to {MOST_BLOCKS} blocks")));
        }
        blocks.into_iter().map(Block::read).collect()
    }
}

impl Block {
    fn read(self) -> Result<ContentBlock, Refusal> {
        match self {
            Self::Text { text } if text.trim().is_empty() => {
                Err(Refusal::BadBody("a text in `content` is empty; say something".to_owned()))
            }
            Self::Text { text } => Ok(TextBlock::new(text).into()),
            Self::Data { source, name } => {
                let source = match source {
                    Source::Base64 { data, media_type } => {
                        DataSource::Base64 { data, media_type: media_type.into() }
                    }
                    Source::Url { url, media_type } => DataSource::Url { url, media_type: media_type.into() },
                };
                Ok(DataBlock::new(source).name(name).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<ContentBlock>, String> {
        let content: Content = serde_json::from_str(text).map_err(|error| error.to_string())?;
        content.read().map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn text_and_data_are_said() {
        for (text, blocks) in [
            (r#""Compare.""#, 1),
            (r#"[{"type":"text","text":"a"},{"text":"b","type":"text"}]"#, 2),
            (
                r#"[{"type":"data","name":"x","source":{"type":"base64","data":"aGk=","media_type":"text/plain"}}]"#,
                1,
            ),
            (r#"[{"type":"data","source":{"type":"url","url":"file:a","media_type":"a/b"}}]"#, 1),
        ] {
            assert_eq!(read(text).map(|read| read.len()), Ok(blocks), "{text}");
        }
    }

    #[test]
    fn what_says_nothing_or_something_else_is_refused_with_what_to_do() {
        for text in [
            "null",
            "7",
            "{}",
            "[]",
            r#"" ""#,
            r#"[{"type":"text"}]"#,
            r#"[{"type":"text","text":"\n"}]"#,
            r#"[{"type":"text","text":"a","name":"b"}]"#,
            r#"[{"type":"tool_call"}]"#,
            r#"[{"type":"data","source":{"type":"base64","url":"a","media_type":"a/b"}}]"#,
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains("`content`"), "{text}: {error}");
        }
        for text in [
            r#"["a"]"#,
            r#"[["text","a"]]"#,
            r#"[{"type":0,"text":"a"}]"#,
            r#"[{"type":"text","text":"a","id":"b"}]"#,
            r#"[{"type":"data","source":["base64","aGk=","a/b"]}]"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
