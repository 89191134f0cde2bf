//! Requests: who may send them, and where they go.

mod error;
mod guard;

pub(crate) use error::Refusal;
pub(crate) use guard::Guard;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use futures::StreamExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Limits, ag_ui::Runs};

/// What requests share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) runs: Arc<Runs>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) limits: Limits,
    /// No new runs.
    pub(crate) stopping: CancellationToken,
}

/// Where requests go.
pub(crate) fn router(shared: Shared) -> Router {
    let guarded = middleware::from_fn_with_state(shared.clone(), guard);
    Router::new()
        .route("/ag-ui", post(ag_ui))
        .route_layer(guarded)
        .route("/health", get(health))
        .fallback(async || Refusal::NoSuchPath)
        .method_not_allowed_fallback(async || Refusal::NoSuchMethod)
        .with_state(shared)
}

/// Says whether new runs are taken. Open to all: who looks after the server has no token.
async fn health(State(shared): State<Shared>) -> Result<Json<serde_json::Value>, Refusal> {
    if shared.stopping.is_cancelled() { Err(Refusal::Stopping) } else { Ok(Json(json!({ "status": "ok" }))) }
}

async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Result<Response, Refusal> {
    shared.guard.admit(request.headers())?;
    Ok(next.run(request).await)
}

async fn ag_ui(State(shared): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response, Refusal> {
    // Before it is known whether there is a stop, so that none overlooks it.
    let under_way = shared.runs.under_way();
    if shared.stopping.is_cancelled() {
        return Err(Refusal::Stopping);
    }
    if !is_json(&headers) {
        return Err(Refusal::NotJson);
    }
    let Limits { body: bound, body_time, .. } = shared.limits;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > bound) {
        return Err(Refusal::TooLarge { bound });
    }
    let body = tokio::time::timeout(body_time, read(body, bound)).await;
    let body = body.map_err(|_| Refusal::TooSlow { bound: body_time })??;
    shared.runs.serve(&body, under_way).await
}

async fn read(body: Body, bound: usize) -> Result<Vec<u8>, Refusal> {
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Refusal::Broken)?;
        if whole.len() + piece.len() > bound {
            return Err(Refusal::TooLarge { bound });
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

/// Whether the body is JSON. A form is not: a page of somebody else's could send one without asking.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}
