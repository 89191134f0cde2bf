//! Builds messages from a session's events.

use std::{
    mem,
    sync::{Arc, OnceLock},
};

use anabranch_proto::{
    BlockId, ContentBlock, Event, EventKind, FinishedReason, HintBlock, Message, MessageId, ReplyId, Role,
    TextOrBlocks, ToolCallId,
    event::{ExceedMaxIters, MessageOrigin, ModelCallEnd, ModelCallStart, ReplyEnd, ReplyStart, UserMessage},
};

use crate::{hash::IdSet, layout::Layout};

/// Builds the messages of one session from its own events.
///
/// One reply is one assistant message, and the message has the reply's id. Its results stand in the order of their
/// calls, behind all calls of their model turn, whatever the order in which they came. A prompt is a user message; one
/// that comes in mid-reply becomes a hint inside the reply, behind the turn under way, where the model reads it.
///
/// The processor keeps one for each open session and an agent's loop one for its next request: both see the same
/// events, so both have the same messages. The cost of a text is linear in its length, whatever the number of deltas; that
/// of a result does not depend on how many others there are, whatever the order in which they come.
///
/// ```
/// use anabranch_proto::{Event, EventKind, Metadata, Scope, Timestamp, event};
/// use anabranch_session::MessageAccumulator;
///
/// let mut messages = MessageAccumulator::new();
/// let kinds: [EventKind; 4] = [
///     event::ReplyStart::new("session", "reply", "agent").into(),
///     event::TextBlockStart::new("reply", "block").into(),
///     event::TextBlockDelta::new("reply", "block", "Hel").into(),
///     event::TextBlockDelta::new("reply", "block", "lo").into(),
/// ];
/// for kind in kinds {
///     messages.apply(&Event::new("id", Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), kind));
/// }
/// assert_eq!(messages.messages()[0].text(), "Hello");
/// ```
#[derive(Clone, Debug, Default)]
pub struct MessageAccumulator {
    messages: Vec<Message>,
    /// The ids of the messages.
    ids: IdSet<MessageId>,
    /// The open reply; its message is the last one.
    open: Option<Box<OpenReply>>,
    /// The messages as they are shown while the open reply keeps results apart from its message.
    view: OnceLock<Vec<Message>>,
    /// The first message of the run under way, or of the last one.
    run_start: usize,
    run_ended: bool,
}

#[derive(Clone, Debug)]
struct OpenReply {
    id: ReplyId,
    layout: Layout,
}

/// The open reply and its message.
pub(crate) type Open<'a> = (&'a mut Layout, &'a mut Message);

/// A conversation that goes on behind these messages.
impl From<Vec<Message>> for MessageAccumulator {
    fn from(messages: Vec<Message>) -> Self {
        let ids = messages.iter().map(|message| message.id.clone()).collect();
        let run_start = messages.len();
        Self { messages, ids, run_start, run_ended: true, ..Self::default() }
    }
}

