//! `POST /sessions/{id}/cancel`: a run is stopped.

use anabranch_proto::SessionId;
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Found;
use crate::http::{Answered, Refusal, Shared, read_json};

/// The longest id of a session, in characters. A child's can be somebody else's.
const LONGEST_ID: usize = 256;

/// What is to be stopped.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    /// The session whose run is stopped: a child's, or without it the root's. Prompts that wait are answered still.
    #[serde(default)]
    #[schemars(length(min = 1, max = LONGEST_ID))]
    session: Option<String>,
}

/// A run that is being stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Cancelled {
    /// A position before the run's end.
    cursor: String,
}

pub(super) async fn cancel(
    State(shared): State<Shared>,
    found: Found,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Answered<Cancelled>), Refusal> {
    let Cancel { session } = read_json(&shared, &headers, body).await?;
    let entry = &found.entry;
    let cursor = entry.cursor();
    let root = entry.session.id();
    match session.filter(|session| session != root.as_str()) {
        Some(child) if child.is_empty() || child.chars().count() > LONGEST_ID => {
            return Err(Refusal::BadBody(format!("`session` is to have 1 to {LONGEST_ID} characters")));
        }
        Some(child) => {
            let stopped = entry.session.cancel_session(&SessionId::from(child));
            stopped.map_err(|_| Refusal::NotRunning)?;
        }
        // A prompt that was taken just now counts, though its run may not have begun.
        None if entry.session.prompts_open() > 0 => entry.session.cancel(),
        None => return Err(Refusal::NotRunning),
    }
    tracing::info!(session = %root, "a run is cancelled");
    Ok((StatusCode::ACCEPTED, Answered(Cancelled { cursor: cursor.to_string() })))
}
