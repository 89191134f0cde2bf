//! Well-formed events, briefly.

mod actor;
mod spawn;

pub use actor::Actor;
pub use spawn::SpawnBuilder;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use anabranch_proto::{Event, EventKind, Metadata, Scope};

use crate::CountingStamp;

/// Where events are written down: one root session, in the order in which its actors act.
///
/// Clones and the [`Actor`]s of a stage write to the same list.
///
/// ```
/// use anabranch_proto::Outcome;
/// use anabranch_testkit::Stage;
///
/// let stage = Stage::new();
/// let root = stage.root();
/// root.begin("Compare two cities");
/// let child = root.spawn("n1");
/// child.begin("Look at Seattle");
/// child.say("It rains.");
/// child.end(Outcome::Completed);
/// root.end(Outcome::Completed);
/// assert_eq!(
///     stage.tags().join(" "),
///     "USER_MESSAGE REPLY_START SPAWN_SESSION_START USER_MESSAGE REPLY_START TEXT_BLOCK_START TEXT_BLOCK_DELTA \
///      TEXT_BLOCK_END REPLY_END STREAM_COMPLETE REPLY_END STREAM_COMPLETE",
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stage(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stamp: CountingStamp,
    events: Mutex<Vec<Arc<Event>>>,
    sessions: AtomicU64,
}

impl Stage {
    /// A stage where nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The root agent, `master` in session `ses_0`.
    #[must_use]
    pub fn root(&self) -> Actor {
        Actor::root(self.clone())
    }

    /// What happened so far.
    #[must_use]
    pub fn events(&self) -> Vec<Arc<Event>> {
        self.lock().clone()
    }

    /// The kinds of what happened so far.
    #[must_use]
    pub fn tags(&self) -> Vec<String> {
        self.lock().iter().map(|event| event.kind.tag().to_owned()).collect()
    }

    /// The stamp of all events, to move its clock or to stamp others.
    #[must_use]
    pub fn stamp(&self) -> &CountingStamp {
        &self.0.stamp
    }

    /// Writes down that the last event came again: the same id, the same everything.
    pub fn repeat_last(&self) {
        let mut events = self.lock();
        let last = events.last().cloned();
        events.extend(last);
    }

    fn push(&self, scope: Scope, metadata: Metadata, kind: EventKind) -> Arc<Event> {
        let event = Arc::new(Event::stamped(&self.0.stamp, scope, metadata, kind));
        self.lock().push(Arc::clone(&event));
        event
    }

    fn next_session(&self) -> u64 {
        self.0.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Event>>> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
