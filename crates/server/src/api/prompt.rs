//! `POST /sessions/{id}/prompt`: the agent is asked.

use anabranch_proto::{Json, Metadata};
use anabranch_runtime::Prompt;
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Found, content::Content};
use crate::http::{Answered, Refusal, Shared, read_json};

/// What the agent is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptBody {
    /// What is said.
    content: Content,
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
    shared.takes_runs()?;
    let PromptBody { content, metadata } = read_json(&shared, &headers, body).await?;
    let prompt = Prompt::from_content(content.read()?);
    let prompt = match metadata.map(Metadata::try_from) {
        Some(Ok(metadata)) => prompt.metadata(metadata),
        Some(Err(_)) => return Err(Refusal::BadBody("`metadata` is to be an object".to_owned())),
        None => prompt,
    };
    let cursor = found.entry.prompt(prompt, shared.limits.prompts).await?;
    tracing::info!(session = %found.entry.session.id(), "a prompt is taken");
    Ok((StatusCode::ACCEPTED, Answered(Accepted { cursor: cursor.to_string() })))
}
