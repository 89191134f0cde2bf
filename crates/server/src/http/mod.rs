//! Requests: who may send them, and where they go.

mod body;
mod connections;
mod error;
mod guard;
mod rate;

pub(crate) use body::{Answered, event_stream, read_json};
pub(crate) use connections::Connections;
pub(crate) use error::Refusal;
pub(crate) use guard::Guard;
pub(crate) use rate::Rate;

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Request, State},
    http::HeaderMap,
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::body::read_body;
use crate::{
    Limits, Tenant,
    ag_ui::Runs,
    api::{self, Api},
};

/// What requests share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) runs: Arc<Runs>,
    pub(crate) sessions: Option<Arc<Api>>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) rate: Arc<Rate>,
    pub(crate) limits: Limits,
    /// No new runs.
    pub(crate) stopping: CancellationToken,
}

impl Shared {
    /// The sessions, where there are any.
    pub(crate) fn api(&self) -> Result<&Api, Refusal> {
        self.sessions.as_deref().ok_or(Refusal::NoSuchPath)
    }
}

/// Where requests go.
pub(crate) fn router(shared: Shared) -> Router {
    let guarded = middleware::from_fn_with_state(shared.clone(), guard);
    let router = Router::new().route("/ag-ui", post(ag_ui));
    let router = if shared.sessions.is_some() { router.merge(api::routes()) } else { router };
    router
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

async fn guard(State(shared): State<Shared>, mut request: Request, next: Next) -> Result<Response, Refusal> {
    let tenant = shared.guard.admit(request.headers())?;
    shared.rate.take(&tenant)?;
    request.extensions_mut().insert(tenant);
    Ok(next.run(request).await)
}

async fn ag_ui(
    State(shared): State<Shared>,
    Extension(tenant): Extension<Tenant>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = read_body(&shared, &headers, body).await?;
    shared.runs.serve(tenant, &body).await
}
