//! About how many bytes an event takes in memory.

use std::fmt::{self, Write};

use anabranch_proto::{
    ContentBlock, DataSource, Event, EventKind, Message, Metadata, TextOrBlocks, ToolCallBlock,
    event::DataPart,
};

/// The event itself, its counts, its place in a log, and the ids in it.
const BASE: usize = 256;
/// A block, a call or a message, without its texts.
const PART: usize = 192;

/// About how many bytes an event takes in memory, its metadata included.
///
/// For bounds: on queues, on windows, on what a log keeps.
///
/// ```
/// use anabranch_proto::{Event, Metadata, Scope, Timestamp, event::TextBlockDelta};
///
/// let bytes = |text: &str| {
///     let delta = TextBlockDelta::new("reply", "block", text);
///     anabranch_session::approximate_bytes(&Event::new(
///         "id",
///         Timestamp::from_unix(0, 0),
///         Scope::Root,
///         Metadata::default(),
///         delta,
///     ))
/// };
/// assert_eq!(bytes("hello") - bytes(""), 5);
/// ```
#[must_use]
pub fn approximate_bytes(event: &Event) -> usize {
    self::event(event) + metadata(&event.metadata)
}

/// An estimate of an event's bytes without its metadata, which events share.
pub(crate) fn event(event: &Event) -> usize {
    BASE + event.extra.as_ref().map_or(0, |extra| fields(extra)) + kind(&event.kind)
}

/// An estimate of the bytes of metadata: once as text and once as fields.
pub(crate) fn metadata(metadata: &Metadata) -> usize {
    if metadata.is_empty() { 0 } else { 2 * written(metadata) }
}

#[expect(clippy::match_same_arms, reason = "a kind that is not named fails the lint for wildcards")]
fn kind(kind: &EventKind) -> usize {
    match kind {
        EventKind::TextBlockDelta(delta) => delta.delta.len(),
        EventKind::TextBlockEnd(end) => end.text.as_ref().map_or(0, String::len),
        EventKind::ThinkingBlockDelta(delta) => delta.delta.len(),
        EventKind::DataBlockDelta(delta) => data(&delta.part),
        EventKind::HintBlock(hint) => text_or_blocks(&hint.hint),
        EventKind::ToolCallDelta(delta) => delta.delta.len(),
        EventKind::ToolResultTextDelta(delta) => delta.delta.len(),
        EventKind::ToolResultDataDelta(delta) => data(&delta.part),
        EventKind::ToolResultEnd(end) => 2 * written(&end.response),
        EventKind::RequireUserConfirm(require) => require.tool_calls.iter().map(call).sum(),
        EventKind::RequireExternalExecution(require) => require.tool_calls.iter().map(call).sum(),
        EventKind::UserConfirmResult(result) => {
            result.confirm_results.iter().map(|answer| call(&answer.tool_call)).sum()
        }
        EventKind::ExternalExecutionResult(result) => {
            result.execution_results.iter().map(|result| PART + text_or_blocks(&result.output)).sum()
        }
        EventKind::Custom(custom) => custom.value.as_str().len(),
        EventKind::UserMessage(message) => blocks(&message.content),
        EventKind::SpawnSessionStart(spawn) => PART + spawn.description.len(),
        EventKind::SessionUpdated(update) => PART + update.description.as_ref().map_or(0, String::len),
        EventKind::StreamComplete(end) => {
            end.message.as_ref().map_or(0, message)
                + end.error.as_ref().map_or(0, |error| error.message.len())
        }
        EventKind::ReplyEnd(end) => end.error.as_ref().map_or(0, |error| PART + error.message.len()),
        EventKind::Unknown(unknown) => fields(&unknown.fields),
        EventKind::ReplyStart(_)
        | EventKind::ModelCallStart(_)
        | EventKind::ModelCallEnd(_)
        | EventKind::TextBlockStart(_)
        | EventKind::ThinkingBlockStart(_)
        | EventKind::ThinkingBlockEnd(_)
        | EventKind::DataBlockStart(_)
        | EventKind::DataBlockEnd(_)
        | EventKind::ToolCallStart(_)
        | EventKind::ToolCallEnd(_)
        | EventKind::ToolResultStart(_)
        | EventKind::UserInterrupt(_)
        | EventKind::ExceedMaxIters(_) => 0,
        _ => 0,
    }
}

fn message(message: &Message) -> usize {
    PART + blocks(&message.content)
}

fn blocks(blocks: &[ContentBlock]) -> usize {
    blocks.iter().map(block).sum()
}

fn block(block: &ContentBlock) -> usize {
    PART + match block {
        ContentBlock::Text(text) => text.text.len(),
        ContentBlock::Thinking(thinking) => thinking.thinking.len(),
        ContentBlock::Hint(hint) => text_or_blocks(&hint.hint),
        ContentBlock::Data(data) => match &data.source {
            DataSource::Base64 { data, .. } => data.len(),
            DataSource::Url { url, .. } => url.len(),
            _ => 0,
        },
        ContentBlock::ToolCall(block) => call(block),
        ContentBlock::ToolResult(result) => text_or_blocks(&result.output) + 2 * written(&result.metadata),
        ContentBlock::Other(other) => fields(&other.fields),
        _ => 0,
    }
}

fn text_or_blocks(content: &TextOrBlocks) -> usize {
    match content {
        TextOrBlocks::Text(text) => text.len(),
        TextOrBlocks::Blocks(list) => blocks(list),
    }
}

fn call(call: &ToolCallBlock) -> usize {
    PART + call.input.len()
}

fn data(part: &DataPart) -> usize {
    match part {
        DataPart::Base64(data) => data.len(),
        DataPart::Url(url) => url.len(),
    }
}

fn fields(fields: &anabranch_proto::Fields) -> usize {
    fields.iter().map(|(name, value)| PART + name.len() + value.as_str().len()).sum()
}

/// The length of what is written of a value, without keeping it.
fn written(value: &impl fmt::Display) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting does not fail.
    let _ = write!(count, "{value}");
    count.0
}
