//! Who calls.

use std::{
    any::Any,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch_proto::{Metadata, ReplyId, Scope, SessionId, Stamp};

use crate::gate::Claims;

/// The agent whose model makes the calls of one reply.
#[derive(Clone)]
#[non_exhaustive]
pub struct Caller {
    /// The agent's session.
    pub session_id: SessionId,
    /// Whose events the calls' results are.
    pub scope: Scope,
    /// The reply that the calls are part of.
    pub reply_id: ReplyId,
    /// The metadata of the agent's own events.
    pub metadata: Metadata,
    /// Brings ids and times.
    pub stamp: Arc<dyn Stamp>,
    /// What was dropped on the way.
    pub counters: Arc<Counters>,
    /// What the host of the agent offers to tools that know it, such as the means to spawn a sub-agent.
    pub host: Option<Arc<dyn Any + Send + Sync>>,
    /// Which of the calls that run side by side has which child.
    pub(crate) claims: Arc<Claims>,
}

impl Caller {
    /// A root agent without a host.
    pub fn new(
        session_id: impl Into<SessionId>,
        reply_id: impl Into<ReplyId>,
        stamp: Arc<dyn Stamp>,
    ) -> Self {
        Self {
            session_id: session_id.into(),
            scope: Scope::Root,
            reply_id: reply_id.into(),
            metadata: Metadata::default(),
            stamp,
            counters: Arc::default(),
            host: None,
            claims: Arc::default(),
        }
    }

    /// Whose events the calls' results are.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The metadata of the agent's own events.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Where to count what is dropped on the way.
    #[must_use]
    pub fn counters(mut self, counters: Arc<Counters>) -> Self {
        self.counters = counters;
        self
    }

    /// What the host of the agent offers to tools that know it.
    #[must_use]
    pub fn host(mut self, host: Arc<dyn Any + Send + Sync>) -> Self {
        self.host = Some(host);
        self
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("session_id", &self.session_id)
            .field("scope", &self.scope)
            .field("reply_id", &self.reply_id)
            .finish_non_exhaustive()
    }
}

/// Counts what tools yielded and nobody may see. Shared by the calls of a session.
#[derive(Debug, Default)]
pub struct Counters {
    events_dropped: AtomicU64,
    chunks_ignored: AtomicU64,
}

impl Counters {
    /// Events that a tool or a layer gave and that its call may not emit: what only the caller itself may say, and what is
    /// of another call's child or of nobody's.
    pub fn events_dropped(&self) -> u64 {
        self.events_dropped.load(Ordering::Relaxed)
    }

    /// Chunks that came after the last or after the tool's end, blocks that no result can hold, and data that went lost
    /// because an address took its place, or the other way round.
    pub fn chunks_ignored(&self) -> u64 {
        self.chunks_ignored.load(Ordering::Relaxed)
    }

    pub(crate) fn drop_event(&self) {
        self.events_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ignore_chunk(&self) {
        self.chunks_ignored.fetch_add(1, Ordering::Relaxed);
    }
}