impl MessageAccumulator {
    /// Nothing said yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The messages so far, the open reply last: prompts as user messages, replies as assistant messages.
    ///
    /// Costs nothing, but for a copy of the messages where results of the open reply's calls came out of order and some
    /// before them are still missing.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        match &self.open {
            Some(open) if open.layout.has_apart() => self.view.get_or_init(|| self.clone().into_messages()),
            Some(_) | None => &self.messages,
        }
    }

    /// The messages without a reply that is still open.
    #[must_use]
    pub fn completed(&self) -> &[Message] {
        let open = usize::from(self.open.is_some());
        self.messages.get(..self.messages.len() - open).unwrap_or_default()
    }

    /// The open reply as far as it has come.
    #[must_use]
    pub fn open_message(&self) -> Option<&Message> {
        self.open.as_ref()?;
        self.messages().last()
    }

    /// The messages, without a copy.
    #[must_use]
    pub fn into_messages(mut self) -> Vec<Message> {
        self.end_open();
        self.messages
    }

    /// What the last run came to: id, name and role of its last reply, and what that says in the end.
    ///
    /// This is what a `STREAM_COMPLETE` carries. None where the run had no reply.
    #[must_use]
    pub fn final_message(&self) -> Option<Message> {
        let run = self.messages().get(self.run_start..)?;
        let last = run.iter().rev().find(|message| message.role != Role::User)?;
        Some(Message::new(last.id.clone(), Arc::clone(&last.name), last.role, last.final_content()))
    }

    /// Whether the open reply has a result for this call with anything in it.
    pub(crate) fn has_output(&self, call: &ToolCallId) -> bool {
        let message = self.messages.last();
        let block = self
            .open
            .as_ref()
            .zip(message)
            .and_then(|(open, message)| open.layout.result(&message.content, call));
        matches!(block, Some(ContentBlock::ToolResult(result)) if match &result.output {
            TextOrBlocks::Text(text) => !text.is_empty(),
            TextOrBlocks::Blocks(blocks) => !blocks.is_empty(),
        })
    }

    /// Takes in one of the session's own events. Events of other sessions are not to be given.
    ///
    /// What does not fit (a piece of a block that never began, an event of a reply that ended) changes nothing.
    #[expect(clippy::match_same_arms, reason = "a kind that is not named fails the lint for wildcards")]
    pub fn apply(&mut self, event: &Event) {
        self.view.take();
        if self.run_ended {
            self.run_ended = false;
            self.run_start = self.messages.len();
        }
        match &event.kind {
            EventKind::UserMessage(prompt) => self.prompt(event, prompt),
            EventKind::ReplyStart(start) => self.reply_start(event, start),
            EventKind::ReplyEnd(end) => self.reply_end(event, end),
            EventKind::ModelCallStart(start) => self.model_call_start(event, start),
            EventKind::ModelCallEnd(end) => self.model_call_end(end),
            EventKind::ExceedMaxIters(exceed) => self.exceed_max_iters(exceed),
            EventKind::TextBlockStart(start) => self.text_start(event, start),
            EventKind::TextBlockDelta(delta) => self.text_delta(event, delta),
            EventKind::TextBlockEnd(end) => self.text_end(event, end),
            EventKind::ThinkingBlockStart(start) => self.thinking_start(event, start),
            EventKind::ThinkingBlockDelta(delta) => self.thinking_delta(event, delta),
            EventKind::ThinkingBlockEnd(end) => self.thinking_end(event, end),
            EventKind::DataBlockStart(start) => self.data_start(event, start),
            EventKind::DataBlockDelta(delta) => self.data_delta(event, delta),
            EventKind::DataBlockEnd(end) => self.data_end(event, end),
            EventKind::HintBlock(hint) => self.hint(event, hint),
            EventKind::ToolCallStart(start) => self.call_start(event, start),
            EventKind::ToolCallDelta(delta) => self.call_delta(event, delta),
            EventKind::ToolCallEnd(end) => self.call_end(event, end),
            EventKind::ToolResultStart(start) => self.result_start(event, start),
            EventKind::ToolResultTextDelta(delta) => self.result_text(event, delta),
            EventKind::ToolResultDataDelta(delta) => self.result_data(event, delta),
            EventKind::ToolResultEnd(end) => self.result_end(event, end),
            EventKind::RequireUserConfirm(require) => self.confirm_required(event, require),
            EventKind::UserConfirmResult(result) => self.confirmed(event, result),
            EventKind::RequireExternalExecution(require) => self.external_required(event, require),
            EventKind::ExternalExecutionResult(result) => self.external_result(event, result),
            EventKind::StreamComplete(_) => {
                self.end_open();
                self.run_ended = true;
            }
            EventKind::UserInterrupt(_)
            | EventKind::Custom(_)
            | EventKind::SpawnSessionStart(_)
            | EventKind::SessionUpdated(_)
            | EventKind::Unknown(_) => {}
            _ => {}
        }
    }

    /// A prompt between replies is a message; one in mid-reply is a hint in it, with the message's id.
    #[expect(clippy::match_same_arms, reason = "a kind that is not named fails the lint for wildcards")]
    fn prompt(&mut self, event: &Event, prompt: &UserMessage) {
        let name = match prompt.origin {
            MessageOrigin::Parent => "parent",
            MessageOrigin::User | MessageOrigin::Steering => "user",
            _ => "user",
        };
        if let (Some(open), Some(message)) = (&mut self.open, self.messages.last_mut()) {
            let mut hint = HintBlock::new(TextOrBlocks::Blocks(prompt.content.clone()));
            hint.id = Some(BlockId::new(prompt.message_id.as_str()));
            hint.source = Some(name.to_owned());
            hint.created_at = Some(event.created_at);
            hint.finished_at = Some(event.created_at);
            open.layout.add_steering(&mut message.content, hint.into());
            return;
        }
        if prompt.origin != MessageOrigin::Steering {
            self.run_start = self.messages.len();
        }
        let mut message = Message::new(prompt.message_id.clone(), name, Role::User, prompt.content.clone());
        message.created_at = Some(event.created_at);
        message.finished_at = Some(event.created_at);
        message.metadata = event.metadata.clone();
        self.push(message);
    }

    fn reply_start(&mut self, event: &Event, start: &ReplyStart) {
        if let Some((_, message)) = self.reply(event, &start.reply_id) {
            message.name = Arc::clone(&start.name);
            message.role = start.role;
        }
    }

    fn reply_end(&mut self, event: &Event, end: &ReplyEnd) {
        if let Some((_, message)) = self.known_reply(&end.reply_id) {
            message.finished_at = Some(event.created_at);
            message.finished_reason = Some(end.finished_reason);
            message.error = end.error.as_deref().cloned();
            self.end_open();
        }
    }

    fn model_call_start(&mut self, event: &Event, start: &ModelCallStart) {
        if let Some((layout, message)) = self.reply(event, &start.reply_id) {
            layout.model_call_start(&mut message.content);
        }
    }

    fn model_call_end(&mut self, end: &ModelCallEnd) {
        if let Some((layout, message)) = self.known_reply(&end.reply_id) {
            layout.model_call_end(&mut message.content);
            message.usage.get_or_insert_default().add(end.usage());
        }
    }

    fn exceed_max_iters(&mut self, exceed: &ExceedMaxIters) {
        if let Some((_, message)) = self.known_reply(&exceed.reply_id) {
            message.finished_reason = Some(FinishedReason::ExceedMaxIters);
        }
    }

    /// The open reply, where it is this one: an end of another one ends nothing here.
    fn known_reply(&mut self, id: &ReplyId) -> Option<Open<'_>> {
        let open = self.open.as_mut().filter(|open| open.id == *id)?;
        Some((&mut open.layout, self.messages.last_mut()?))
    }

    /// The open reply that an event belongs to. A reply whose start was not seen begins here; one that ended is not
    /// opened again.
    pub(crate) fn reply(&mut self, event: &Event, id: &ReplyId) -> Option<Open<'_>> {
        if self.open.as_ref().is_none_or(|open| open.id != *id) {
            if self.ids.contains(id.as_str()) {
                return None;
            }
            self.end_open();
            let mut message = Message::new(id.clone(), "assistant", Role::Assistant, Vec::new());
            message.created_at = Some(event.created_at);
            message.metadata = event.metadata.clone();
            self.push(message);
            self.open = Some(Box::new(OpenReply { id: id.clone(), layout: Layout::default() }));
        }
        Some((&mut self.open.as_mut()?.layout, self.messages.last_mut()?))
    }

    fn push(&mut self, message: Message) {
        self.ids.insert(message.id.clone());
        self.messages.push(message);
    }

    /// Ends the open reply: its message takes in what was kept apart from it.
    fn end_open(&mut self) {
        if let (Some(open), Some(message)) = (self.open.take(), self.messages.last_mut()) {
            message.content = open.layout.finish(mem::take(&mut message.content));
        }
    }
}
