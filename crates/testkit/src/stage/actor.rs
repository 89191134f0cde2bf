//! Who acts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anabranch_proto::{
    BlockId, ContentBlock, ErrorInfo, ErrorType, Event, EventKind, Message, Metadata, Outcome, ReplyId, Role,
    Scope, SessionId, TextBlock, ToolCallId, ToolResultState,
    event::{
        MessageOrigin, ReplyEnd, ReplyStart, SessionUpdated, StreamComplete, TextBlockDelta, TextBlockEnd,
        TextBlockStart, ThinkingBlockDelta, ThinkingBlockEnd, ThinkingBlockStart, ToolCallDelta, ToolCallEnd,
        ToolCallStart, ToolResultEnd, ToolResultStart, ToolResultTextDelta, UserMessage,
    },
};

use super::{SpawnBuilder, Stage};

/// One run of a session, the root's or a child's. Each method writes down events in its scope.
///
/// Calls are `call_0`, `call_1` in every session, as models name them; blocks and replies count likewise.
#[derive(Clone, Debug)]
pub struct Actor {
    stage: Stage,
    session: SessionId,
    name: Arc<str>,
    scope: Scope,
    metadata: Metadata,
    /// Shared by the runs of a session.
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    blocks: AtomicU64,
    /// How often the root began.
    turns: AtomicU64,
}

#[expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "what these methods are for is what they write down"
)]
impl Actor {
    pub(super) fn root(stage: Stage) -> Self {
        let session = SessionId::new("ses_0");
        Self::new(stage, session, "master".into(), Scope::Root, Metadata::default())
    }

    pub(super) fn new(
        stage: Stage,
        session: SessionId,
        name: Arc<str>,
        scope: Scope,
        metadata: Metadata,
    ) -> Self {
        Self { stage, session, name, scope, metadata, counts: Arc::default() }
    }

