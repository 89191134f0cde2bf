//! Blocks of text, thinking and data, and hints.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{HasIds, Ids, Payload, payload};
use crate::{BlockId, ReplyId, TextOrBlocks};

payload! {
    /// A block of text begins.
    pub struct TextBlockStart {
        /// The reply that the block is part of.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
    }
}

payload! {
    /// A piece of text.
    pub struct TextBlockDelta {
        /// The reply that the block is part of.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
        /// What is to be appended.
        delta: String,
    }
}

payload! {
    /// A block of text ends.
    pub struct TextBlockEnd {
        /// The reply that the block is part of.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
    }
    optional {
        /// The whole text, where it differs from the deltas and replaces them.
        #[serde(default)]
        text: Option<String> = None,
    }
}

payload! {
    /// A block of thinking begins.
    pub struct ThinkingBlockStart {
        /// The reply that the block is part of.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
    }
}

payload! {
    /// A piece of thinking.
    pub struct ThinkingBlockDelta {
        /// The reply that the block is part of.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
        /// What is to be appended.
        delta: String,
    }
}

payload! {
    /// A block of thinking ends.
    pub struct ThinkingBlockEnd {
        /// The reply that the block is part of.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
    }
}

payload! {
    /// A block of data begins.
    pub struct DataBlockStart {
        /// The reply that the block is part of.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
        /// The media type, such as `image/png`.
        media_type: Arc<str>,
    }
    optional {
        /// A name to show.
        #[serde(default)]
        name: Option<String> = None,
    }
}

/// A piece of data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DataBlockDelta {
    /// The reply that the block is part of.
    pub reply_id: ReplyId,
    /// The block.
    pub block_id: BlockId,
    /// The media type, such as `image/png`.
    pub media_type: Arc<str>,
    /// The piece.
    #[serde(flatten)]
    pub part: DataPart,
}

impl DataBlockDelta {
    /// A piece of a block of data.
    pub fn new(
        reply_id: impl Into<ReplyId>,
        block_id: impl Into<BlockId>,
        media_type: impl Into<Arc<str>>,
        part: DataPart,
    ) -> Self {
        Self { reply_id: reply_id.into(), block_id: block_id.into(), media_type: media_type.into(), part }
    }
}

impl Payload for DataBlockDelta {
    const FIELDS: &'static [&'static str] = &["reply_id", "block_id", "media_type", "data", "url"];
}

impl HasIds for DataBlockDelta {
    fn share_ids(&mut self, ids: &mut Ids) {
        self.reply_id.share_ids(ids);
        self.block_id.share_ids(ids);
    }
}

/// A piece of data: on the wire `data` or `url`, the other `null`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "agentscope's exactly-one-of")]
pub enum DataPart {
    /// Base64 text. Each piece is padded on its own.
    Base64(String),
    /// An address.
    Url(String),
}

#[derive(Serialize, Deserialize)]
struct DataPartWire<T> {
    data: Option<T>,
    url: Option<T>,
}

impl Serialize for DataPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Base64(data) => DataPartWire { data: Some(data), url: None },
            Self::Url(url) => DataPartWire { data: None, url: Some(url) },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DataPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match DataPartWire::<String>::deserialize(deserializer)? {
            DataPartWire { data: Some(data), url: None } => Ok(Self::Base64(data)),
            DataPartWire { data: None, url: Some(url) } => Ok(Self::Url(url)),
            DataPartWire { data: Some(_), url: Some(_) } | DataPartWire { data: None, url: None } => {
                Err(D::Error::custom("exactly one of `data` and `url` must be given"))
            }
        }
    }
}

payload! {
    /// A block of data ends.
    pub struct DataBlockEnd {
        /// The reply that the block is part of.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
    }
}

payload! {
    /// Something is put before the model once, such as a background child's result.
    pub struct HintBlockEvent {
        /// The reply that sees it.
        reply_id: ReplyId,
        /// The block.
        block_id: BlockId,
        /// Who says it.
        #[serde(default)]
        source: Option<String>,
        /// What is said.
        hint: TextOrBlocks,
    }
}
