//! The end of a log: what waits for the disk, and the last of what is on it.

use std::{collections::VecDeque, ops::Range};

use anabranch_proto::{Admitted, EventId, EventKind};
use anabranch_session::AppendError;

use crate::{Barriers, StoreOptions};

/// How many times as much as there is room for an append may lead to: whoever waits for room appends a few batches in
/// between.
const MARGIN: usize = 4;

/// About how many bytes a read gives at most, but for its first event.
pub(crate) const READ_BYTES: usize = 4 << 20;

/// How many bytes of a session's events wait for no others to be committed with them.
pub(crate) const EAGER_BYTES: usize = 256 << 10;

/// Of how many events it is known by their ids that they are not appended again.
pub(crate) const IDS: usize = 1_024;

/// Whether what was appended is to be written without waiting for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Nothing new was appended.
    None,
    CanWait,
    Now,
}

/// The last events of a log, consecutive. A machine without I/O.
#[derive(Debug)]
pub(crate) struct Tail {
    events: VecDeque<(Admitted, usize)>,
    /// The ids of the last events.
    ids: VecDeque<EventId>,
    appended: u64,
    durable: u64,
    /// Barriers that are not durable, where readers are not to see them.
    held: VecDeque<u64>,
    waiting: usize,
    recent: usize,
    barriers: Barriers,
    room: usize,
    keep: usize,
}

/// Where events are.
#[derive(Debug)]
pub(crate) enum Place {
    Memory(Vec<Admitted>),
    /// On disk, with these numbers.
    Disk(Range<u64>),
}

impl Tail {
    /// The end of a log whose last event on disk has this number.
    pub(crate) fn new(durable: u64, options: &StoreOptions) -> Self {
        Self {
            events: VecDeque::new(),
            ids: VecDeque::new(),
            appended: durable,
            durable,
            held: VecDeque::new(),
            waiting: 0,
            recent: 0,
            barriers: options.barriers,
            room: options.waiting_bytes,
            keep: options.recent_bytes,
        }
    }

    /// Takes a batch.
    pub(crate) fn append(&mut self, batch: &[Admitted]) -> Result<Urgency, AppendError> {
        let fresh = AppendError::check(self.appended, batch, |seq| self.id(seq))?;
        if fresh.is_empty() {
            return Ok(Urgency::None);
        }
        if self.waiting > self.room.saturating_mul(MARGIN) {
            return Err(AppendError::Full);
        }
        let mut urgency = Urgency::CanWait;
        for admitted in fresh {
            let bytes = admitted.event.approximate_own_bytes();
            self.appended = admitted.seq;
            self.remember(admitted.event.id.clone());
            self.waiting += bytes;
            if is_barrier(&admitted.event.kind) {
                urgency = Urgency::Now;
                if self.barriers == Barriers::Held {
                    self.held.push_back(admitted.seq);
                }
            }
            self.events.push_back((admitted.clone(), bytes));
        }
        if self.waiting >= EAGER_BYTES {
            urgency = Urgency::Now;
        }
        Ok(urgency)
    }

    /// The number of the last event that readers may see.
    pub(crate) fn readable(&self) -> u64 {
        if self.barriers == Barriers::All {
            return self.durable;
        }
        self.held.front().map_or(self.appended, |barrier| barrier - 1)
    }

    pub(crate) fn appended(&self) -> u64 {
        self.appended
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting <= self.room
    }

    /// Whether something waits for the disk.
    pub(crate) fn is_waiting(&self) -> bool {
        self.appended > self.durable
    }

    /// What waits for the disk: at most so many events and, but for the first, bytes.
    pub(crate) fn waiting(&self, events: usize, bytes: usize) -> Vec<Admitted> {
        let mut left = bytes;
        let from = self.place(self.durable + 1);
        let taken = self.events.iter().skip(from).take(events).take_while(|(_, bytes)| {
            let fits = left > 0;
            left = left.saturating_sub(*bytes);
            fits
        });
        taken.map(|(admitted, _)| admitted.clone()).collect()
    }

    /// What waited is on disk up to this number.
    pub(crate) fn committed(&mut self, upto: u64) {
        let (from, to) = (self.place(self.durable + 1), self.place(upto + 1));
        let bytes: usize =
            self.events.iter().skip(from).take(to.saturating_sub(from)).map(|(_, bytes)| bytes).sum();
        self.waiting = self.waiting.saturating_sub(bytes);
        self.recent += bytes;
        self.durable = self.durable.max(upto);
        while self.held.front().is_some_and(|barrier| *barrier <= self.durable) {
            self.held.pop_front();
        }
        while self.recent > self.keep
            && self.events.front().is_some_and(|(first, _)| first.seq <= self.durable)
            && let Some((_, bytes)) = self.events.pop_front()
        {
            self.recent = self.recent.saturating_sub(bytes);
        }
    }

