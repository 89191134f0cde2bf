//! Requests: who may send them, and where they go.

mod body;
mod connections;
mod error;
mod guard;
mod object;
mod openapi;
mod operations;
mod patient;
mod rate;

pub(crate) use body::{Answered, event_stream, read_json};
pub(crate) use connections::Connections;
pub(crate) use error::Refusal;
pub(crate) use guard::Guard;
pub(crate) use object::Object;
pub(crate) use operations::{Content, Operation};
pub(crate) use rate::Rate;

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use schemars::{JsonSchema, Schema, json_schema};
use serde::Serialize;
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
    /// What `GET /openapi.json` gives.
    pub(crate) description: Bytes,
    /// No new runs.
    pub(crate) stopping: CancellationToken,
}

impl Shared {
    /// Refuses to begin anything where the server is being stopped.
    pub(crate) fn takes_runs(&self) -> Result<(), Refusal> {
        if self.stopping.is_cancelled() { Err(Refusal::Stopping) } else { Ok(()) }
    }

    /// The sessions, where there are any.
    pub(crate) fn api(&self) -> Result<&Arc<Api>, Refusal> {
        self.sessions.as_ref().ok_or(Refusal::NoSuchPath)
    }
}

/// All that the server offers.
fn operations(has_sessions: bool) -> Vec<Operation> {
    let mut operations = vec![
        Operation::new(
            Method::POST,
            "/ag-ui",
            "runAgUi",
            "Begins or resumes a run of AG-UI; its events are the response.",
            post(ag_ui),
        )
        .body(
            |_| ag_ui_schema(),
            json!({
                "threadId": "thread", "runId": "run",
                "messages": [{ "id": "1", "role": "user", "content": "Compare them." }],
            }),
        )
        .answer(200, "Server-sent events, as docs/ag-ui.md has them.", Content::Events(|_| frame_schema()))
        .refuses(409, "The thread is being served, or interrupts and answers do not fit.")
        .refuses(422, "No message of the user's, or one without text."),
        Operation::new(
            Method::GET,
            "/health",
            "health",
            "Says whether the server takes new runs.",
            get(health),
        )
        .open()
        .answers::<Health>(200, "It does.")
        .refuses(503, "It is being stopped."),
        Operation::new(
            Method::GET,
            "/openapi.json",
            "describe",
            "Describes the server as OpenAPI 3.1 has it.",
            get(description),
        )
        .open()
        .answer(200, "This description.", Content::Json(|_| json_schema!({ "type": "object" }))),
    ];
    if has_sessions {
        operations.extend(api::operations());
    }
    operations
}

/// What the server offers, described.
pub(crate) fn describe(has_sessions: bool, is_guarded: bool) -> Bytes {
    format!("{:#}\n", openapi::document(&operations(has_sessions), is_guarded)).into()
}

/// Where requests go.
pub(crate) fn router(shared: Shared) -> Router {
    let guarded = middleware::from_fn_with_state(shared.clone(), guard);
    let (open, closed): (Vec<_>, Vec<_>) =
        operations(shared.sessions.is_some()).into_iter().partition(|operation| operation.is_open);
    let add = |router: Router<Shared>, operation: Operation| router.route(operation.path, operation.route);
    let router = closed.into_iter().fold(Router::new(), add).route_layer(guarded);
    open.into_iter()
        .fold(router, add)
        .fallback(async || Refusal::NoSuchPath)
        .method_not_allowed_fallback(async || Refusal::NoSuchMethod)
        .with_state(shared)
}

/// That the server is well.
#[derive(Serialize, JsonSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
}

/// A frame of `POST /ag-ui`.
fn frame_schema() -> Schema {
    let event = json!({
        "type": "object",
        "properties": { "type": { "type": "string" } },
        "required": ["type"],
    });
    json_schema!({
        "type": "object",
        "properties": {
            "event": { "const": "message" },
            "data": { "type": "string", "contentMediaType": "application/json", "contentSchema": event },
        },
        "required": ["data"],
        "additionalProperties": false,
    })
}

/// What `POST /ag-ui` reads of `RunAgentInput`.
fn ag_ui_schema() -> Schema {
    let id = json!({ "type": "string", "minLength": 1, "maxLength": 256 });
    let part = json!({
        "type": "object",
        "properties": { "type": { "type": "string" }, "text": { "type": "string" } },
        "required": ["type"],
    });
    let content = json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": part }] });
    let users = json!({
        "type": "object",
        "properties": { "id": { "type": "string" }, "role": { "const": "user" }, "content": content },
        "required": ["role", "content"],
    });
    let others = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "role": { "enum": ["assistant", "system", "developer", "tool", "activity", "reasoning"] },
            "content": {},
        },
        "required": ["role"],
    });
    let message = json!({ "oneOf": [users, others] });
    let entry = json!({
        "type": "object",
        "properties": {
            "interruptId": { "type": "string" },
            "status": { "enum": ["resolved", "cancelled"] },
            "payload": {},
        },
        "required": ["interruptId", "status"],
    });
    json_schema!({
        "type": "object",
        "description": "`RunAgentInput` of AG-UI 1.0.",
        "properties": {
            "threadId": id,
            "runId": id,
            "messages": { "type": "array", "items": message },
            "tools": { "type": "array" },
            "context": { "type": "array" },
            "state": {},
            "forwardedProps": {},
            "resume": { "type": ["array", "null"], "items": entry },
        },
        "required": ["threadId", "runId", "messages"],
    })
}

/// Says whether new runs are taken. Open to all: who looks after the server has no token.
async fn health(State(shared): State<Shared>) -> Result<Json<Health>, Refusal> {
    shared.takes_runs()?;
    Ok(Json(Health { status: "ok" }))
}

/// Says what the server offers. Open to all: it says nothing of anybody.
async fn description(State(shared): State<Shared>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], shared.description)
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
    // Before it is known whether there is a stop, so that none overlooks it.
    let under_way = shared.runs.under_way();
    shared.takes_runs()?;
    let body = read_body(&shared, &headers, body).await?;
    shared.runs.serve(tenant, &body, under_way).await
}
