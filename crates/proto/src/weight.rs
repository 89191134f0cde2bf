//! About how many bytes things take in memory. For bounds: on queues, on windows, on what a log keeps.

use std::fmt::{self, Write};

use crate::{
    ContentBlock, DataSource, Event, EventKind, Fields, Message, Metadata, TextOrBlocks, ToolCallBlock,
    event::DataPart,
};

/// The event itself, its counts, its place in a log, and the ids in it.
const BASE: usize = 256;
/// A block, a call or a message, without its texts.
const PART: usize = 192;

impl Event {
    /// About how many bytes the event takes in memory, its metadata included.
    ///
    /// ```
    /// use anabranch_proto::{Event, Metadata, Scope, Timestamp, event::TextBlockDelta};
    ///
    /// let event = |text: &str| {
    ///     let delta = TextBlockDelta::new("reply", "block", text);
    ///     Event::new("id", Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), delta)
    /// };
    /// assert_eq!(event("hello").approximate_bytes() - event("").approximate_bytes(), 5);
    /// ```
    #[must_use]
    pub fn approximate_bytes(&self) -> usize {
        self.approximate_own_bytes() + self.metadata.approximate_bytes()
    }

    /// About how many bytes the event takes in memory without its metadata, which events share.
    #[must_use]
    pub fn approximate_own_bytes(&self) -> usize {
        BASE + self.extra.as_ref().map_or(0, |extra| fields(extra)) + kind(&self.kind)
    }
}

impl Metadata {
    /// About how many bytes the metadata takes in memory: once as text and once as fields.
    #[must_use]
    pub fn approximate_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { 2 * self.written() }
    }
}

impl Message {
    /// About how many bytes the message takes in memory.
    #[must_use]
    pub fn approximate_bytes(&self) -> usize {
        message(self)
    }
}

impl ContentBlock {
    /// About how many bytes the block takes in memory.
    #[must_use]
    pub fn approximate_bytes(&self) -> usize {
        block(self)
    }
}

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
        },
        ContentBlock::ToolCall(block) => call(block),
        ContentBlock::ToolResult(result) => text_or_blocks(&result.output) + 2 * result.metadata.written(),
        ContentBlock::Other(other) => fields(&other.fields),
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

fn fields(fields: &Fields) -> usize {
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
