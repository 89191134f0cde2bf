//! Where admitted events are kept.

use std::{error::Error, fmt};

use anabranch_proto::Admitted;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// A log of one root session's admitted events.
///
/// Readers are cursors: a reader remembers the number of the last event that it had, reads what comes after it, and
/// waits with [`appended`](Self::appended). So the seam between replay and live neither repeats nor skips.
pub trait EventLog: fmt::Debug + Send + Sync {
    /// Appends events, in order and without gaps in their numbers. Never waits.
    ///
    /// # Errors
    /// When the log takes no more; nothing of the batch was appended.
    fn append(&self, batch: &[Admitted]) -> Result<(), Full>;

    /// The events after number `after`, at most `max`; an empty batch where there are none.
    ///
    /// Never waits for events to come. Dropping the future loses nothing.
    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>>;

    /// The number of the last event appended, to be watched.
    fn appended(&self) -> watch::Receiver<u64>;
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

/// The log takes no more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event log is full")]
#[non_exhaustive]
pub struct Full;

impl Full {
    /// The log takes no more events.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Default for Full {
    fn default() -> Self {
        Self::new()
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
