//! The event log in memory.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anabranch_proto::{Admitted, EventKind, Metadata, Scope, SessionId, Timestamp};
use futures::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use tokio::sync::watch;

use crate::{AppendError, Batch, EventLog, LogError, hash::IdMap};

/// A log in memory that keeps the last events, up to a number of bytes, and of events where it is told so.
///
/// Bytes are estimated per event. The last event is always kept, whatever its size and age. A reader that lags behind what is
/// kept gets a [`Batch::Gap`]. The log is never full: it forgets instead.
///
/// ```
/// # use std::sync::Arc;
/// use anabranch_proto::{Admitted, Event, Metadata, Scope, Timestamp, event::TextBlockDelta};
/// use anabranch_session::{Batch, EventLog, MemoryLog};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let log = MemoryLog::new();
/// let delta = TextBlockDelta::new("reply", "block", "hello");
/// let event = Event::new("id", Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), delta);
/// let admitted = Admitted::new(1, Arc::new(event));
/// log.append(std::slice::from_ref(&admitted))?;
///
/// assert_eq!(*log.appended().borrow(), 1);
/// assert_eq!(log.read(0, 64).await?, Batch::Events(vec![admitted]));
/// assert_eq!(log.read(1, 64).await?, Batch::Events(vec![]));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct MemoryLog {
    kept: Mutex<Kept>,
    retention: Retention,
    appended: watch::Sender<u64>,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
struct Retention {
    bytes: usize,
    events: usize,
}

/// How many different metadata are remembered, so that each is weighed once: as many children may take turns.
const METADATA: usize = 16;

#[derive(Debug, Default)]
struct Kept {
    /// Events with consecutive numbers, and what each weighs.
    events: VecDeque<(Admitted, usize)>,
    bytes: usize,
    /// The numbers of the spawns that are kept, by the parent that they are stored under.
    spawns: IdMap<SessionId, VecDeque<u64>>,
    /// The last metadata that differed, the newest last: the next event mostly shares one of these.
    metadata: Vec<Metadata>,
}

impl MemoryLog {
    /// A log that keeps about 64 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self::with_retention(64 << 20)
    }

    /// A log that keeps about so many bytes.
    #[must_use]
    pub fn with_retention(bytes: usize) -> Self {
        let retention = Retention { bytes, events: usize::MAX };
        Self { kept: Mutex::default(), retention, appended: watch::Sender::new(0) }
    }

    /// Keeps at most so many events, and at least one.
    #[must_use]
    pub fn keep_events(mut self, events: usize) -> Self {
        self.retention.events = events;
        self
    }

    /// Forgets the events from before a time, but for those behind one that is not, and for the last. Says how many.
    ///
    /// A log reads no clock: whoever wants none older than an hour says so once in a while.
    pub fn forget_before(&self, time: Timestamp) -> usize {
        let time = time.unix_millis();
        let mut kept = self.lock();
        let before = kept.events.len();
        while kept.events.len() > 1
            && kept.events.front().is_some_and(|(first, _)| first.event.created_at.unix_millis() < time)
        {
            kept.forget_first();
        }
        before - kept.events.len()
    }

    /// The spawns of a session's children that are kept, in order.
    ///
    /// A spawn is stored under its parent (RFC-0014's `spawn_start`), in the same step that makes it readable: it is
    /// here before any event of the child can be.
    #[must_use]
    pub fn spawn_starts(&self, parent: &SessionId) -> Vec<Admitted> {
        let kept = self.lock();
        let numbers = kept.spawns.get(parent).into_iter().flatten();
        numbers.filter_map(|&number| kept.at(number).cloned()).collect()
    }

    /// A child session's own events that are kept, in order. Looks at every event that is kept.
    #[must_use]
    pub fn session_events(&self, session: &SessionId) -> Vec<Admitted> {
        self.select(|scope| scope.child().is_some_and(|child| child.child_session_id == *session))
    }

    /// The root session's own events that are kept, in order. Looks at every event that is kept.
    #[must_use]
    pub fn root_events(&self) -> Vec<Admitted> {
        self.select(|scope| matches!(scope, Scope::Root))
    }

    fn select(&self, wanted: impl Fn(&Scope) -> bool) -> Vec<Admitted> {
        let kept = self.lock();
        kept.events
            .iter()
            .map(|(admitted, _)| admitted)
            .filter(|admitted| wanted(&admitted.event.scope))
            .cloned()
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // What is kept is whole after each step, so a panic elsewhere does not spoil it.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self::new()
    }
}