    /// Where the events behind a number are: at most `max`, of what readers may see.
    pub(crate) fn read(&self, after: u64, max: usize) -> Place {
        let readable = self.readable();
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        let upto = readable.min(after.saturating_add(max));
        if upto <= after {
            return Place::Memory(Vec::new());
        }
        let first = self.events.front().map_or(self.appended + 1, |(first, _)| first.seq);
        if after + 1 < first {
            return Place::Disk(after + 1..(upto + 1).min(first));
        }
        let (from, to) = (self.place(after + 1), self.place(upto + 1));
        let mut left = READ_BYTES;
        let events = self.events.iter().skip(from).take(to.saturating_sub(from)).take_while(|(_, bytes)| {
            let fits = left > 0;
            left = left.saturating_sub(*bytes);
            fits
        });
        Place::Memory(events.map(|(admitted, _)| admitted.clone()).collect())
    }

    /// The next of the last events' ids.
    pub(crate) fn remember(&mut self, id: EventId) {
        if self.ids.len() == IDS {
            self.ids.pop_front();
        }
        self.ids.push_back(id);
    }

    fn id(&self, seq: u64) -> Option<&EventId> {
        let behind = usize::try_from(self.appended.checked_sub(seq)?).ok()?;
        self.ids.get(self.ids.len().checked_sub(behind + 1)?)
    }

    /// Where the event with this number is, or would be.
    fn place(&self, seq: u64) -> usize {
        let first = self.events.front().map_or(self.appended + 1, |(first, _)| first.seq);
        usize::try_from(seq.saturating_sub(first)).unwrap_or(usize::MAX)
    }
}

/// Whether somebody who sees it acts on it: a spawn, a terminal, a result, a question or its answer.
fn is_barrier(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::SpawnSessionStart(_)
            | EventKind::StreamComplete(_)
            | EventKind::ToolResultEnd(_)
            | EventKind::RequireUserConfirm(_)
            | EventKind::UserConfirmResult(_)
            | EventKind::RequireExternalExecution(_)
            | EventKind::ExternalExecutionResult(_)
    )
}

#[cfg(test)]
mod tests {
    use anabranch_session::conformance::{RUN, conversation};

    use super::*;

    fn numbers(place: Place) -> Vec<u64> {
        match place {
            Place::Memory(events) => events.iter().map(|admitted| admitted.seq).collect(),
            Place::Disk(range) => panic!("on disk: {range:?}"),
        }
    }

    #[test]
    fn a_barrier_and_what_is_behind_it_wait_for_the_disk() {
        let all = conversation(2);
        let mut tail = Tail::new(0, &StoreOptions::new().barriers(Barriers::Held));
        // The second event of a run is a spawn.
        assert_eq!(tail.append(&all[..1]).unwrap(), Urgency::CanWait);
        assert_eq!(tail.append(&all[1..10]).unwrap(), Urgency::Now);
        assert_eq!((tail.appended, tail.readable()), (10, 1));
        assert_eq!(numbers(tail.read(0, 100)), [1]);
        tail.committed(1);
        assert_eq!(tail.readable(), 1);
        tail.committed(2);
        assert_eq!((tail.durable, tail.readable()), (2, 10));
        tail.append(&all[10..]).unwrap();
        // The child's terminal.
        assert_eq!(tail.readable(), 27);
        tail.committed(RUN - 1);
        assert_eq!(tail.readable(), RUN - 1, "the root's terminal is next");
        tail.committed(2 * RUN);
        assert_eq!(tail.readable(), 2 * RUN);
    }

    #[test]
    fn what_waits_is_bounded_and_a_single_batch_of_any_size_is_taken() {
        let all = conversation(2);
        let mut tail = Tail::new(0, &StoreOptions::new().waiting_bytes(100));
        assert!(tail.has_room());
        assert_eq!(tail.append(&all[..50]).unwrap(), Urgency::Now);
        assert!(!tail.has_room());
        assert!(matches!(tail.append(&all[50..]), Err(AppendError::Full)));
        assert_eq!(tail.append(&all[..50]).unwrap(), Urgency::None, "nothing is appended");
        assert_eq!(tail.appended, 50);
        tail.committed(50);
        assert!(tail.has_room());
        assert_eq!(tail.append(&all[50..]).unwrap(), Urgency::Now);
    }

    #[test]
    fn what_is_handed_to_the_disk_is_what_waits_in_order() {
        let all = conversation(2);
        let mut tail = Tail::new(0, &StoreOptions::new().recent_bytes(3_000));
        tail.append(&all).unwrap();
        let mut written = Vec::new();
        while let Some(last) = tail.waiting(7, 2_000).last().map(|admitted| admitted.seq) {
            written.extend(tail.waiting(7, 2_000));
            tail.committed(last);
        }
        assert_eq!(written, all);
        assert!(tail.events.len() < 15 && !tail.events.is_empty(), "{}", tail.events.len());
        assert_eq!(tail.waiting, 0);
        assert!(matches!(tail.read(10, 5), Place::Disk(range) if range == (11..16)));
        let first = tail.events.front().unwrap().0.seq;
        assert!(matches!(tail.read(first - 3, 100), Place::Disk(range) if range == (first - 2..first)));
        assert_eq!(numbers(tail.read(first - 1, 2)), [first, first + 1]);
    }
}
