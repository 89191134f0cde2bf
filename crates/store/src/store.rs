//! The store and its sessions' logs.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use anabranch_proto::{Admitted, ErrorInfo, SessionId, Stamp};
use anabranch_session::{AppendError, Batch, EventLog, Forgotten, Limits, LogError, RecoverError, recover};
use futures::{FutureExt as _, channel::oneshot, future::BoxFuture};
use tokio::sync::watch;

use crate::{
    NewRoot, SessionQuery, StoreError, StoreOptions, StoreReader,
    log::{Appended, Log},
    pool::Pool,
    query,
    shared::Shared,
    tail::Place,
    writer::Writer,
};

/// How long the last handle waits for the disk, beyond the time for a lock, when it is dropped.
const DROP_WAIT: Duration = Duration::from_secs(5);

/// A file of sessions, open for writing.
///
/// Cloning shares the handle. A thread of the store's own writes, a few others read; no async runtime is needed.
///
/// The store is open until [`close`](Self::close), or until its last handle and the last [`SessionLog`] are gone. That
/// last one waits until what was appended is on disk, for at most some seconds; in async code `close` waits without
/// keeping a thread.
///
/// ```
/// use anabranch_session::{Batch, EventLog, conformance::conversation};
/// use anabranch_store::{Store, StoreOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sessions.db");
/// let store = Store::open(&path, StoreOptions::new()).await?;
/// let log = store.create("ses_1").await?;
/// let events = conversation(1);
/// log.append(&events)?;
/// store.close().await?;
///
/// // Later, or after a crash.
/// let store = Store::open(&path, StoreOptions::new()).await?;
/// let log = store.log("ses_1").await?;
/// assert_eq!(*log.appended().borrow(), 50);
/// assert_eq!(log.read(0, 64).await?, Batch::Events(events));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    handle: Arc<Handle>,
}

/// A session's log in a [`Store`]. Keeps the store open.
#[derive(Clone)]
pub struct SessionLog {
    log: Arc<Log>,
    handle: Arc<Handle>,
}

/// What all handles share. When it goes, the store is closed.
struct Handle {
    shared: Arc<Shared>,
    reader: StoreReader,
}

impl Store {
    /// Opens a file, makes it where there is none, and brings it to the version of this crate.
    ///
    /// There is one store at a time that writes to a file, in whatever process; a lock on a file beside it, whose name
    /// ends in `-lock`, says so and goes with the process. Others may open the file [to read](StoreReader::open), and any
    /// program that knows SQLite may.
    ///
    /// # Errors
    /// When another store has the file open, when it is of another program or a later version, and when the file cannot
    /// be opened or written.
    ///
    /// # Cancel safety
    /// Where the future is dropped the store is opened and closed again.
    pub async fn open(path: impl Into<PathBuf>, options: StoreOptions) -> Result<Self, StoreError> {
        let path = path.into();
        // Whatever becomes of the process's folder.
        let path = std::path::absolute(&path).map_err(|error| StoreError::cannot_open(&path, error))?;
        let pool = Arc::new(Pool::start(&path, options.lock_wait, options.readers)?);
        let shared = Arc::new(Shared::new(path, options));
        let handle = Handle { reader: StoreReader::of(Arc::clone(&pool)), shared: Arc::clone(&shared) };
        let (opened, is_open) = oneshot::channel();
        let writer = thread::Builder::new().name("anabranch-write".to_owned());
        let writer = writer.spawn(move || {
            let ended = Ended(shared);
            match Writer::open(&ended.0) {
                Ok(writer) => {
                    if opened.send(Ok(())).is_ok() {
                        let written = writer.run(&pool);
                        ended.say(&written);
                    }
                }
                Err(error) => {
                    opened.send(Err(error)).ok();
                }
            }
        });
        if let Err(error) = writer {
            drop(handle.shared.ended(&StoreError::Closed));
            return Err(StoreError::Thread(error.to_string()));
        }
        // Where the future is dropped so is the handle, and the writer ends.
        let failed = |_| Err(StoreError::Thread("the writer panicked while it opened the file".to_owned()));
        is_open.await.unwrap_or_else(failed)?;
        Ok(Self { handle: Arc::new(handle) })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.handle.shared.path
    }

    /// Looks at the store's sessions, as far as they are on disk. The reader does not keep the store open.
    #[must_use]
    pub fn reader(&self) -> StoreReader {
        self.handle.reader.clone()
    }

