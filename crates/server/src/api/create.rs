//! `POST /sessions`: a session begins.

use anabranch_proto::{Json, Stamp as _};
use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    NewSession, Tenant,
    http::{Answered, Refusal, Shared, read_json},
};

/// Options that no agent can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub(super) String);

impl Unusable {
    /// Options that no agent can be made of: what is wrong and what to do, for the client.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A session that is asked for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    /// What is wanted of the agent; its meaning is the application's.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    options: Option<Json>,
}

/// A session that has begun.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Created {
    /// The session's id.
    id: String,
    /// What the numbers of its events belong to.
    epoch: String,
    /// The position before its first event.
    cursor: String,
}

pub(super) async fn create(
    State(shared): State<Shared>,
    Extension(tenant): Extension<Tenant>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    shared.takes_runs()?;
    let Create { options } = read_json(&shared, &headers, body).await?;
    if options.as_ref().is_some_and(|options| !options.as_str().starts_with('{')) {
        return Err(Refusal::BadBody("`options` is to be an object".to_owned()));
    }
    let api = shared.api()?;
    let (id, _) = api.stamp.session_ids();
    let new = NewSession { id, tenant, options, thread: None, created_at: api.stamp.now() };
    let entry = api.begin(new.clone()).await?;
    let created =
        Created { id: new.id.to_string(), epoch: entry.epoch.to_string(), cursor: entry.at(0).to_string() };
    tracing::info!(session = %new.id, tenant = %new.tenant, "a session begins");
    let mut response = (StatusCode::CREATED, Answered(created)).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/sessions/{}", new.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}
