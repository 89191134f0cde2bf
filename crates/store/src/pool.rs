//! The threads that read.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use futures::channel::oneshot;
use rusqlite::Connection;

use crate::{StoreError, schema};

/// Threads with a connection each, which take jobs in turn.
pub(crate) struct Pool {
    path: PathBuf,
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Something to be read. Given the connection, or why there is none.
type Job = Box<dyn FnOnce(Result<&mut Connection, StoreError>) + Send>;

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Pool {
    /// Starts so many threads.
    pub(crate) fn start(path: &Path, lock_wait: Duration, threads: usize) -> Result<Self, StoreError> {
        let pool = Self { path: path.to_owned(), queue: Arc::default(), threads: Mutex::default() };
        for number in 1..=threads.max(1) {
            let (queue, path) = (Arc::clone(&pool.queue), path.to_owned());
            let thread = thread::Builder::new().name(format!("anabranch-read-{number}"));
            let thread = thread.spawn(move || run(&queue, path, lock_wait));
            let thread = thread.map_err(|error| StoreError::Thread(error.to_string()))?;
            pool.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(pool)
    }

    /// Reads something on one of the threads. A job whose future is gone when its turn comes is not run.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            if !sender.is_canceled() {
                // Whoever asked may be gone by now.
                let _ = sender.send(connection.and_then(job));
            }
        });
        {
            let mut state = self.queue.lock();
            if state.is_closed {
                return Err(StoreError::Closed);
            }
            state.jobs.push_back(job);
        }
        self.queue.wake.notify_one();
        receiver.await.unwrap_or_else(|_| Err(StoreError::Thread("a reading thread panicked".to_owned())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads nothing more, and waits for what is being read.
    pub(crate) fn close(&self) {
        let mut state = self.queue.lock();
        state.is_closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        self.queue.wake.notify_all();
        for job in jobs {
            job(Err(StoreError::Closed));
        }
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            thread.join().ok();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the thread's own")]
fn run(queue: &Queue, path: PathBuf, lock_wait: Duration) {
    let mut connection = None;
    while let Some(job) = queue.next() {
        let opened = match connection.take() {
            Some(connection) => Ok(connection),
            // Also after a panic, which may have left a transaction open.
            None => schema::open_reader(&path, lock_wait),
        };
        let ran = catch_unwind(AssertUnwindSafe(|| match opened {
            Ok(mut opened) => {
                job(Ok(&mut opened));
                Some(opened)
            }
            Err(error) => {
                job(Err(error));
                None
            }
        }));
        connection = ran.unwrap_or_else(|_| {
            tracing::error!("a read of the store panicked");
            None
        });
    }
}
