//! How much one session may do at once and in total.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::SpawnError;

/// How much one session may do at once and in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How deep a child may lie: 1 allows children of the root and refuses theirs; 0 refuses all. 5 by default, 32 at
    /// most: children are polled inside their parents, and a thread's stack is finite.
    pub max_depth: u32,
    /// How many children may run at once. 64 by default.
    pub max_running: usize,
    /// How many children may be spawned in total. 10,000 by default.
    pub max_spawned: usize,
    /// How many model calls one reply may make. 50 by default.
    pub max_iterations: u32,
    /// How many bytes of content one tool call may give. 16 MiB by default.
    pub tool_output: usize,
    /// How many bytes one model call may give. 16 MiB by default.
    pub model_output: usize,
    /// How long one model call may take; the run then ends as timed out. 10 minutes by default.
    pub model_call: Duration,
    /// How long a question to a person, or to another executor, waits for its answer. 1 hour by default.
    pub request: Duration,
    /// How many bytes a lossless reader may be behind before it holds producers back. 1 MiB by default.
    pub reader_window: usize,
    /// How long a lossless reader may hold producers back at a time: then they go on until it has caught up. 30 seconds by
    /// default.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_depth: 5,
            max_running: 64,
            max_spawned: 10_000,
            max_iterations: 50,
            tool_output: anabranch_pipeline::DEFAULT_OUTPUT_LIMIT,
            model_output: 16 * 1024 * 1024,
            model_call: Duration::from_secs(600),
            request: Duration::from_secs(3_600),
            reader_window: 1024 * 1024,
            stall: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// How deep a child may lie.
    #[must_use]
    pub fn max_depth(mut self, max_depth: u32) -> Self {
        self.max_depth = max_depth;
        self
    }

    /// How many children may run at once.
    #[must_use]
    pub fn max_running(mut self, max_running: usize) -> Self {
        self.max_running = max_running;
        self
    }

    /// How many children may be spawned in total.
    #[must_use]
    pub fn max_spawned(mut self, max_spawned: usize) -> Self {
        self.max_spawned = max_spawned;
        self
    }

    /// How many model calls one reply may make.
    #[must_use]
    pub fn max_iterations(mut self, max_iterations: u32) -> Self {
        self.max_iterations = max_iterations;
        self
    }

    /// How many bytes of content one tool call may give.
    #[must_use]
    pub fn tool_output(mut self, bytes: usize) -> Self {
        self.tool_output = bytes;
        self
    }

    /// How many bytes one model call may give. With more the run ends as failed, keeping what came.
    #[must_use]
    pub fn model_output(mut self, bytes: usize) -> Self {
        self.model_output = bytes;
        self
    }

    /// How long one model call may take.
    #[must_use]
    pub fn model_call(mut self, model_call: Duration) -> Self {
        self.model_call = model_call;
        self
    }

    /// How long a question to a person, or to another executor, waits for its answer.
    #[must_use]
    pub fn request(mut self, request: Duration) -> Self {
        self.request = request;
        self
    }

    /// How many bytes a lossless reader may be behind before it holds producers back.
    #[must_use]
    pub fn reader_window(mut self, bytes: usize) -> Self {
        self.reader_window = bytes;
        self
    }

    /// After how many bytes the driver waits for readers: several times within a window, and not with each event.
    pub(crate) fn bytes_per_turn(&self) -> usize {
        (self.reader_window / 4).clamp(4 * 1024, 256 * 1024)
    }

    /// How long a lossless reader may hold producers back.
    #[must_use]
    pub fn stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }
}

/// The deepest that any limit allows.
const MAX_DEPTH: u32 = 32;

/// The places for children of one root session.
#[derive(Debug)]
pub(crate) struct Slots {
    limits: Limits,
    running: AtomicUsize,
    spawned: AtomicUsize,
    /// How many children the session's tree has; those that came by no spawn of ours count too.
    in_tree: AtomicUsize,
    is_stopping: AtomicBool,
}

