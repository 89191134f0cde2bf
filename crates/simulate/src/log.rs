//! A log that forgets nothing of what it was given, whatever it gives readers.

use std::sync::{Mutex, PoisonError};

use anabranch_proto::{Admitted, EventKind, Scope};
use anabranch_session::{AppendError, Batch, EventLog, LogError, MemoryLog};
use futures::future::BoxFuture;
use tokio::{sync::watch, time::Instant};

/// A log in memory for readers, and all that was appended for the checks.
#[derive(Debug)]
pub(crate) struct RecordingLog {
    inner: MemoryLog,
    all: Mutex<Vec<Admitted>>,
    /// When each was appended, in milliseconds from the start.
    times: Mutex<Vec<u64>>,
    start: Instant,
    /// How many runs of the root have ended.
    ended: watch::Sender<usize>,
}

impl RecordingLog {
    /// A log that gives readers about so many bytes; all where none are stated.
    pub(crate) fn new(retention: Option<usize>) -> Self {
        let inner = retention.map_or_else(MemoryLog::new, MemoryLog::with_retention);
        Self {
            inner,
            all: Mutex::default(),
            times: Mutex::default(),
            start: Instant::now(),
            ended: watch::Sender::new(0),
        }
    }

    /// All that was appended.
    pub(crate) fn all(&self) -> Vec<Admitted> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When each event was appended, in milliseconds from the start.
    pub(crate) fn times(&self) -> Vec<u64> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of the last event.
    pub(crate) fn last(&self) -> u64 {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.last().map_or(0, |admitted| admitted.seq)
    }

    /// How many runs of the root have ended, to be watched.
    pub(crate) fn ended(&self) -> watch::Receiver<usize> {
        self.ended.subscribe()
    }
}

fn is_end(admitted: &Admitted) -> bool {
    admitted.event.scope == Scope::Root && matches!(admitted.event.kind, EventKind::StreamComplete(_))
}

impl EventLog for RecordingLog {
    fn append(&self, batch: &[Admitted]) -> Result<(), AppendError> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(batch);
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.extend(batch.iter().map(|_| now));
        drop(times);
        let appended = self.inner.append(batch);
        let ended = batch.iter().filter(|admitted| is_end(admitted)).count();
        if ended > 0 {
            self.ended.send_modify(|count| *count += ended);
        }
        appended
    }

    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>> {
        self.inner.read(after, max)
    }

    fn appended(&self) -> watch::Receiver<u64> {
        self.inner.appended()
    }
}
