//! Writing the flat spelling.

use serde::{Serialize, Serializer};

use super::{
    NOTE,
    note::Note,
    own::{self, SESSION_UPDATED, SPAWN_SESSION_START, STREAM_COMPLETE, USER_MESSAGE},
    visible::visible,
};
use crate::{
    ErrorType, Event, EventKind, Fields, Json, ReplyId, ToolCallId, ToolResultState, event::ToolResultEnd,
    native::payload::Wrap,
};

/// An event in its flat spelling, for any serde serializer.
#[derive(Clone, Copy, Debug)]
pub struct Flat<'a> {
    event: &'a Event,
}

impl<'a> Flat<'a> {
    /// An event.
    #[must_use]
    pub fn new(event: &'a Event) -> Self {
        Self { event }
    }
}

/// The event as one line of JSON, without the line's end.
///
/// # Errors
/// None for events whose parts are this crate's own types; the signature is serde's.
pub fn to_string(event: &Event) -> serde_json::Result<String> {
    serde_json::to_string(&Flat::new(event))
}

/// Appends the event as one line of JSON to `out`, without the line's end.
///
/// # Errors
/// None for events whose parts are this crate's own types; the signature is serde's. `out` may then hold a part of the
/// line.
pub fn write(event: &Event, out: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(out, &Flat::new(event))
}

impl Serialize for Flat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.event;
        let (metadata, is_told) = visible(event);
        let mut note = Note { metadata: (!is_told).then(|| event.metadata.clone()), ..Note::default() };
        if let EventKind::ReplyEnd(end) = &event.kind {
            note.error_type = own::foreign_error(end);
        }
        if let EventKind::Custom(custom) = &event.kind {
            note.application = own::tag(&custom.name).is_some();
            note.value = !custom.value.as_str().starts_with('{');
        }
        let extra = event.extra.as_deref();
        // A reader takes the last field for a note, so one that the application has needs ours behind it.
        let is_needed = !note.is_empty() || ends_like_a_note(event);
        let wrap = Wrap {
            seq: None,
            id: &event.id,
            created_at: &event.created_at,
            metadata: &metadata,
            tag: "CUSTOM",
            extra: None,
            note: is_needed.then_some(&note),
        };
        match &event.kind {
            EventKind::UserMessage(payload) => ours(wrap, USER_MESSAGE, &**payload, extra, serializer),
            EventKind::SpawnSessionStart(payload) => {
                ours(wrap, SPAWN_SESSION_START, &**payload, extra, serializer)
            }
            EventKind::SessionUpdated(payload) => ours(wrap, SESSION_UPDATED, &**payload, extra, serializer),
            EventKind::StreamComplete(payload) => ours(wrap, STREAM_COMPLETE, &**payload, extra, serializer),
            EventKind::ToolResultEnd(end) => {
                Wrap { tag: event.kind.tag(), extra, ..wrap }.serialize(&ResultEnd::from(end), serializer)
            }
            EventKind::ReplyEnd(end) if note.error_type.is_some() => {
                let mut end = end.clone();
                if let Some(error) = &mut end.error {
                    error.error_type = ErrorType::UNKNOWN;
                }
                Wrap { tag: event.kind.tag(), extra, ..wrap }.serialize(&end, serializer)
            }
            EventKind::Custom(custom) if note.value => {
                let value = Wrapped { value: &custom.value };
                Wrap { extra, ..wrap }.serialize(&Named { name: &custom.name, value }, serializer)
            }
            EventKind::Custom(_)
            | EventKind::ReplyStart(_)
            | EventKind::ReplyEnd(_)
            | EventKind::ModelCallStart(_)
            | EventKind::ModelCallEnd(_)
            | EventKind::TextBlockStart(_)
            | EventKind::TextBlockDelta(_)
            | EventKind::TextBlockEnd(_)
            | EventKind::ThinkingBlockStart(_)
            | EventKind::ThinkingBlockDelta(_)
            | EventKind::ThinkingBlockEnd(_)
            | EventKind::DataBlockStart(_)
            | EventKind::DataBlockDelta(_)
            | EventKind::DataBlockEnd(_)
            | EventKind::HintBlock(_)
            | EventKind::ToolCallStart(_)
            | EventKind::ToolCallDelta(_)
            | EventKind::ToolCallEnd(_)
            | EventKind::ToolResultStart(_)
            | EventKind::ToolResultTextDelta(_)
            | EventKind::ToolResultDataDelta(_)
            | EventKind::RequireUserConfirm(_)
            | EventKind::RequireExternalExecution(_)
            | EventKind::UserConfirmResult(_)
            | EventKind::UserInterrupt(_)
            | EventKind::ExternalExecutionResult(_)
            | EventKind::ExceedMaxIters(_)
            | EventKind::Unknown(_) => {
                event.kind.serialize(Wrap { tag: event.kind.tag(), extra, ..wrap }, serializer)
            }
        }
    }
}

/// Whether the line would without a note end with a field that a reader would take for one.
fn ends_like_a_note(event: &Event) -> bool {
    let last = |fields: &Fields| {
        let (_, last) = fields.iter().last().filter(|(name, _)| *name == NOTE)?;
        let before = fields.len().checked_sub(2).and_then(|at| fields.iter().nth(at));
        let is_behind_another = before.is_some_and(|(name, _)| name == NOTE);
        Some(Note::of(last.raw()).is_some_and(|note| !note.is_empty() || is_behind_another))
    };
    match (&event.kind, &event.extra) {
        (
            EventKind::UserMessage(_)
            | EventKind::SpawnSessionStart(_)
            | EventKind::SessionUpdated(_)
            | EventKind::StreamComplete(_),
            _,
        ) => None,
        (_, Some(extra)) => last(extra),
        (EventKind::Unknown(unknown), None) => last(&unknown.fields),
        (_, None) => None,
    }
    .unwrap_or(false)
}

/// Writes one of our own kinds. What was read beside its fields stays beside them.
fn ours<P: Serialize, S: Serializer>(
    wrap: Wrap<'_>,
    name: &str,
    payload: &P,
    extra: Option<&Fields>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Value<'a, P> {
        #[serde(flatten)]
        payload: &'a P,
        #[serde(flatten)]
        extra: Option<&'a Fields>,
    }
    wrap.serialize(&Named { name, value: Value { payload, extra } }, serializer)
}

#[derive(Serialize)]
struct Named<'a, V> {
    name: &'a str,
    value: V,
}

#[derive(Serialize)]
struct Wrapped<'a> {
    value: &'a Json,
}

/// A `TOOL_RESULT_END` without the response, which is in the metadata.
#[derive(Serialize)]
struct ResultEnd<'a> {
    reply_id: &'a ReplyId,
    tool_call_id: &'a ToolCallId,
    state: ToolResultState,
}

impl<'a> From<&'a ToolResultEnd> for ResultEnd<'a> {
    fn from(end: &'a ToolResultEnd) -> Self {
        Self { reply_id: &end.reply_id, tool_call_id: &end.tool_call_id, state: end.state }
    }
}
