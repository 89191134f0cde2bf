//! `GET /sessions/{id}/events`: a session's events as server-sent events.

mod feed;
mod frames;
mod notice;
mod seats;

pub(crate) use frames::Spelling;
pub(crate) use seats::Seats;

use std::convert::Infallible;

use axum::{
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    http::HeaderMap,
    response::Response,
};
use futures::StreamExt as _;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

use self::{
    feed::{Feed, Wanted},
    frames::Frames,
    notice::{Notice, ResyncReason},
};
use super::{
    Found,
    cursor::Cursor,
    entry::{Entry, Position},
};
use crate::http::{Refusal, Shared, event_stream};

/// The header by which a browser says how far it was.
pub(super) const LAST_EVENT_ID: &str = "last-event-id";

/// One server-sent event.
pub(super) fn event_schema(generator: &mut SchemaGenerator) -> Schema {
    let id = json!({ "type": "string", "pattern": "^[0-9A-Za-z]{1,32}-(0|[1-9][0-9]*)$" });
    let data = |schema: Schema| json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": schema });
    let notice = data(generator.subschema_for::<Notice>());
    let event = data(json_schema!({
        "type": "object",
        "properties": { "type": { "type": "string" } },
        "required": ["type"],
    }));
    json_schema!({
        "oneOf": [
            {
                "type": "object",
                "description": "What the stream says of itself.",
                "properties": { "event": { "enum": Notice::NAMES }, "data": notice, "id": id },
                "required": ["event", "data"],
                "additionalProperties": false,
            },
            {
                "type": "object",
                "description": "An event of the session, in the spelling that was asked for.",
                "properties": { "event": { "const": "message" }, "data": event, "id": id },
                "required": ["data"],
                "additionalProperties": false,
            },
        ],
    })
}

/// How events are read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// How events are spelt.
    #[serde(default, rename = "as")]
    spelling: Spelling,
    /// The position behind which they begin; without it, and without `Last-Event-ID`, the beginning.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9A-Za-z]{1,32}-(0|[1-9][0-9]{0,18})$"))]
    after: Option<String>,
    /// Whether events that are still to come are wanted too. Without them the stream ends with those that there are.
    #[serde(default = "yes")]
    follow: bool,
}

fn yes() -> bool {
    true
}

pub(super) async fn events(
    State(shared): State<Shared>,
    Found { entry, tenant }: Found,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|rejection| Refusal::BadQuery(rejection.body_text()))?;
    let seat = shared.api()?.seats.take(&tenant)?;
    let wanted = wanted(&entry, &headers, &query).await?;
    let frames =
        Frames::new(query.spelling, entry.session.id().clone(), entry.epoch.clone(), shared.api()?.mode);
    let stopping = shared.stopping.clone();
    let feed = Feed::new(entry, frames, &wanted, shared.limits.keep_alive, stopping, seat);
    Ok(event_stream(Body::from_stream(feed.into_stream().map(Ok::<_, Infallible>))))
}

/// Where a client's cursor lies. What a browser shows by itself comes before what its page once asked for.
async fn wanted(entry: &Entry, headers: &HeaderMap, query: &EventsQuery) -> Result<Wanted, Refusal> {
    let follow = query.follow;
    // What somebody wrote by hand is held to what is described, whether or not it is of use.
    let after =
        query.after.as_deref().map(|text| Cursor::parse(text).ok_or(Refusal::BadCursor)).transpose()?;
    let from_start = |resync| Wanted { after: 0, resync, follow };
    let cursor = match headers.get(LAST_EVENT_ID).filter(|shown| !shown.is_empty()) {
        Some(shown) => match shown.to_str().ok().and_then(Cursor::parse) {
            Some(cursor) => cursor,
            // A browser cannot show another, so refusing it would end its stream for good.
            None => return Ok(from_start(Some(ResyncReason::Malformed))),
        },
        None => match after {
            Some(cursor) => cursor,
            None => return Ok(from_start(None)),
        },
    };
    Ok(match entry.look_up(&cursor).await? {
        Position::Known => Wanted { after: cursor.seq, resync: None, follow },
        Position::ForeignEpoch => from_start(Some(ResyncReason::ForeignEpoch)),
        Position::Ahead => from_start(Some(ResyncReason::Ahead)),
    })
}
