//! Reading the flat spelling.

use super::{
    NOTE,
    note::Note,
    own,
    scopes::Scopes,
    visible::{subagent_id, tool_response, without_tool_response},
};
use crate::{
    Event, EventKind, Fields, Json, Metadata,
    ids::Ids,
    native::{
        ReadError,
        object::{self, Object},
        read::assembled,
        shared::Shared,
    },
};

/// An event that was read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// The event.
    pub event: Event,
    /// Whether the child was never announced, so that all but its `subagent_id` in the scope is a guess. Of a stream
    /// whose head is missing, or of agentscope itself, which announces nobody.
    pub provisional: bool,
}

/// Reads lines of one stream.
///
/// The scope of a child's events comes from its spawn. A `subagent_id` that no spawn named gets a provisional scope: a
/// child of the root with that id as its session, or with the session and the name that its first event gives, if that
/// is a `REPLY_START`. A session that somebody else has is not used: agents that share one id of a session stay apart.
///
/// An end whose reply is another's is that other's, whatever its metadata says: in agentscope the metadata of a
/// `TOOL_RESULT_END` is the tool's own result, which may name the child that a parent's call has spawned. A result is of
/// whom its `TOOL_RESULT_START` is; a reply is of whom the first of its events is that is no end, since a stream that
/// resumes a reply has no `REPLY_START` of it.
///
/// Its memory grows with the number of children in the stream and the replies that are open, not with its events. The
/// ids that successive events repeat are shared.
///
/// ```
/// use anabranch_proto::flat;
///
/// let line = r#"{"id":"e1","created_at":"2026-11-30T10:00:00","metadata":{"subagent_id":"sa_1"},
///     "type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"hello"}"#;
/// let read = flat::Reader::default().read(line)?;
/// assert!(read.provisional);
/// assert_eq!(read.event.scope.child().unwrap().subagent_id.as_str(), "sa_1");
/// # Ok::<(), anabranch_proto::native::ReadError>(())
/// ```
#[derive(Debug, Default)]
pub struct Reader {
    scopes: Scopes,
    metadata: Shared<Metadata>,
    ids: Ids,
}

impl Reader {
    /// Reads one event from one JSON object.
    ///
    /// # Errors
    /// When the text is not one JSON object, or a known kind of event has a field that is missing or of the wrong
    /// type. The reader can go on with the next line.
    pub fn read(&mut self, text: &str) -> Result<Line, ReadError> {
        let mut object = Object::line(text)?;
        let note = take_note(&mut object);
        let tag: String = object.take("type", "the line")?;
        if tag == "SUB_AGENT" {
            return Err(ReadError::field(&tag, "is of the native spelling; read it with `native::Reader`"));
        }
        let id = object.take("id", &tag)?;
        let created_at = object.take("created_at", &tag)?;
        let shown = object.take_metadata(&tag, &mut self.metadata)?;
        let (mut kind, extra) = payload(object, &tag, &note)?;
        kind.share_ids(&mut self.ids);
        if let (EventKind::ReplyEnd(end), Some(error_type)) = (&mut kind, note.error_type)
            && let Some(error) = &mut end.error
        {
            error.error_type = error_type;
        }

        let scope = self.scopes.of(subagent_id(&shown), &kind);
        let mut metadata = shown;
        if let EventKind::ToolResultEnd(end) = &mut kind
            && end.response.is_empty()
            && let Some(response) = tool_response(&metadata)
        {
            end.response = response;
            metadata = without_tool_response(&metadata);
        }
        let metadata = note.metadata.unwrap_or(metadata);
        self.scopes.learn(&scope, &kind);
        let provisional = self.scopes.is_provisional(&scope);
        Ok(Line { event: assembled(id, created_at, scope, metadata, kind, extra), provisional })
    }
}

/// What the line adds to itself, where its last field is that. A field of the same name that is something else stays,
/// and so does one that adds nothing, unless it is there to show that the one before it is something else.
fn take_note(object: &mut Object<'_>) -> Note {
    let Some(note) = object.last(NOTE).and_then(Note::of) else { return Note::default() };
    if !note.is_empty() || object.last_but_one(NOTE) {
        object.drop_last();
    }
    note
}

/// The payload, of one of our own kinds where a `CUSTOM` is one.
fn payload(mut object: Object<'_>, tag: &str, note: &Note) -> Result<(EventKind, Fields), ReadError> {
    let own = match object.get("name") {
        Some(name) if tag == "CUSTOM" && !note.application => {
            let name: String = object::parse("name", tag, name)?;
            own::tag(&name).map(|tag| (tag, name))
        }
        Some(_) | None => None,
    };
    let Some((tag, name)) = own else {
        let (mut kind, extra) = object.payload(tag)?;
        if note.value
            && let EventKind::Custom(custom) = &mut kind
            && let Some(value) = unwrapped(&custom.value)
        {
            custom.value = value;
        }
        return Ok((kind, extra));
    };
    object.take_raw("name");
    let raw = object.take_raw("value").ok_or_else(|| ReadError::missing(&name, "value"))?;
    let value: Object<'_> = object::parse("value", &name, raw)?;
    let (kind, mut extra) = value.payload(tag)?;
    for (field, value) in object.borrowed() {
        extra.push(field, Json::from_raw(value));
    }
    Ok((kind, extra))
}

fn unwrapped(value: &Json) -> Option<Json> {
    let mut fields: Fields = value.to().ok()?;
    fields.remove("value")
}