    /// The same session with another scope: its next run, or what is known of it by another name.
    pub(super) fn rescoped(&self, scope: Scope, metadata: Metadata) -> Self {
        let mut next =
            Self::new(self.stage.clone(), self.session.clone(), Arc::clone(&self.name), scope, metadata);
        next.counts = Arc::clone(&self.counts);
        next
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The scope of its events.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The reply that its blocks and calls are part of: one per run.
    #[must_use]
    pub fn reply(&self) -> ReplyId {
        let run = match &self.scope {
            Scope::Root => self.counts.turns.load(Ordering::Relaxed).max(1),
            Scope::Child(child) => child.run.into(),
        };
        ReplyId::new(format!("reply_{}_{run}", self.session))
    }

    /// The metadata of its events.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The same actor, with a key on each event from now on and on those of whom it spawns.
    pub fn with(mut self, key: &str, value: impl Into<serde_json::Value>) -> Self {
        self.metadata = self.metadata.with(key, value);
        self
    }

    /// Writes down any event in its scope.
    pub fn emit(&self, kind: impl Into<EventKind>) -> Arc<Event> {
        self.stage.push(self.scope.clone(), self.metadata.clone(), kind.into())
    }

    /// A run begins: the prompt, and the start of the reply.
    pub fn begin(&self, prompt: &str) {
        let origin = match self.scope {
            Scope::Root => {
                self.counts.turns.fetch_add(1, Ordering::Relaxed);
                MessageOrigin::User
            }
            Scope::Child(_) => MessageOrigin::Parent,
        };
        let message = format!("msg_{}", self.reply());
        let content = vec![ContentBlock::from(TextBlock::new(prompt))];
        self.emit(UserMessage::new(message, content, origin));
        let (session, name) = (self.session.clone(), Arc::clone(&self.name));
        self.emit(ReplyStart::new(session, self.reply(), name));
    }

    /// The run ends: the end of the reply, and the terminal without a final message.
    pub fn end(&self, outcome: Outcome) {
        self.end_with(StreamComplete::new(outcome));
    }

    /// The run ends with a final text.
    pub fn end_saying(&self, outcome: Outcome, text: &str) {
        let content = vec![ContentBlock::from(TextBlock::new(text))];
        let (id, name) = (self.reply(), Arc::clone(&self.name));
        let message = Message::new(id, name, Role::Assistant, content);
        self.end_with(StreamComplete::new(outcome).message(message));
    }

    /// The run fails, or ends otherwise with something to say of it.
    pub fn end_with_error(&self, outcome: Outcome, error_type: ErrorType, message: &str) {
        self.end_with(StreamComplete::new(outcome).error(ErrorInfo::new(error_type, message)));
    }

    /// The run ends with this terminal.
    pub fn end_with(&self, complete: StreamComplete) {
        let mut end = ReplyEnd::new(self.session.clone(), self.reply(), complete.outcome.finished_reason());
        end.error = complete.error.clone().map(Box::new);
        self.emit(end);
        self.emit(complete);
    }

    /// Says a text in a block of its own.
    pub fn say(&self, text: &str) {
        self.say_in(&[text]);
    }

    /// Says a text in a block of its own, in these pieces.
    pub fn say_in(&self, pieces: &[&str]) {
        let block = self.open_text();
        for piece in pieces {
            self.delta(&block, piece);
        }
        self.close_text(&block);
    }

    /// Thinks a text in a block of its own.
    pub fn think(&self, text: &str) {
        let block = self.next_block();
        self.emit(ThinkingBlockStart::new(self.reply(), &block));
        self.emit(ThinkingBlockDelta::new(self.reply(), &block, text));
        self.emit(ThinkingBlockEnd::new(self.reply(), &block));
    }

    /// Begins a block of text.
    pub fn open_text(&self) -> BlockId {
        let block = self.next_block();
        self.emit(TextBlockStart::new(self.reply(), &block));
        block
    }

    /// Says a piece of a block.
    pub fn delta(&self, block: &BlockId, text: &str) {
        self.emit(TextBlockDelta::new(self.reply(), block, text));
    }

    /// Ends a block of text.
    pub fn close_text(&self, block: &BlockId) {
        self.emit(TextBlockEnd::new(self.reply(), block));
    }

    /// Calls a tool, with arguments in JSON.
    pub fn call(&self, tool: &str, arguments: &str) -> ToolCallId {
        let call = ToolCallId::new(format!("call_{}", self.counts.calls.fetch_add(1, Ordering::Relaxed)));
        self.emit(ToolCallStart::new(self.reply(), &call, tool));
        if !arguments.is_empty() {
            self.emit(ToolCallDelta::new(self.reply(), &call, arguments));
        }
        self.emit(ToolCallEnd::new(self.reply(), &call));
        call
    }

    /// A tool answers: start, text, end.
    pub fn result(&self, call: &ToolCallId, tool: &str, state: ToolResultState, text: &str) {
        self.emit(ToolResultStart::new(self.reply(), call, tool));
        if !text.is_empty() {
            self.emit(ToolResultTextDelta::new(self.reply(), call, text));
        }
        self.emit(ToolResultEnd::new(self.reply(), call, state));
    }

    /// Calls a tool that succeeds.
    pub fn use_tool(&self, tool: &str, arguments: &str, text: &str) {
        let call = self.call(tool, arguments);
        self.result(&call, tool, ToolResultState::Success, text);
    }

    /// Spawns a sync child of this name, by no tool call.
    pub fn spawn(&self, name: &str) -> Actor {
        self.spawning(name).now()
    }

    /// Spawns a child with more to say of it.
    pub fn spawning(&self, name: &str) -> SpawnBuilder {
        SpawnBuilder::new(self.clone(), name)
    }

    /// Something was learnt of a child of this one.
    pub fn update(&self, child: &Actor, learnt: impl FnOnce(SessionUpdated) -> SessionUpdated) {
        let run = child.scope.child().map_or(1, |child| child.run);
        self.emit(learnt(SessionUpdated::new(&child.session, run)));
    }

    fn next_block(&self) -> BlockId {
        BlockId::new(format!("block_{}", self.counts.blocks.fetch_add(1, Ordering::Relaxed)))
    }
}
