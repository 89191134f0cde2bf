//! Bodies of requests and of responses.

use axum::{
    Json,
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures::StreamExt as _;
use serde::{Serialize, de::DeserializeOwned};

use super::{Object, Refusal, Shared};
use crate::Limits;

/// Reads what a client wants from a request's body. An empty body is an empty object.
pub(crate) async fn read_json<T: DeserializeOwned>(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Refusal> {
    let body = read_body(shared, headers, body).await?;
    let body = if body.is_empty() { &b"{}"[..] } else { &body };
    let read = serde_json::from_slice(body).map(|Object(read)| read);
    read.map_err(|error| Refusal::BadBody(error.to_string()))
}

/// Reads a body of JSON, within the bounds.
pub(super) async fn read_body(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Refusal> {
    if !is_json(headers) {
        return Err(Refusal::NotJson);
    }
    let Limits { body: bound, body_time, .. } = shared.limits;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > bound) {
        return Err(Refusal::TooLarge { bound });
    }
    let body = tokio::time::timeout(body_time, read(body, bound)).await;
    body.map_err(|_| Refusal::TooSlow { bound: body_time })?
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

/// Whether the body is JSON. A form is not, nor is nothing: a page of somebody else's could send these without asking.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}

/// An answer in JSON that nobody between keeps.
#[derive(Debug)]
pub(crate) struct Answered<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Answered<T> {
    fn into_response(self) -> Response {
        ([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(self.0)).into_response()
    }
}

/// A response of server-sent events.
pub(crate) fn event_stream(body: Body) -> Response {
    const HEADERS: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        // Proxies that gather what they pass on would hold frames back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (HEADERS, body).into_response()
}
