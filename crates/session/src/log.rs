//! Where admitted events are kept.

use std::{error::Error, fmt, sync::Arc};

use anabranch_proto::Admitted;
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
    /// What the log has already is not appended again.
    ///
    /// # Errors
    /// When the log takes no more, or the batch does not follow what it has; nothing of the batch was appended.
    fn append(&self, batch: &[Admitted]) -> Result<(), AppendError>;

    /// The events after number `after`, at most `max`; an empty batch where there are none, and where `max` is 0.
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
    /// # Errors
    /// When there would be a gap.
    pub fn check(last: u64, batch: &[Admitted]) -> Result<&[Admitted], Self> {
        let known = batch.partition_point(|admitted| admitted.seq <= last);
        let fresh = batch.get(known..).unwrap_or_default();
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
