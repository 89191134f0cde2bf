//! Tool calls and their results.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DataPart, HasIds, Ids, Payload, payload};
use crate::{BlockId, Metadata, ReplyId, ToolCallId, ToolResultState};

payload! {
    /// The model begins a tool call.
    pub struct ToolCallStart {
        /// The reply that the call is part of.
        reply_id: ReplyId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool's name.
        tool_call_name: Arc<str>,
    }
}

payload! {
    /// A piece of a call's arguments.
    pub struct ToolCallDelta {
        /// The reply that the call is part of.
        reply_id: ReplyId,
        /// The call.
        tool_call_id: ToolCallId,
        /// A fragment of JSON text, to be appended.
        delta: String,
    }
}

payload! {
    /// A call's arguments are complete.
    pub struct ToolCallEnd {
        /// The reply that the call is part of.
        reply_id: ReplyId,
        /// The call.
        tool_call_id: ToolCallId,
    }
}

payload! {
    /// A tool begins to answer.
    pub struct ToolResultStart {
        /// The reply that the call is part of.
        reply_id: ReplyId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool's name.
        tool_call_name: Arc<str>,
    }
}

payload! {
    /// A piece of a tool's text.
    pub struct ToolResultTextDelta {
        /// The reply that the call is part of.
        reply_id: ReplyId,
        /// The call.
        tool_call_id: ToolCallId,
        /// What is to be appended.
        delta: String,
    }
}

/// A piece of a tool's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ToolResultDataDelta {
    /// The reply that the call is part of.
    pub reply_id: ReplyId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The block of the result that the piece belongs to.
    pub block_id: BlockId,
    /// The media type, such as `image/png`.
    pub media_type: Arc<str>,
    /// The piece.
    #[serde(flatten)]
    pub part: DataPart,
}

impl ToolResultDataDelta {
    /// A piece of a block of data in a call's result.
    pub fn new(
        reply_id: impl Into<ReplyId>,
        tool_call_id: impl Into<ToolCallId>,
        block_id: impl Into<BlockId>,
        media_type: impl Into<Arc<str>>,
        part: DataPart,
    ) -> Self {
        Self {
            reply_id: reply_id.into(),
            tool_call_id: tool_call_id.into(),
            block_id: block_id.into(),
            media_type: media_type.into(),
            part,
        }
    }
}

impl Payload for ToolResultDataDelta {
    const FIELDS: &'static [&'static str] =
        &["reply_id", "tool_call_id", "block_id", "media_type", "data", "url"];
}

impl HasIds for ToolResultDataDelta {
    fn share_ids(&mut self, ids: &mut Ids) {
        self.reply_id.share_ids(ids);
        self.tool_call_id.share_ids(ids);
        self.block_id.share_ids(ids);
    }
}

payload! {
    /// A tool's answer is complete.
    pub struct ToolResultEnd {
        /// The reply that the call is part of.
        reply_id: ReplyId,
        /// The call.
        tool_call_id: ToolCallId,
        /// How it ended.
        state: ToolResultState,
    }
    optional {
        /// The structured result for programs: the metadata of the tool's response. A field of its own, because the
        /// event's metadata says whose the event is and this says what came out.
        #[serde(default, skip_serializing_if = "Metadata::is_empty")]
        response: Metadata = Metadata::default(),
    }
}
