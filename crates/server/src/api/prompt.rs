//! `POST /sessions/{id}/prompt`: the agent is asked.

use anabranch_proto::{ContentBlock, Json, Metadata, TextBlock};
use anabranch_runtime::Prompt;
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};

use super::Found;
use crate::http::{Answered, Refusal, Shared, read_json};

/// What the agent is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptBody {
    /// A text, or blocks of text and data as messages have them.
    #[schemars(schema_with = "content_schema")]
    content: Json,
    /// What stands on every event of the run and of all below it. Keys that the runtime writes itself are left out.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    metadata: Option<Json>,
}

/// A prompt that was taken.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Accepted {
    /// The position behind which the events of its run come, behind those of prompts that were taken before.
    cursor: String,
}

pub(super) async fn prompt(
    State(shared): State<Shared>,
    found: Found,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Answered<Accepted>), Refusal> {
    let PromptBody { content, metadata } = read_json(&shared, &headers, body).await?;
    let prompt = Prompt::from_content(read_content(&content, "content")?);
    let prompt = match metadata.map(Metadata::try_from) {
        Some(Ok(metadata)) => prompt.metadata(metadata),
        Some(Err(_)) => return Err(Refusal::BadBody("`metadata` is to be an object".to_owned())),
        None => prompt,
    };
    let cursor = found.entry.prompt(prompt, shared.limits.prompts).await?;
    tracing::info!(session = %found.entry.session.id(), "a prompt is taken");
    Ok((StatusCode::ACCEPTED, Answered(Accepted { cursor: cursor.to_string() })))
}

/// Reads a text or a list of blocks of text and data, in which something is said.
pub(super) fn read_content(content: &Json, name: &str) -> Result<Vec<ContentBlock>, Refusal> {
    let blocks = if content.as_str().starts_with('"') {
        content.to::<String>().map(|text| vec![ContentBlock::from(TextBlock::new(text))])
    } else {
        content.to::<Vec<ContentBlock>>()
    };
    let blocks = blocks.map_err(|_| {
        Refusal::BadBody(format!("`{name}` is to be a text, or a list of blocks of type `text` or `data`"))
    })?;
    let is_prompt = |block: &ContentBlock| matches!(block, ContentBlock::Text(_) | ContentBlock::Data(_));
    if !blocks.iter().all(is_prompt) {
        return Err(Refusal::BadBody(format!("`{name}` may have blocks of type `text` and `data` alone")));
    }
    let says = |block: &ContentBlock| block.as_text().is_none_or(|text| !text.trim().is_empty());
    if blocks.iter().any(says) {
        Ok(blocks)
    } else {
        Err(Refusal::BadBody(format!("`{name}` is empty; say something")))
    }
}

/// What [`read_content`] reads.
pub(super) fn content_schema(_: &mut schemars::SchemaGenerator) -> Schema {
    let text = json_schema!({ "type": "string", "pattern": r"\S" });
    let text_block = json_schema!({
        "type": "object",
        "properties": { "type": { "const": "text" }, "text": text },
        "required": ["type", "text"]
    });
    let source = json_schema!({
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "type": { "const": "base64" }, "data": { "type": "string", "contentEncoding": "base64" },
                    "media_type": { "type": "string" }
                },
                "required": ["type", "data", "media_type"]
            },
            {
                "type": "object",
                "properties": {
                    "type": { "const": "url" }, "url": { "type": "string" }, "media_type": { "type": "string" }
                },
                "required": ["type", "url", "media_type"]
            }
        ]
    });
    let data_block = json_schema!({
        "type": "object",
        "properties": { "type": { "const": "data" }, "source": source },
        "required": ["type", "source"]
    });
    json_schema!({
        "oneOf": [text, { "type": "array", "minItems": 1, "items": { "oneOf": [text_block, data_block] } }]
    })
}