    /// Makes a root session.
    ///
    /// # Errors
    /// When there is one with this id, when the store is closed, and when it cannot be written.
    ///
    /// # Cancel safety
    /// Where the future is dropped the session may have been made.
    pub async fn create(&self, id: impl Into<SessionId>) -> Result<SessionLog, StoreError> {
        self.make(NewRoot::new(id)).await
    }

    /// Makes a root session that is kept for somebody, such as a tenant: [`SessionQuery::owner`]
    /// finds it.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    ///
    /// # Cancel safety
    /// As that of [`create`](Self::create).
    pub async fn create_for(
        &self,
        owner: impl Into<String>,
        id: impl Into<SessionId>,
    ) -> Result<SessionLog, StoreError> {
        self.make(NewRoot::new(id).owner(owner)).await
    }

    /// Makes a root session with all that an application says of it.
    ///
    /// # Errors
    /// As [`create`](Self::create), and when its owner has another session with its label.
    ///
    /// # Cancel safety
    /// As that of [`create`](Self::create).
    pub async fn make(&self, new: NewRoot) -> Result<SessionLog, StoreError> {
        let log = self.run(move |writer| writer.create(&new)).await?;
        Ok(SessionLog { log, handle: Arc::clone(&self.handle) })
    }

    /// The log of a root session that is there. All that have it share one.
    ///
    /// # Errors
    /// When there is none with this id, when the store is closed, and when it cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn log(&self, id: impl Into<SessionId>) -> Result<SessionLog, StoreError> {
        let id = id.into();
        let log = self.run(move |writer| writer.log(&id)).await?;
        Ok(SessionLog { log, handle: Arc::clone(&self.handle) })
    }

    /// Closes once what was left open when the program that wrote to the file ended: in every session in which something
    /// was running, by [`recover`]. Gives these sessions with the events that were appended; one that cannot be closed does
    /// not keep the others from it.
    ///
    /// For a program that starts; a session that is in use is not to be closed. [`SessionQuery::unfinished`] tells what
    /// there is without closing it.
    ///
    /// # Errors
    /// When the store is closed or cannot be read.
    ///
    /// # Cancel safety
    /// Where the future is dropped some sessions may have been closed, each wholly or not at all.
    pub async fn recover(
        &self,
        stamp: &dyn Stamp,
        why: &ErrorInfo,
    ) -> Result<Vec<(SessionId, Result<Vec<Admitted>, RecoverError>)>, StoreError> {
        let unfinished = self.handle.reader.roots(SessionQuery::new().unfinished()).await?;
        let mut recovered = Vec::new();
        for root in unfinished.into_iter().rev() {
            let log = self.log(root.id.clone()).await?;
            let closed = recover(&log, root.id.clone(), Limits::default(), stamp, why, &mut |_| {}).await;
            recovered.push((root.id, closed.map(|recovered| recovered.closed)));
        }
        Ok(recovered)
    }

    /// Deletes a root session with all below it. Says whether there was one.
    ///
    /// Whoever has its log can neither append to it nor read it any more: [`StoreError::Deleted`]. The file does not
    /// shrink; what was taken is used for other events.
    ///
    /// # Errors
    /// When the store is closed or cannot be written.
    ///
    /// # Cancel safety
    /// Where the future is dropped the session may have been deleted.
    pub async fn delete(&self, id: impl Into<SessionId>) -> Result<bool, StoreError> {
        let id = id.into();
        self.run(move |writer| writer.delete(&id)).await
    }

    /// Forgets now what is beyond the [retention](crate::Retention), in all sessions. Says how many events.
    ///
    /// By itself the store does so when a run ends, and as events become too old.
    ///
    /// # Errors
    /// When the store is closed or cannot be written.
    ///
    /// # Cancel safety
    /// Where the future is dropped it is done all the same.
    pub async fn retain(&self) -> Result<u64, StoreError> {
        self.run(Writer::retain_all).await
    }

    /// Waits until all that was appended so far is durable.
    ///
    /// # Errors
    /// When it cannot be written now. It still waits, and is tried again.
    ///
    /// # Cancel safety
    /// Where the future is dropped it is written all the same.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.run(Writer::write_all).await
    }

    /// Writes what was appended, folds the write-ahead log into the file, and gives the file free.
    ///
    /// Logs that are still held take and give nothing more: [`StoreError::Closed`]. A store that is closed already is.
    ///
    /// # Errors
    /// When something that was appended could not be written: it is lost.
    ///
    /// # Cancel safety
    /// Where the future is dropped the store is closed all the same.
    pub async fn close(&self) -> Result<(), StoreError> {
        let (sender, receiver) = oneshot::channel();
        if self.handle.shared.close(Some(sender)) {
            return Ok(());
        }
        receiver.await.unwrap_or_else(|_| Err(StoreError::Thread("the writer panicked".to_owned())))
    }

    async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        self.handle.shared.command(Box::new(move |writer| {
            // Whoever asked may be gone by now.
            let _ = sender.send(run(writer));
        }))?;
        receiver.await.unwrap_or(Err(StoreError::Closed))
    }
}

