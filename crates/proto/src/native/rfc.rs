//! RFC-0014's spelling: events that are told apart by `event_kind` and have neither id nor time.
//!
//! Only what has an equal kind is mapped; everything else is [`Unknown`] and kept unchanged. What a mapped event has
//! beyond the kind's fields is kept as for any other event.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    ReadError,
    object::{self, Object},
    payload::{self, Pairs},
    shared::Shared,
};
use crate::{
    ChildScope, ContentBlock, ErrorInfo, ErrorType, EventKind, Fields, Json, Message, MessageId, Metadata,
    Outcome, Role, SessionId, SourceType, Stamp, SubagentId, TextBlock, ToolCallId,
    event::{Custom, Payload, StreamComplete, Unknown},
};

/// What the wrapper around a child's event calls itself.
pub(super) const WRAPPER: &str = "subagent";

/// The scope that a wrapper states. It counts no runs and knows the sub-agent by its session.
pub(super) fn scope(wrapper: &Object<'_>) -> Result<ChildScope, ReadError> {
    #[derive(Deserialize)]
    struct Wrapper {
        source_name: Arc<str>,
        source_type: SourceType,
        #[serde(default = "first")]
        depth: u32,
        child_session_id: SessionId,
        parent_session_id: SessionId,
        #[serde(default)]
        tool_call_id: Option<ToolCallId>,
    }
    fn first() -> u32 {
        1
    }
    let wrapper: Wrapper =
        payload::read(wrapper.borrowed()).map_err(|error| ReadError::field(WRAPPER, error))?;
    let subagent_id = SubagentId::new(wrapper.child_session_id.as_str());
    Ok(ChildScope::new(wrapper.child_session_id, wrapper.parent_session_id, subagent_id, wrapper.source_name)
        .source_type(wrapper.source_type)
        .depth(wrapper.depth)
        .tool_call_id(wrapper.tool_call_id))
}

/// The metadata, the payload and the remaining fields of an event.
pub(super) type Read = (Metadata, (EventKind, Fields));

pub(super) fn read(
    kind: &str,
    mut object: Object<'_>,
    child: Option<&ChildScope>,
    stamp: Option<&dyn Stamp>,
    shared: &mut Shared<Metadata>,
) -> Result<Read, ReadError> {
    match kind {
        "spawn_session_start" => {
            let metadata = take_metadata(&mut object, kind, shared)?;
            let read = object.payload("SPAWN_SESSION_START");
            Ok((metadata, read.map_err(|error| renamed(error, kind))?))
        }
        "stream_complete" => {
            Ok((take_metadata(&mut object, kind, shared)?, stream_complete(object, child, stamp)?))
        }
        "run_error" => Ok((take_metadata(&mut object, kind, shared)?, run_error(object)?)),
        "custom" => Ok((take_metadata(&mut object, kind, shared)?, custom(object)?)),
        _ if kind == "SUB_AGENT" || EventKind::TAGS.contains(&kind) => {
            Err(ReadError::field(kind, "is of the native spelling; name it by `type`"))
        }
        _ => {
            // An object is the metadata of a native event too; anything else under that name is left where it is.
            let is_object = object.get("metadata").is_some_and(|raw| raw.get().starts_with('{'));
            let metadata = if is_object { object.take_metadata(kind, shared)? } else { Metadata::default() };
            let unknown = Unknown::new(kind, payload::to_fields(object.borrowed()));
            Ok((metadata, (unknown.into(), Fields::default())))
        }
    }
}

/// The metadata of an event of a kind that we have, which would else be written beside the event's own.
fn take_metadata(
    object: &mut Object<'_>,
    kind: &str,
    shared: &mut Shared<Metadata>,
) -> Result<Metadata, ReadError> {
    if object.get("metadata").is_some_and(|raw| raw.get() == "null") {
        object.take_raw("metadata");
    }
    object.take_metadata(kind, shared)
}

/// The same error under the name that the line has.
fn renamed(error: ReadError, kind: &str) -> ReadError {
    match error {
        ReadError::Field { problem, .. } => ReadError::field(kind, problem),
        other @ (ReadError::NotAnObject(_) | ReadError::TooDeep { .. }) => other,
    }
}

fn stream_complete(
    mut object: Object<'_>,
    child: Option<&ChildScope>,
    stamp: Option<&dyn Stamp>,
) -> Result<(EventKind, Fields), ReadError> {
    const KIND: &str = "stream_complete";
    let cancelled = object.take_optional("cancelled", KIND)?.unwrap_or(false);
    let outcome = if cancelled { Outcome::Interrupted } else { Outcome::Completed };
    let mut complete = StreamComplete::new(outcome);
    if let Some(raw) = object.take_optional::<Option<&RawValue>>("message", KIND)?.flatten() {
        complete = complete.message(message(raw, child, stamp)?);
    }
    Ok((complete.into(), beyond::<StreamComplete>(&object)))
}

/// A chat message: text as a text block, any other content as its JSON text; what we have no field for as metadata.
fn message(
    raw: &RawValue,
    child: Option<&ChildScope>,
    stamp: Option<&dyn Stamp>,
) -> Result<Message, ReadError> {
    const OF: &str = "the message of stream_complete";
    let mut object: Object<'_> = object::parse("message", "stream_complete", raw)?;
    let content: Json = object.take("content", OF)?;
    let text = content.to::<String>().unwrap_or_else(|_| content.as_str().to_owned());
    let id = match object.take_optional::<Option<MessageId>>("message_id", OF)?.flatten() {
        Some(id) => id,
        None => stamp.map_or_else(|| MessageId::new(""), Stamp::message_id),
    };
    let name = match object.take_optional::<Option<Arc<str>>>("name", OF)?.flatten() {
        Some(name) => name,
        None => child.map_or_else(|| "assistant".into(), |child| Arc::clone(&child.source_name)),
    };
    let role = object.take_optional("role", OF)?.unwrap_or(Role::Assistant);
    let mut message = Message::new(id, name, role, [ContentBlock::from(TextBlock::new(text))]);
    message.metadata = Metadata::from(rest(&object));
    Ok(message)
}

fn run_error(mut object: Object<'_>) -> Result<(EventKind, Fields), ReadError> {
    const KIND: &str = "run_error";
    let text: String = object.take("message", KIND)?;
    let code: Option<String> = object.take_optional::<Option<String>>("code", KIND)?.flatten();
    let error_type = code.map_or(ErrorType::UNKNOWN, ErrorType::other);
    let complete = StreamComplete::new(Outcome::Failed).error(ErrorInfo::new(error_type, text));
    Ok((complete.into(), beyond::<StreamComplete>(&object)))
}

fn custom(mut object: Object<'_>) -> Result<(EventKind, Fields), ReadError> {
    const KIND: &str = "custom";
    let name: Arc<str> = object.take("event_type", KIND)?;
    let value: Json = object.take("event_data", KIND)?;
    Ok((Custom::new(name, value).into(), beyond::<Custom>(&object)))
}

fn rest(object: &Object<'_>) -> Fields {
    let rest: Pairs<'_> = object.borrowed();
    payload::to_fields(rest)
}

/// What is left that an event of the kind can have beside its own fields.
fn beyond<P: Payload>(object: &Object<'_>) -> Fields {
    let mut rest: Pairs<'_> = object.borrowed();
    rest.retain(|(name, _)| !P::FIELDS.contains(name));
    payload::to_fields(rest)
}
