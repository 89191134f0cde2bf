//! What waits for the writer.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::channel::oneshot;

use crate::{StoreError, StoreOptions, log::Log, tail::Urgency, writer::Writer};

/// What a store's handles, its logs and its writer share.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) options: StoreOptions,
    queue: Mutex<Queue>,
    wake: Condvar,
    has_fault: AtomicBool,
}

/// Something that the writer does between two commits.
pub(crate) type Command = Box<dyn FnOnce(&mut Writer) + Send>;

#[derive(Default)]
struct Queue {
    /// The logs of which something waits, by the numbers of their roots.
    dirty: HashMap<i64, Arc<Log>>,
    /// When the first of it is to be written.
    due: Option<Instant>,
    commands: VecDeque<Command>,
    fault: Option<StoreError>,
    state: State,
    /// Those that wait for the end.
    closers: Vec<Closer>,
}

/// Hears whether all was written.
pub(crate) type Closer = oneshot::Sender<Result<(), StoreError>>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    Closing,
    Ended,
}

/// What the writer does next.
pub(crate) enum Next {
    Command(Command),
    Write,
    /// What can wait until there is nothing else.
    Rest,
    Close,
}

impl Shared {
    pub(crate) fn new(path: PathBuf, options: StoreOptions) -> Self {
        Self {
            path,
            options,
            queue: Mutex::default(),
            wake: Condvar::new(),
            has_fault: AtomicBool::new(false),
        }
    }

    /// Something of a log waits.
    pub(crate) fn tell(&self, log: &Arc<Log>, urgency: Urgency) {
        let now = Instant::now();
        let due = if urgency == Urgency::Now { now } else { now + self.options.linger };
        let mut queue = self.lock();
        if queue.state == State::Ended {
            drop(queue);
            log.faulty(&StoreError::Closed);
            return;
        }
        queue.dirty.entry(log.root).or_insert_with(|| Arc::clone(log));
        let is_sooner = queue.due.is_none_or(|known| due < known);
        if is_sooner {
            queue.due = Some(due);
        }
        drop(queue);
        if is_sooner {
            self.wake.notify_one();
        }
    }

    /// Has the writer do something.
    pub(crate) fn command(&self, command: Command) -> Result<(), StoreError> {
        let mut queue = self.lock();
        if queue.state != State::Open {
            return Err(StoreError::Closed);
        }
        queue.commands.push_back(command);
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    /// Has the writer end when it has done what it was told. Says whether it has ended before.
    pub(crate) fn close(&self, closer: Option<Closer>) -> bool {
        let mut queue = self.lock();
        if queue.state == State::Ended {
            return true;
        }
        queue.state = State::Closing;
        queue.closers.extend(closer);
        drop(queue);
        self.wake.notify_all();
        false
    }

    /// The writer has ended, and why what waits is not written, where something does. Gives those that wait for it.
    pub(crate) fn ended(&self, why: &StoreError) -> Vec<Closer> {
        let mut queue = self.lock();
        queue.state = State::Ended;
        let (commands, dirty) = (std::mem::take(&mut queue.commands), std::mem::take(&mut queue.dirty));
        let closers = std::mem::take(&mut queue.closers);
        queue.fault = Some(StoreError::Closed);
        self.has_fault.store(true, Ordering::Release);
        drop(queue);
        drop(commands);
        for log in dirty.into_values() {
            log.faulty(why);
        }
        self.wake.notify_all();
        closers
    }

    /// Waits until the writer has ended, for at most so long.
    pub(crate) fn wait_for_end(&self, limit: Duration) -> bool {
        let queue = self.lock();
        let (queue, _) = self
            .wake
            .wait_timeout_while(queue, limit, |queue| queue.state != State::Ended)
            .unwrap_or_else(PoisonError::into_inner);
        queue.state == State::Ended
    }

    /// Why nothing is written now.
    pub(crate) fn fault(&self) -> Option<StoreError> {
        if !self.has_fault.load(Ordering::Acquire) {
            return None;
        }
        self.lock().fault.clone()
    }

    /// Nothing is written until the fault has passed.
    pub(crate) fn set_fault(&self, fault: &StoreError) {
        let mut queue = self.lock();
        queue.fault = Some(fault.clone());
        self.has_fault.store(true, Ordering::Release);
    }

    /// Something was written. Says whether a fault has passed by it.
    pub(crate) fn clear_fault(&self) -> bool {
        if !self.has_fault.load(Ordering::Acquire) {
            return false;
        }
        let mut queue = self.lock();
        self.has_fault.store(false, Ordering::Release);
        queue.fault.take().is_some()
    }

    /// The logs of which something waits.
    pub(crate) fn take_dirty(&self) -> Vec<Arc<Log>> {
        let mut queue = self.lock();
        queue.due = None;
        queue.dirty.drain().map(|(_, log)| log).collect()
    }

    /// A log is not written to any more.
    pub(crate) fn forget(&self, root: i64) {
        self.lock().dirty.remove(&root);
    }

    /// What was taken waits again, until then.
    pub(crate) fn put_back(&self, logs: impl IntoIterator<Item = Arc<Log>>, due: Instant) {
        let mut queue = self.lock();
        for log in logs {
            queue.dirty.entry(log.root).or_insert(log);
        }
        if !queue.dirty.is_empty() && queue.due.is_none_or(|known| due < known) {
            queue.due = Some(due);
        }
    }

    /// What there is to do, once there is something. Nothing is written before `not_before`; `rest` is when there is
    /// something to be done at rest.
    pub(crate) fn next(&self, not_before: Option<Instant>, rest: Option<Instant>) -> Next {
        let mut queue = self.lock();
        loop {
            if let Some(command) = queue.commands.pop_front() {
                return Next::Command(command);
            }
            if queue.state != State::Open {
                return Next::Close;
            }
            let now = Instant::now();
            let due = queue.due.filter(|_| !queue.dirty.is_empty());
            let due = due.map(|due| not_before.map_or(due, |not_before| due.max(not_before)));
            if due.is_some_and(|due| due <= now) {
                return Next::Write;
            }
            if rest.is_some_and(|rest| rest <= now) {
                return Next::Rest;
            }
            let until = due.into_iter().chain(rest).min();
            queue = match until {
                Some(until) => {
                    self.wake.wait_timeout(queue, until - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // What is kept is whole after each step.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.path).finish_non_exhaustive()
    }
}
