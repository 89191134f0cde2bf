//! How a store is opened.

use std::time::Duration;

/// How a store is opened: bounds, and what is promised to readers.
#[derive(Clone, Debug)]
#[must_use]
pub struct StoreOptions {
    pub(crate) barriers: Barriers,
    pub(crate) safety: Safety,
    pub(crate) waiting_bytes: usize,
    pub(crate) recent_bytes: usize,
    pub(crate) linger: Duration,
    pub(crate) lock_wait: Duration,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) readers: usize,
    pub(crate) retention: Retention,
}

/// What a store keeps of each session's events. All by default.
///
/// Runs are forgotten as a whole, the oldest first, and only where nothing was running behind them: what runs can always
/// be closed after a crash. A reader that asks for what was forgotten gets a typed gap. The conversation that the root's
/// next prompt starts from is kept, until the session is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Retention {
    pub(crate) events: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) age: Option<Duration>,
}

impl Retention {
    /// Keep all.
    pub fn all() -> Self {
        Self::default()
    }

    /// How many events of a session to keep; the last run is kept whatever it has.
    pub fn events(mut self, events: u64) -> Self {
        self.events = Some(events);
        self
    }

    /// How many bytes of a session's events to keep, counted as JSON; the last run is kept whatever it has.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// For how long to keep events, in whole seconds: a run is forgotten so long after it and all before it have ended, the
    /// last one too. Looked at when a run ends, when the store is opened, and once in a while.
    pub fn age(mut self, age: Duration) -> Self {
        self.age = Some(age);
        self
    }
}

/// What readers see only when a crash cannot lose it.
///
/// A barrier is a spawn, a terminal, a call's result, a question to a person or another executor, or an answer to one.
/// Whoever sees one acts on it, and has seen what never was if a crash loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "nothing is held, or what is acted on, or everything")]
pub enum Barriers {
    /// Nothing: all is seen at once.
    Open,
    /// Barriers, and what is behind one that waits. Whoever produces never waits for that.
    Held,
    /// Every event: a number that a reader has seen means the same event after any crash, so it is a cursor to give out. What
    /// is no barrier is seen later by the time of a commit, and [`linger`](StoreOptions::linger) at most before that.
    All,
}

/// What an event that is durable outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "SQLite's two that make sense with a write-ahead log")]
pub enum Safety {
    /// A loss of power: each commit waits for the disk (`synchronous = FULL`).
    PowerLoss,
    /// The end of the process, however it ends, but not a loss of power (`synchronous = NORMAL`).
    ProcessEnd,
}

impl StoreOptions {
    /// Barriers are seen at once, what is durable outlives a loss of power, nothing is forgotten; 16 MiB of a session may
    /// wait for the disk.
    pub fn new() -> Self {
        Self {
            barriers: Barriers::Open,
            safety: Safety::PowerLoss,
            waiting_bytes: 16 << 20,
            recent_bytes: 256 << 10,
            linger: Duration::from_millis(5),
            lock_wait: Duration::from_secs(5),
            file_bytes: None,
            readers: 2,
            retention: Retention::all(),
        }
    }

    /// What readers see only when a crash cannot lose it.
    pub fn barriers(mut self, barriers: Barriers) -> Self {
        self.barriers = barriers;
        self
    }

    /// What an event that is durable outlives.
    pub fn safety(mut self, safety: Safety) -> Self {
        self.safety = safety;
        self
    }

    /// About how many bytes of a session's events may wait for the disk, 16 MiB by default.
    ///
    /// Beyond it a session's driver waits for room; beyond four times as much the log is full, and the session ends.
    pub fn waiting_bytes(mut self, bytes: usize) -> Self {
        self.waiting_bytes = bytes;
        self
    }

    /// About how many bytes of a session's last events stay in memory once they are on disk, 256 KiB by default. Readers
    /// that keep up read these.
    pub fn recent_bytes(mut self, bytes: usize) -> Self {
        self.recent_bytes = bytes;
        self
    }

    /// For how long an event may wait for others to be committed with it, 5 ms by default. A barrier does not wait, nor
    /// do 256 KiB of a session's events.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// For how long the store waits at a time where another program has the database locked, 5 s by default.
    ///
    /// Appended events wait as long as there is room for them; opening, flushing and closing fail after such a wait.
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// How many bytes the database file may have, in whole pages; the write-ahead log comes on top. No bound by default.
    pub fn file_bytes(mut self, bytes: u64) -> Self {
        self.file_bytes = Some(bytes);
        self
    }

    /// What is kept of each session's events.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// How many threads read, 2 by default and at least 1.
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.max(1);
        self
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self::new()
    }
}
