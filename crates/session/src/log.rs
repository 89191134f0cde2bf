//! Where admitted events are kept.

use std::{error::Error, fmt, future, sync::Arc};

use anabranch_proto::{Admitted, EventId, Message};
use futures::future::BoxFuture;
use tokio::sync::watch;

/// A log of one root session's admitted events.
///
/// Readers are cursors: a reader remembers the number of the last event that it had, reads what comes after it, and
/// waits with [`appended`](Self::appended). So the seam between replay and live neither repeats nor skips.
///
/// With the feature `conformance` the module `conformance` has the laws of a log as a suite for implementors.
pub trait EventLog: fmt::Debug + Send + Sync {
    /// Appends events, in order and without gaps in their numbers, the first of which is 1. Never waits.
    ///
    /// What the log has already is not appended again, as far as it can tell that it is the same: of its last events.
    ///
    /// # Errors
    /// When the log takes no more, or the batch does not follow what it has; nothing of the batch was appended.
    fn append(&self, batch: &[Admitted]) -> Result<(), AppendError>;

    /// The events after number `after`: at most `max`, at least one where there are any, none where `max` is 0.
    ///
    /// Never waits for events to come. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the log cannot be read, or when there is nothing after `after` and never will be, because the log has failed.
    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>>;

    /// The number of the last event that can be read, to be watched.
    ///
    /// It is that of the last event appended, but for a log that holds some back until a crash cannot lose them.
    /// Marked as changed without a change where such a log will give no more: [`read`](Self::read) then says why.
    fn appended(&self) -> watch::Receiver<u64>;

    /// The number of the last event appended, which readers may not see yet.
    ///
    /// By default that of the last event that can be read.
    fn last(&self) -> u64 {
        *self.appended().borrow()
    }

    /// The number of the last event that outlives this process, to be watched.
    ///
    /// By default that of the last event that can be read: a log in memory has nothing that is safer.
    fn durable(&self) -> watch::Receiver<u64> {
        self.appended()
    }

    /// Waits until the log has room, where it has none now: more than it may is on its way to a disk.
    ///
    /// Whoever can wait does so before it produces more; [`append`](Self::append) takes somewhat more than there is room
    /// for, and is [full](AppendError::Full) beyond that. Dropping the future changes nothing. By default there is room always.
    fn room(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// What the events that were forgotten came to, from which a session that goes on starts.
    ///
    /// None where nothing was forgotten, and by default: a log may forget without keeping that.
    fn forgotten(&self) -> BoxFuture<'_, Result<Option<Forgotten>, LogError>> {
        Box::pin(future::ready(Ok(None)))
    }
}

/// What the forgotten events of a log came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forgotten {
    /// The number of the last event that was forgotten. Nothing was running behind it.
    pub upto: u64,
    /// The root's conversation up to there.
    pub conversation: Vec<Message>,
}

impl Forgotten {
    /// What events up to a number came to.
    #[must_use]
    pub fn new(upto: u64, conversation: Vec<Message>) -> Self {
        Self { upto, conversation }
    }
}

/// What a read gave.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "either the events are there or they are not")]
pub enum Batch {
    /// Events in order, none where nothing is there yet.
    Events(Vec<Admitted>),
    /// The log was told to forget these. Reading goes on after `to`.
    Gap {
        /// The first number that is missing.
        from: u64,
        /// The last number that is missing.
        to: u64,
    },
}

/// A batch was not appended, nothing of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The log has as much as it may.
    #[error("the event log is full")]
    Full,
    /// The batch does not follow what the log has, or has a gap.
    #[error("an event with number {found} cannot follow that with number {last}: a log has no gaps")]
    Gap {
        /// The number that would be followed.
        last: u64,
        /// The number that came.
        found: u64,
    },
    /// The log has another event with a number of the batch's: two write to it. Or it has had one for so long that it cannot
    /// tell.
    #[error("the log has another event with the number {seq}, or cannot tell: a log has one writer")]
    Conflict {
        /// The number.
        seq: u64,
    },
    /// The log takes no more events.
    #[error("the event log takes no more events")]
    Failed(#[source] Arc<dyn Error + Send + Sync>),
}

impl AppendError {
    /// The log takes no more events, and why.
    pub fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(Arc::from(source.into()))
    }

    /// What of a batch a log does not have yet, whose last event has the number `last`.
    ///
    /// `known` gives the id of the event that the log has under a number; none where it cannot tell any more.
    ///
    /// # Errors
    /// When there would be a gap, or the batch has other events than the log, or none that can be told to be the same.
    pub fn check<'batch, 'log>(
        last: u64,
        batch: &'batch [Admitted],
        known: impl Fn(u64) -> Option<&'log EventId>,
    ) -> Result<&'batch [Admitted], Self> {
        let (again, fresh) = batch.split_at(batch.partition_point(|admitted| admitted.seq <= last));
        for Admitted { seq, event, .. } in again {
            if known(*seq) != Some(&event.id) {
                return Err(Self::Conflict { seq: *seq });
            }
        }
        for (last, admitted) in (last..).zip(fresh) {
            if Some(admitted.seq) != last.checked_add(1) {
                return Err(Self::Gap { last, found: admitted.seq });
            }
        }
        Ok(fresh)
    }
}

/// The log could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the event log could not be read")]
pub struct LogError {
    source: Box<dyn Error + Send + Sync>,
}

impl LogError {
    /// The log could not be read, and why.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: source.into() }
    }
}
