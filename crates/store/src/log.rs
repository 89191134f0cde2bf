//! A session's log as its store keeps it in memory.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch_proto::{Admitted, EventId, SessionId};
use anabranch_session::AppendError;
use tokio::sync::watch;

use crate::{
    StoreError, StoreOptions,
    insert::Known,
    tail::{Place, Tail, Urgency},
};

/// One root session, shared by all that have its log.
pub(crate) struct Log {
    pub(crate) id: SessionId,
    pub(crate) epoch: String,
    /// The root's number in the database.
    pub(crate) root: i64,
    state: Mutex<State>,
    readable: watch::Sender<u64>,
    durable: watch::Sender<u64>,
    /// The number of the last event that was forgotten.
    forgotten: AtomicU64,
    /// Why nothing is appended any more, for good.
    failed: OnceLock<StoreError>,
    /// What the writer knows of the tree; its own, and loaded where it is not there.
    pub(crate) known: Mutex<Option<Known>>,
}

struct State {
    tail: Tail,
    /// Whether the writer has been told.
    is_queued: bool,
    /// The fault of the store because of which a batch was refused, or because of which what waits is not written.
    fault: Option<StoreError>,
}

/// What an append leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// The writer knows that there is something.
    Known,
    /// It is to be told that there is something, and whether it can wait.
    Tell(Urgency),
}

impl Log {
    pub(crate) fn new(
        (id, epoch, root): (SessionId, String, i64),
        (last, forgotten): (u64, u64),
        ids: Vec<EventId>,
        options: &StoreOptions,
    ) -> Self {
        let mut tail = Tail::new(last, options);
        for id in ids {
            tail.remember(id);
        }
        Self {
            id,
            epoch,
            root,
            state: Mutex::new(State { tail, is_queued: false, fault: None }),
            readable: watch::Sender::new(last),
            durable: watch::Sender::new(last),
            forgotten: AtomicU64::new(forgotten),
            failed: OnceLock::new(),
            known: Mutex::default(),
        }
    }

    /// Takes a batch, unless the store has a fault.
    pub(crate) fn append(
        &self,
        batch: &[Admitted],
        fault: impl FnOnce() -> Option<StoreError>,
    ) -> Result<Appended, AppendError> {
        if let Some(error) = self.failed.get() {
            return Err(AppendError::failed(error.clone()));
        }
        let mut state = self.lock();
        if let Some(fault) = fault() {
            state.fault = Some(fault.clone());
            drop(state);
            self.wake();
            return Err(AppendError::failed(fault));
        }
        let urgency = state.tail.append(batch)?;
        if urgency == Urgency::None {
            return Ok(Appended::Known);
        }
        state.fault = None;
        let appended = if state.is_queued && urgency == Urgency::CanWait {
            Appended::Known
        } else {
            state.is_queued = true;
            Appended::Tell(urgency)
        };
        self.show(&state);
        Ok(appended)
    }

    /// Where the events behind a number are, and what is wrong where there are none.
    pub(crate) fn read(&self, after: u64, max: usize) -> Result<Place, StoreError> {
        if let Some(error @ StoreError::Deleted { .. }) = self.failed.get() {
            return Err(error.clone());
        }
        let state = self.lock();
        let place = state.tail.read(after, max);
        if max > 0
            && after >= state.tail.readable()
            && let Some(error) = self.failed.get().or(state.fault.as_ref())
        {
            return Err(error.clone());
        }
        Ok(place)
    }

    /// What is to be written.
    pub(crate) fn waiting(&self, events: usize, bytes: usize) -> Vec<Admitted> {
        let mut state = self.lock();
        let waiting = state.tail.waiting(events, bytes);
        state.is_queued = !waiting.is_empty();
        waiting
    }

    /// What waited up to this number is on disk. Says whether more waits.
    pub(crate) fn committed(&self, upto: u64) -> bool {
        let mut state = self.lock();
        state.tail.committed(upto);
        state.fault = None;
        state.is_queued = state.tail.is_waiting();
        self.show(&state);
        self.durable.send_if_modified(|durable| {
            let modified = upto > *durable;
            *durable = upto.max(*durable);
            modified
        });
        state.is_queued
    }

    /// What waits is not written for now.
    pub(crate) fn faulty(&self, fault: &StoreError) {
        let mut state = self.lock();
        if state.tail.is_waiting() {
            state.fault = Some(fault.clone());
            drop(state);
            self.wake();
        }
    }

    /// Nothing is appended any more.
    pub(crate) fn fail(&self, error: StoreError) {
        self.failed.set(error).ok();
        self.wake();
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    pub(crate) fn forget(&self, upto: u64) {
        self.forgotten.fetch_max(upto, Ordering::AcqRel);
    }

    pub(crate) fn has_room(&self) -> bool {
        self.lock().tail.has_room()
    }

    /// Whether an append is to wait: there is no room, and none will come of a fault.
    pub(crate) fn is_full_for_now(&self) -> bool {
        let state = self.lock();
        !state.tail.has_room() && state.fault.is_none() && self.failed.get().is_none()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.lock().tail.is_waiting()
    }

    pub(crate) fn last(&self) -> u64 {
        self.lock().tail.appended()
    }

    pub(crate) fn watch_readable(&self) -> watch::Receiver<u64> {
        self.readable.subscribe()
    }

    pub(crate) fn watch_durable(&self) -> watch::Receiver<u64> {
        self.durable.subscribe()
    }

    /// Under the lock, so that what readers are told never goes back.
    fn show(&self, state: &State) {
        let readable = state.tail.readable();
        self.readable.send_if_modified(|shown| {
            let modified = readable > *shown;
            *shown = readable.max(*shown);
            modified
        });
    }

    /// Readers and whoever waits for room look again.
    fn wake(&self) {
        self.readable.send_modify(|_| {});
        self.durable.send_modify(|_| {});
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is kept is whole after each step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("id", &self.id).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