impl Slots {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            running: AtomicUsize::new(0),
            spawned: AtomicUsize::new(0),
            in_tree: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
        })
    }

    /// Takes a place for a child at `depth`, before anything of it exists. Dropping the slot frees it, on every way out.
    pub(crate) fn reserve(self: &Arc<Self>, depth: u32) -> Result<Slot, SpawnError> {
        let Limits { max_running, max_spawned, .. } = self.limits;
        let max_depth = self.max_depth();
        if self.is_stopping.load(Ordering::Acquire) {
            return Err(SpawnError::Stopping);
        }
        if depth > max_depth {
            return Err(SpawnError::TooDeep { depth, limit: max_depth });
        }
        if !take(&self.running, max_running) {
            return Err(SpawnError::TooManyRunning { limit: max_running });
        }
        let slot = Slot(Arc::clone(self));
        let in_tree = self.in_tree.load(Ordering::Acquire);
        if in_tree >= max_spawned || !take(&self.spawned, max_spawned) {
            return Err(SpawnError::TooManySpawned { limit: max_spawned });
        }
        Ok(slot)
    }

    /// Counts a child that runs already, whatever the limits. It came from elsewhere, where they were told.
    pub(crate) fn count(self: &Arc<Self>) -> Slot {
        self.running.fetch_add(1, Ordering::AcqRel);
        self.spawned.fetch_add(1, Ordering::AcqRel);
        Slot(Arc::clone(self))
    }

    /// How deep a child may lie.
    pub(crate) fn max_depth(&self) -> u32 {
        self.limits.max_depth.min(MAX_DEPTH)
    }

    /// How many children may still be spawned.
    pub(crate) fn left(&self) -> usize {
        let spawned = self.spawned.load(Ordering::Acquire).max(self.in_tree.load(Ordering::Acquire));
        self.limits.max_spawned.saturating_sub(spawned)
    }

    /// Refuses every spawn from now on, or no longer.
    pub(crate) fn set_stopping(&self, is_stopping: bool) {
        self.is_stopping.store(is_stopping, Ordering::Release);
    }

    /// Takes note of how many children the session's tree has.
    pub(crate) fn note_tree(&self, children: usize) {
        self.in_tree.store(children, Ordering::Release);
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }
}

/// Counts one more, unless there are as many as may be.
fn take(count: &AtomicUsize, limit: usize) -> bool {
    count
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| (count < limit).then_some(count + 1))
        .is_ok()
}

/// A child's place. Freed when dropped.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_allows_its_number_and_refuses_the_next() {
        let slots = Slots::new(Limits::default().max_depth(1).max_running(1).max_spawned(2));
        let first = slots.reserve(1).unwrap();
        assert_eq!(slots.reserve(2).unwrap_err(), SpawnError::TooDeep { depth: 2, limit: 1 });
        assert_eq!(slots.reserve(1).unwrap_err(), SpawnError::TooManyRunning { limit: 1 });
        drop(first);
        drop(slots.reserve(1).unwrap());
        assert_eq!(slots.reserve(1).unwrap_err(), SpawnError::TooManySpawned { limit: 2 });
        assert_eq!(slots.running(), 0, "a refused spawn leaves no slot taken");
    }

    #[test]
    fn nothing_is_spawned_while_stopping() {
        let slots = Slots::new(Limits::default());
        slots.set_stopping(true);
        assert_eq!(slots.reserve(1).unwrap_err(), SpawnError::Stopping);
        slots.set_stopping(false);
        assert!(slots.reserve(1).is_ok());
    }

    #[test]
    fn a_limit_of_nought_refuses_all() {
        for limits in [
            Limits::default().max_depth(0),
            Limits::default().max_running(0),
            Limits::default().max_spawned(0),
        ] {
            assert!(Slots::new(limits).reserve(1).is_err());
        }
    }
}
