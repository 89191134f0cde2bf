//! What a request is refused with.

use std::{borrow::Cow, time::Duration};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;

/// A refusal: what was wrong, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// No such path.
    #[error("there is nothing here; GET /openapi.json says what there is")]
    NoSuchPath,
    /// Another method than the path has.
    #[error("the method does not fit; GET /openapi.json says what there is")]
    NoSuchMethod,
    /// No token, or another.
    #[error("show a token of the server's as `Authorization: Bearer <token>`")]
    Unauthorized,
    /// A name that is not loopback's, as a page of somebody else's has after it pointed its name here.
    #[error(
        "without a token the server answers to `localhost`, `127.0.0.1` and `[::1]` alone; use one of these as host"
    )]
    ForeignHost,
    /// Another type of body.
    #[error("send the input as `Content-Type: application/json`")]
    NotJson,
    /// A body beyond the bound.
    #[error("the body is larger than {bound} bytes; send less, or start the server with a larger --max-body")]
    TooLarge { bound: usize },
    /// A body that came too slowly, or in part.
    #[error("the body did not arrive within {} s; send the request again", bound.as_secs_f64())]
    TooSlow { bound: Duration },
    /// A body that broke off.
    #[error("the body did not arrive as a whole; send the request again")]
    Broken,
    /// A body that is no input of a run.
    #[error("the body is no RunAgentInput: {0}")]
    Malformed(String),
    /// A body that says nothing that could be done.
    #[error("the body cannot be used: {0}")]
    BadBody(String),
    /// A query that says nothing that could be done.
    #[error("the query cannot be used: {0}")]
    BadQuery(String),
    /// A position that is none.
    #[error("`after` is to be a cursor as the server gave it, `<epoch>-<number>`")]
    BadCursor,
    /// No such session, or somebody else's.
    #[error("there is no such session; it may have been deleted")]
    NoSuchSession,
    /// As many prompts wait as may.
    #[error(
        "{bound} prompts of this session are not answered yet, which is as many as may be; wait for one, or cancel one"
    )]
    TooManyPrompts { bound: usize },
    /// The session takes no more.
    #[error("the session has ended; delete it and create another")]
    SessionEnded,
    /// Nothing that could be stopped.
    #[error("nothing runs in the session now")]
    NotRunning,
    /// No such question.
    #[error("{0}; no answer was taken")]
    NotOpen(String),
    /// A question that has its answer.
    #[error("{0}; no answer was taken")]
    AnsweredBefore(String),
    /// An answer to something else.
    #[error("{0}; no answer was taken")]
    Misfit(String),
    /// As many sessions as the tenant may have.
    #[error("there are {bound} sessions, which is as many as there may be; delete one")]
    TooManySessions { bound: usize },
    /// As many sessions as the server keeps.
    #[error("the server has as many sessions as it may have; send the request again later")]
    NoRoom,
    /// As many open sessions as the tenant may have.
    #[error(
        "no more than {bound} sessions may be at work or read at once; wait for one, or stop reading one"
    )]
    TooManyOpen { bound: usize },
    /// As many readers as the tenant may have.
    #[error("{bound} streams of events are being read, which is as many as may be; close one")]
    TooManyReaders { bound: usize },
    /// Requests come too fast.
    #[error("requests come faster than they may; send the request again in {} s", wait.as_secs())]
    TooManyRequests { wait: Duration },
    /// The events cannot be kept or read.
    #[error("the session's events cannot be kept or read now; send the request again later")]
    LogFailed,
    /// An input with nothing to do.
    #[error("{0}")]
    Unusable(Cow<'static, str>),
    /// The thread is being served.
    #[error("a run of this thread is under way; wait for its end, or close its response to stop it")]
    Busy,
    /// The run before has not ended yet.
    #[error("the run before, which was stopped, has not ended yet; send the request again")]
    Settling,
    /// The thread waits for answers.
    #[error("the thread waits for answers; give each of these interrupts an entry in `resume`: {}", interrupts.join(", "))]
    Unanswered { interrupts: Vec<String> },
    /// An answer to nothing.
    #[error(
        "`{interrupt}` is no interrupt that this thread waits for; it may have been answered before, or its thread forgotten. \
         To go on, end `messages` with a new message of the user's"
    )]
    NotAsked { interrupt: String },
    /// As many threads as there may be.
    #[error("all {bound} threads have runs under way; send the request again later")]
    Full { bound: usize },
    /// The server is being stopped.
    #[error("the server is being stopped; send the request to another")]
    Stopping,
    /// The session ended.
    #[error("the thread's session ended; send the request again to begin anew")]
    Ended,
}

/// What a refused client reads.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Refusal")]
pub(super) struct RefusalBody<'a> {
    /// What was wrong.
    error: Detail<'a>,
}

/// What was wrong.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RefusalDetail")]
struct Detail<'a> {
    /// What was wrong, for programs.
    code: &'a str,
    /// What was wrong and what to do, for people.
    message: &'a str,
}

impl Refusal {
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "no_such_path"),
            Self::NoSuchMethod => (StatusCode::METHOD_NOT_ALLOWED, "no_such_method"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::ForeignHost => (StatusCode::FORBIDDEN, "foreign_host"),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json"),
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::TooSlow { .. } => (StatusCode::REQUEST_TIMEOUT, "too_slow"),
            Self::Broken => (StatusCode::BAD_REQUEST, "broken"),
            Self::Malformed(_) | Self::BadBody(_) | Self::BadQuery(_) => {
                (StatusCode::BAD_REQUEST, "malformed")
            }
            Self::BadCursor => (StatusCode::BAD_REQUEST, "bad_cursor"),
            Self::NoSuchSession => (StatusCode::NOT_FOUND, "no_such_session"),
            Self::TooManyPrompts { .. } => (StatusCode::CONFLICT, "too_many_prompts"),
            Self::SessionEnded => (StatusCode::CONFLICT, "session_ended"),
            Self::NotRunning => (StatusCode::CONFLICT, "not_running"),
            Self::NotOpen(_) => (StatusCode::CONFLICT, "not_open"),
            Self::AnsweredBefore(_) => (StatusCode::CONFLICT, "answered"),
            Self::Misfit(_) => (StatusCode::UNPROCESSABLE_ENTITY, "misfit"),
            Self::TooManySessions { .. } => (StatusCode::CONFLICT, "too_many_sessions"),
            Self::TooManyReaders { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_readers"),
            Self::TooManyRequests { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_requests"),
            Self::LogFailed => (StatusCode::SERVICE_UNAVAILABLE, "log_failed"),
            Self::Unusable(_) => (StatusCode::UNPROCESSABLE_ENTITY, "unusable"),
            Self::Busy => (StatusCode::CONFLICT, "busy"),
            Self::Settling => (StatusCode::CONFLICT, "settling"),
            Self::Unanswered { .. } => (StatusCode::CONFLICT, "unanswered"),
            Self::NotAsked { .. } => (StatusCode::CONFLICT, "not_asked"),
            Self::Full { .. } | Self::NoRoom | Self::TooManyOpen { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "full")
            }
            Self::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Self::Ended => (StatusCode::SERVICE_UNAVAILABLE, "ended"),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code) = self.status();
        let message = self.to_string();
        tracing::info!(status = status.as_u16(), code, "refused");
        let body = RefusalBody { error: Detail { code, message: &message } };
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Self::TooManyRequests { wait } = &self {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        } else if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