impl EventLog for MemoryLog {
    fn append(&self, batch: &[Admitted]) -> Result<(), AppendError> {
        let mut kept = self.lock();
        // The last event is never forgotten.
        let fresh = AppendError::check(kept.last().unwrap_or_default(), batch, |number| {
            kept.at(number).map(|admitted| &admitted.event.id)
        })?;
        for admitted in fresh {
            kept.push(admitted, self.retention);
        }
        drop(kept);
        if let Some(last) = fresh.last() {
            // Others may have appended more meanwhile.
            self.appended.send_if_modified(|appended| {
                let modified = last.seq > *appended;
                *appended = last.seq.max(*appended);
                modified
            });
        }
        Ok(())
    }

    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>> {
        future::ready(Ok(self.lock().read(after, max))).boxed()
    }

    fn appended(&self) -> watch::Receiver<u64> {
        self.appended.subscribe()
    }
}

impl Kept {
    fn first(&self) -> Option<u64> {
        self.events.front().map(|(admitted, _)| admitted.seq)
    }

    fn last(&self) -> Option<u64> {
        self.events.back().map(|(admitted, _)| admitted.seq)
    }

    /// Where the event with a number is, or would be.
    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first()?)?).ok()
    }

    fn at(&self, number: u64) -> Option<&Admitted> {
        self.events.get(self.place(number)?).map(|(admitted, _)| admitted)
    }

    fn push(&mut self, admitted: &Admitted, retention: Retention) {
        let event = &admitted.event;
        let weight = event.approximate_own_bytes() + self.weigh_once(&event.metadata);
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            self.spawns.entry(spawn.parent_session_id.clone()).or_default().push_back(admitted.seq);
        }
        self.events.push_back((admitted.clone(), weight));
        self.bytes += weight;
        while (self.bytes > retention.bytes || self.events.len() > retention.events) && self.events.len() > 1
        {
            self.forget_first();
        }
    }

    /// What metadata weighs, where it is not one of the last.
    fn weigh_once(&mut self, metadata: &Metadata) -> usize {
        let known = self.metadata.iter().rposition(|known| known.shares_with(metadata));
        if let Some(from_known) = known.and_then(|known| self.metadata.get_mut(known..)) {
            // To the end, so that what is in use is remembered. Mostly it is there.
            from_known.rotate_left(1);
            return 0;
        }
        if self.metadata.len() == METADATA {
            self.metadata.remove(0);
        }
        self.metadata.push(metadata.clone());
        metadata.approximate_bytes()
    }

    fn forget_first(&mut self) {
        let Some((admitted, weight)) = self.events.pop_front() else { return };
        self.bytes -= weight;
        if let EventKind::SpawnSessionStart(spawn) = &admitted.event.kind
            && let Some(numbers) = self.spawns.get_mut(&spawn.parent_session_id)
        {
            numbers.pop_front();
            if numbers.is_empty() {
                self.spawns.remove(&spawn.parent_session_id);
            }
        }
    }

    fn read(&self, after: u64, max: usize) -> Batch {
        let next = after.saturating_add(1);
        match self.first() {
            Some(first) if next < first => Batch::Gap { from: next, to: first - 1 },
            Some(_) | None => {
                let place = self.place(next).unwrap_or(usize::MAX);
                let events = self.events.iter().skip(place).take(max);
                Batch::Events(events.map(|(admitted, _)| admitted.clone()).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_proto::{ChildScope, Event, SpawnMechanism, event::SpawnSessionStart};

    use super::*;

    #[test]
    fn nothing_is_left_of_spawns_that_were_forgotten() {
        let log = MemoryLog::with_retention(0);
        for seq in 1..=1_000 {
            let child = ChildScope::new(format!("c{seq}"), format!("p{}", seq % 3), "sa", "name");
            let spawn = SpawnSessionStart::new(&child, SpawnMechanism::Sync, "task");
            let event = Event::new("id", Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), spawn);
            log.append(&[Admitted::new(seq, Arc::new(event))]).unwrap();
        }
        let kept = log.lock();
        assert_eq!(kept.spawns.values().flatten().copied().collect::<Vec<_>>(), [1_000]);
        assert_eq!(kept.spawns.len(), 1);
    }
}