impl SessionLog {
    /// The root session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.log.id
    }

    /// What tells this session from another that had or will have its id: made with it, and never changed.
    ///
    /// A cursor for clients is `<epoch>-<number>`.
    #[must_use]
    pub fn epoch(&self) -> &str {
        &self.log.epoch
    }

    /// The spawns of a session's children that are kept and durable, in order. At most `max`, behind number `after`.
    ///
    /// A spawn is stored under its parent (RFC-0014's `spawn_start`), before any event of the child.
    ///
    /// # Errors
    /// When they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn spawn_starts(
        &self,
        parent: &SessionId,
        after: u64,
        max: usize,
    ) -> Result<Vec<Admitted>, StoreError> {
        self.handle.reader.spawn_starts(self.id(), parent, after, max).await
    }

    /// What was forgotten behind a number.
    fn gap(&self, after: u64) -> Option<Batch> {
        let to = self.log.forgotten();
        (after < to).then_some(Batch::Gap { from: after.saturating_add(1), to })
    }

    async fn read_from_disk(&self, after: u64, upto: u64) -> Result<Batch, StoreError> {
        let (root, id) = (self.log.root, self.log.id.clone());
        let pool = self.handle.reader.pool();
        let read = pool.read(move |connection| query::events(connection, (root, &id), after, upto)).await;
        // It may have been forgotten in between.
        self.gap(after).map_or_else(|| read.map(Batch::Events), Ok)
    }
}

impl EventLog for SessionLog {
    fn append(&self, batch: &[Admitted]) -> Result<(), AppendError> {
        let shared = &self.handle.shared;
        match self.log.append(batch, || shared.fault())? {
            Appended::Known => {}
            Appended::Tell(urgency) => shared.tell(&self.log, urgency),
        }
        Ok(())
    }

    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>> {
        async move {
            if let Some(gap) = self.gap(after) {
                return Ok(gap);
            }
            let read = match self.log.read(after, max) {
                Ok(Place::Memory(events)) => Ok(Batch::Events(events)),
                Ok(Place::Disk(range)) => self.read_from_disk(after, range.end - 1).await,
                Err(error) => Err(error),
            };
            read.map_err(LogError::new)
        }
        .boxed()
    }

    fn appended(&self) -> watch::Receiver<u64> {
        self.log.watch_readable()
    }

    fn last(&self) -> u64 {
        self.log.last()
    }

    fn durable(&self) -> watch::Receiver<u64> {
        self.log.watch_durable()
    }

    fn room(&self) -> Option<BoxFuture<'_, ()>> {
        if !self.log.is_full_for_now() {
            return None;
        }
        let mut durable = self.log.watch_durable();
        let room = async move {
            loop {
                durable.mark_unchanged();
                // Not while the watch is borrowed: the writer sends with the log's lock taken. The watch ends with the
                // log, which is held here.
                if !self.log.is_full_for_now() || durable.changed().await.is_err() {
                    return;
                }
            }
        };
        Some(room.boxed())
    }

    fn forgotten(&self) -> BoxFuture<'_, Result<Option<Forgotten>, LogError>> {
        async move {
            if self.log.forgotten() == 0 {
                return Ok(None);
            }
            self.handle.reader.forgotten(self.id()).await.map_err(LogError::new)
        }
        .boxed()
    }
}

/// Says that the writer has ended, however it does.
struct Ended(Arc<Shared>);

impl Ended {
    /// The file is free, and all is written or not.
    fn say(&self, written: &Result<(), StoreError>) {
        if let Err(error) = written {
            let error: &dyn std::error::Error = error;
            tracing::error!(error, "the store was closed and could not write all that was appended");
        }
        let why = written.as_ref().err().cloned().unwrap_or(StoreError::Closed);
        for closer in self.0.ended(&why) {
            // Whoever closed it may be gone by now.
            closer.send(written.clone()).ok();
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // Where the writer panicked or never was. Whoever waits hears it from the channel.
        drop(self.0.ended(&StoreError::Closed));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close(None);
        let limit = self.shared.options.lock_wait.saturating_add(DROP_WAIT);
        if !self.shared.wait_for_end(limit) {
            tracing::error!("the store was dropped while the disk did not answer; what waits may be lost");
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for SessionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLog")
            .field("id", self.id())
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}
