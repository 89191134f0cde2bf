//! What a run knows of the session around it.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use anabranch_pipeline::Counters;
use anabranch_proto::{MessageId, Metadata, Scope, SessionId, Stamp};

use super::{Conversation, Memories, Patience, RunControl, Runs};
use crate::{
    Limits, SpawnError,
    elsewhere::Claimed,
    limits::{Slot, Slots},
    question::{Permissions, Questions},
    task::Tasks,
};

/// Who runs: its session, whose events these are, what they carry.
#[derive(Clone)]
pub(crate) struct RunIdentity {
    pub(crate) session_id: SessionId,
    pub(crate) scope: Scope,
    /// On each of the run's own events.
    pub(crate) metadata: Metadata,
    pub(crate) control: Arc<RunControl>,
    /// What its tools may do without asking: its own permissions, and those of all above it.
    pub(crate) permissions: Arc<[Permissions]>,
    /// How often somebody has begun to run it.
    pub(crate) attempt: u32,
    /// Where its conversation is kept for a further run: how that one is to be spawned.
    pub(crate) kept: Option<Arc<Manner>>,
    pub(crate) shared: Arc<Shared>,
}

/// How a child was spawned.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) description: Option<String>,
    /// The caller's own keys.
    pub(crate) keys: Metadata,
    pub(crate) timeout: Option<Duration>,
}

/// What all runs of one root session share.
pub(crate) struct Shared {
    pub(crate) stamp: Arc<dyn Stamp>,
    pub(crate) limits: Limits,
    pub(crate) slots: Arc<Slots>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) runs: Arc<Runs>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) memories: Arc<Memories>,
    /// Whose the sessions are that came from elsewhere.
    pub(crate) claimed: Claimed,
    /// How readers hold the session up: whoever counts time looks at it anew then.
    pub(crate) patience: Patience,
    /// How many blocking functions run whose calls were stopped.
    pub(crate) detached: Arc<AtomicUsize>,
}

/// A run as its tools see it: the means to spawn a child of it.
pub(crate) struct Host {
    pub(crate) identity: RunIdentity,
    /// What the run's model has been told.
    pub(crate) conversation: Arc<Conversation>,
    /// The prompt that the run answers; none where code does without one.
    pub(crate) user_message_id: Option<MessageId>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("session_id", &self.identity.session_id).finish_non_exhaustive()
    }
}

impl Host {
    /// A parent that says nothing, so that nothing of it can be forked.
    pub(crate) fn silent(identity: RunIdentity) -> Self {
        Self { identity, conversation: Arc::new(Conversation::new(Vec::new())), user_message_id: None }
    }

    /// How deep a child of the run lies.
    pub(crate) fn child_depth(&self) -> u32 {
        self.identity.scope.depth().saturating_add(1)
    }

    /// Takes a place for a child of the run, unless the run is being stopped or a limit refuses it.
    pub(crate) fn reserve(&self) -> Result<Slot, SpawnError> {
        if self.identity.control.is_stopping() {
            return Err(SpawnError::Stopping);
        }
        self.identity.shared.slots.reserve(self.child_depth())
    }

    /// What a child of the run inherits: the application's keys, not ours.
    pub(crate) fn inherited(&self) -> Metadata {
        self.identity.metadata.clone().without_reserved()
    }
}
