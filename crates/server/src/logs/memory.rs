//! Logs in memory, which end with the server.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use anabranch_proto::{Stamp as _, Timestamp};
use anabranch_runtime::SystemStamp;
use anabranch_session::{LogError, MemoryLog};
use futures::{FutureExt as _, future, future::BoxFuture};
use tokio::time::{Instant, sleep_until};

use super::{NewSession, OpenLog, SessionLogs};
use crate::Epoch;

/// How often it is looked for what is too old, at most and at least.
const LOOKS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// Logs in memory. They end with the server.
///
/// Each forgets its first events where it would have more than it may; a reader that asks for them is told of a gap. The
/// conversation goes on whatever was forgotten.
#[derive(Clone)]
pub struct MemoryLogs {
    bytes: usize,
    events: usize,
    age: Option<Duration>,
    /// The logs that there are, and whether somebody looks for what is too old in them.
    open: Arc<Mutex<Vec<Weak<MemoryLog>>>>,
}

impl MemoryLogs {
    /// Logs that keep about so many bytes of a session's events.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes, events: usize::MAX, age: None, open: Arc::default() }
    }

    /// How many events of a session are kept at most; at least the last.
    #[must_use]
    pub fn events(mut self, events: usize) -> Self {
        self.events = events;
        self
    }

    /// For how long events are kept, but for a session's last.
    #[must_use]
    pub fn age(mut self, age: Duration) -> Self {
        self.age = Some(age);
        self
    }

    /// A log, in which somebody looks for what is too old.
    fn make(&self) -> Arc<MemoryLog> {
        let log = Arc::new(MemoryLog::with_retention(self.bytes).keep_events(self.events));
        let Some(age) = self.age else { return log };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(Arc::downgrade(&log));
        if open.len() == 1 {
            tokio::spawn(forget(Arc::clone(&self.open), age));
        }
        log
    }
}

/// Forgets what is too old, for as long as there are logs.
async fn forget(open: Arc<Mutex<Vec<Weak<MemoryLog>>>>, age: Duration) {
    let every = (age / 10).clamp(LOOKS[0], LOOKS[1]);
    let stamp = SystemStamp::new();
    loop {
        sleep_until(Instant::now() + every).await;
        let before = earlier(stamp.now(), age);
        let mut logs = open.lock().unwrap_or_else(PoisonError::into_inner);
        logs.retain(|log| log.upgrade().map(|log| log.forget_before(before)).is_some());
        if logs.is_empty() {
            return;
        }
    }
}

fn earlier(now: Timestamp, age: Duration) -> Timestamp {
    let millis = now.unix_millis().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    Timestamp::from_unix(
        millis.div_euclid(1_000),
        u32::try_from(millis.rem_euclid(1_000)).unwrap_or(0) * 1_000_000,
    )
}

impl SessionLogs for MemoryLogs {
    fn open<'a>(&'a self, _new: &'a NewSession) -> BoxFuture<'a, Result<OpenLog, LogError>> {
        future::ready(Ok(OpenLog::new(self.make(), Epoch::random()))).boxed()
    }
}

impl fmt::Debug for MemoryLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLogs")
            .field("bytes", &self.bytes)
            .field("events", &self.events)
            .field("age", &self.age)
            .finish_non_exhaustive()
    }
}
