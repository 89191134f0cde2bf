//! The events that are measured: the pieces of a child's text.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    vec,
};

use anabranch_pipeline::ToolYield;
use anabranch_proto::{
    BlockId, ChildScope, Event, EventKind, FinishedReason, Metadata, Outcome, ReplyId, Scope, SessionId,
    SpawnMechanism, Stamp, TextBlock, ToolCallId,
    event::{
        MessageOrigin, ReplyEnd, ReplyStart, SpawnSessionStart, StreamComplete, TextBlockDelta, TextBlockEnd,
        TextBlockStart, UserMessage,
    },
};
use futures::Stream;

/// What each piece says: 12 bytes, about what a model sends at a time.
pub const PIECE: &str = "a few words ";

/// Makes the events of one child: a spawn, a prompt, one block of text, the end.
#[derive(Clone)]
pub struct Speaker {
    stamp: Arc<dyn Stamp>,
    parent: Scope,
    scope: Arc<ChildScope>,
    metadata: Metadata,
    reply: ReplyId,
    block: BlockId,
}

impl Speaker {
    /// A child of a session in `parent`'s scope, spawned by a call. Its events have two keys of the application's.
    pub fn new(stamp: &Arc<dyn Stamp>, parent: &Scope, session: &SessionId, call: &ToolCallId) -> Self {
        let (child, subagent) = stamp.session_ids();
        let depth = parent.depth() + 1;
        let metadata = Metadata::default()
            .with("subagent_id", subagent.as_str())
            .with("tenant_id", "acme")
            .with("node_id", "n1");
        Self {
            parent: parent.clone(),
            scope: Arc::new(
                ChildScope::new(child, session, subagent, "worker").tool_call_id(call.clone()).depth(depth),
            ),
            metadata,
            reply: stamp.reply_id(),
            block: stamp.block_id(),
            stamp: Arc::clone(stamp),
        }
    }

    /// The child's scope.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope::Child(Arc::clone(&self.scope))
    }

    /// The child's session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.scope.child_session_id
    }

    fn event(&self, kind: impl Into<EventKind>) -> Arc<Event> {
        Arc::new(Event::stamped(&*self.stamp, self.scope(), self.metadata.clone(), kind))
    }

    /// The announcement, in the parent's scope.
    #[must_use]
    pub fn spawn(&self) -> Arc<Event> {
        let spawn = SpawnSessionStart::new(&self.scope, SpawnMechanism::Sync, "Run worker task");
        let metadata = match self.parent.child() {
            Some(parent) => Metadata::default().with("subagent_id", parent.subagent_id.as_str()),
            None => Metadata::default(),
        };
        Arc::new(Event::stamped(&*self.stamp, self.parent.clone(), metadata, spawn))
    }

    /// What comes before the pieces.
    #[must_use]
    pub fn open(&self) -> Vec<Arc<Event>> {
        let prompt = vec![TextBlock::new("Say a few words.").into()];
        vec![
            self.spawn(),
            self.event(UserMessage::new(self.stamp.message_id(), prompt, MessageOrigin::Parent)),
            self.event(ReplyStart::new(self.session(), &self.reply, "worker")),
            self.event(TextBlockStart::new(&self.reply, &self.block)),
        ]
    }

    /// One piece, made now: an id, a time, a text and an event.
    #[must_use]
    pub fn piece(&self) -> Arc<Event> {
        self.event(TextBlockDelta::new(&self.reply, &self.block, PIECE))
    }

    /// What comes after the pieces.
    #[must_use]
    pub fn close(&self) -> Vec<Arc<Event>> {
        vec![
            self.event(TextBlockEnd::new(&self.reply, &self.block)),
            self.event(ReplyEnd::new(self.session(), &self.reply, FinishedReason::Completed)),
            self.event(StreamComplete::new(Outcome::Completed)),
        ]
    }

    /// The whole child, its pieces made when they are asked for.
    #[must_use]
    pub fn live(self, pieces: usize) -> Live {
        Live { around: self.open().into_iter(), pieces, closed: false, speaker: self }
    }

    /// The whole child, made now.
    #[must_use]
    pub fn prebuilt(&self, pieces: usize) -> Prebuilt {
        let mut events = self.open();
        events.extend((0..pieces).map(|_| self.piece()));
        events.extend(self.close());
        Prebuilt(events.into_iter())
    }
}

/// A child's events, made when they are asked for, so that each is allocated and freed as in life.
pub struct Live {
    around: vec::IntoIter<Arc<Event>>,
    pieces: usize,
    closed: bool,
    speaker: Speaker,
}

impl Iterator for Live {
    type Item = Arc<Event>;

    fn next(&mut self) -> Option<Arc<Event>> {
        if let Some(event) = self.around.next() {
            return Some(event);
        }
        if self.pieces > 0 {
            self.pieces -= 1;
            return Some(self.speaker.piece());
        }
        if self.closed {
            return None;
        }
        self.closed = true;
        self.around = self.speaker.close().into_iter();
        self.around.next()
    }
}

/// A child's events, made before the clock runs.
pub struct Prebuilt(vec::IntoIter<Arc<Event>>);

impl Iterator for Prebuilt {
    type Item = Arc<Event>;

    fn next(&mut self) -> Option<Arc<Event>> {
        self.0.next()
    }
}

/// Events as what a tool yields. Always ready, and allocates nothing itself.
pub struct Yields<I>(pub I);

impl<I: Iterator<Item = Arc<Event>> + Unpin> Stream for Yields<I> {
    type Item = ToolYield;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<ToolYield>> {
        Poll::Ready(self.0.next().map(ToolYield::Event))
    }
}

/// How many events a child has around its pieces: those of [`Speaker::open`] and of [`Speaker::close`].
pub const AROUND: usize = 7;
