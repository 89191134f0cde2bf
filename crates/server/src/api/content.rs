//! What a client says: text and data.

use anabranch_proto::{ContentBlock, DataBlock, DataSource, TextBlock};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::Refusal;

/// The most blocks that are said at once.
const MOST_BLOCKS: usize = 256;

/// What is said: a text, or blocks of text and data.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "`content` is to be a text or a list of blocks of type `text` or `data`, and a block has no other fields \
                 than its type's"
)]
pub(super) enum Content {
    /// A text.
    Text(#[schemars(regex(pattern = r"\S"))] String),
    /// Blocks of text and data.
    Blocks(#[schemars(length(min = 1, max = MOST_BLOCKS))] Vec<Block>),
}

/// A part of what is said.
#[derive(Debug, Deserialize, JsonSchema)]
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
        #[serde(default)]
        name: Option<String>,
    },
}

/// Data, or where it lies.
#[derive(Debug, Deserialize, JsonSchema)]
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
            r#"[{"type":"text","text":"a","id":"b"}]"#,
            r#"[{"type":"tool_call","id":"a","name":"b","input":"{}"}]"#,
            r#"[{"type":"data","source":{"type":"base64","data":"aGk="}}]"#,
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains("`content`"), "{text}: {error}");
        }
    }
}
