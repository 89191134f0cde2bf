//! Looking at a store's sessions.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch_proto::{Admitted, Json, SessionId, SpawnMechanism, Timestamp};
use anabranch_session::{Batch, Forgotten, Status};

use crate::{StoreError, pool::Pool, query};

/// How long a reader of its own waits where the database is locked, which reading needs only while it is being made.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Reads a store's sessions, as far as they are on disk.
///
/// That of [`Store::reader`](crate::Store::reader) gives nothing any more when the store is closed. One of its own, by
/// [`open`](Self::open), reads beside the process that writes and never disturbs it; it has no way to be told of what
/// comes, so it is for looking at sessions and not for following them.
///
/// ```
/// use anabranch_session::{EventLog, conformance::conversation};
/// use anabranch_store::{SessionQuery, Store, StoreOptions, StoreReader};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sessions.db");
/// let store = Store::open(&path, StoreOptions::new()).await?;
/// let log = store.create_for("alice", "ses_root").await?;
/// log.append(&conversation(1))?;
/// store.flush().await?;
///
/// // In another process.
/// let reader = StoreReader::open(&path).await?;
/// let of_alice = reader.roots(SessionQuery::new().owner("alice")).await?;
/// assert_eq!((of_alice[0].id.as_str(), of_alice[0].last), ("ses_root", 50));
/// let tree = reader.sessions("ses_root").await?;
/// assert_eq!(tree[1].name, "reader");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct StoreReader {
    pool: Arc<Pool>,
}

/// Which root sessions are wanted. All by default.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SessionQuery {
    pub(crate) owner: Option<String>,
    pub(crate) before: Option<SessionId>,
    pub(crate) max: Option<usize>,
    pub(crate) unfinished: bool,
    pub(crate) label: Option<String>,
}

impl SessionQuery {
    /// All, the newest first.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those that were made for somebody.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// That which the application calls so.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Those that were made before another: the next page. None where that one is not there.
    pub fn before(mut self, session: impl Into<SessionId>) -> Self {
        self.before = Some(session.into());
        self
    }

    /// At most so many.
    pub fn max(mut self, max: usize) -> Self {
        self.max = Some(max);
        self
    }

    /// Those in which something is running, by what is on disk: after a crash, those that it interrupted.
    pub fn unfinished(mut self) -> Self {
        self.unfinished = true;
        self
    }
}

/// A root session, as it is on disk.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredRoot {
    /// The session.
    pub id: SessionId,
    /// What tells it from another of that id.
    pub epoch: String,
    /// For whom it is kept.
    pub owner: Option<String>,
    /// The name of its agent; empty before its first reply.
    pub name: String,
    /// How its own last run is doing.
    pub status: Status,
    /// Whether it or a session below it has a run without an end.
    pub is_unfinished: bool,
    /// The number of the last event that was forgotten; 0 where none was.
    pub forgotten: u64,
    /// The number of the last event; 0 where it has had none.
    pub last: u64,
    /// The bytes of the events that are kept, as JSON.
    pub bytes: u64,
    /// When its last run began.
    pub started_at: Option<Timestamp>,
    /// When its last run ended.
    pub ended_at: Option<Timestamp>,
    /// When it was made; of one of an earlier version's file when its first event happened, if that was known.
    pub created_at: Option<Timestamp>,
    /// What the application calls it.
    pub label: Option<String>,
    /// Whether it is known what it [was made of](StoreReader::origin).
    pub has_origin: bool,
}

/// A session of a tree, as it is on disk.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredSession {
    /// The session.
    pub id: SessionId,
    /// The session that spawned its last run; none for the root.
    pub parent: Option<SessionId>,
    /// How deep it lies: 0 for the root.
    pub depth: u32,
    /// The name of the agent or team.
    pub name: String,
    /// What created its last run; none for the root.
    pub mechanism: Option<SpawnMechanism>,
    /// What it is to do, for people; empty for the root.
    pub task: String,
    /// How its last run is doing.
    pub status: Status,
    /// The number of its last run; 0 before the root's first.
    pub runs: u32,
    /// When its last run began.
    pub started_at: Option<Timestamp>,
    /// When its last run ended.
    pub ended_at: Option<Timestamp>,
}

impl StoreReader {
    /// Opens a file to read only.
    ///
    /// # Errors
    /// When it is not there, is no store of events, or has another version than this crate's.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let path = std::path::absolute(&path).map_err(|error| StoreError::cannot_open(&path, error))?;
        let reader = Self::of(Arc::new(Pool::start(&path, LOCK_WAIT, 1)?));
        // What is wrong with the file is said now.
        reader.pool.read(|_| Ok(())).await?;
        Ok(reader)
    }

    pub(crate) fn of(pool: Arc<Pool>) -> Self {
        Self { pool }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Root sessions, the newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn roots(&self, query: SessionQuery) -> Result<Vec<StoredRoot>, StoreError> {
        self.pool.read(move |connection| query::roots(connection, &query)).await
    }

    /// One root session.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn root(&self, root: impl Into<SessionId>) -> Result<StoredRoot, StoreError> {
        let root = root.into();
        self.pool.read(move |connection| query::root(connection, &root)).await
    }

    /// What a root session [was made of](crate::NewRoot::origin).
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn origin(&self, root: impl Into<SessionId>) -> Result<Option<Json>, StoreError> {
        let root = root.into();
        self.pool.read(move |connection| query::origin(connection, &root)).await
    }

    /// The sessions of a root's tree, the root first, in the order in which they became known: parents before their
    /// children.
    ///
    /// # Errors
    /// When the root is not there, or they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn sessions(&self, root: impl Into<SessionId>) -> Result<Vec<StoredSession>, StoreError> {
        let root = root.into();
        self.pool.read(move |connection| query::sessions(connection, &root)).await
    }

    /// A root session's events after number `after`: at most `max` and about 4 MiB, and at least one where there are any.
    ///
    /// # Errors
    /// When the root is not there, or they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn events(
        &self,
        root: impl Into<SessionId>,
        after: u64,
        max: usize,
    ) -> Result<Batch, StoreError> {
        let root = root.into();
        let read = self.pool.read(move |connection| {
            // One look at the file: nothing is forgotten in between.
            let look = connection.transaction()?;
            let (number, last, forgotten) = query::place(&look, &root)?;
            if after < forgotten {
                return Ok(Batch::Gap { from: after + 1, to: forgotten });
            }
            let upto = last.min(after.saturating_add(u64::try_from(max).unwrap_or(u64::MAX)));
            if upto <= after {
                return Ok(Batch::Events(Vec::new()));
            }
            query::events(&look, (number, &root), after, upto).map(Batch::Events)
        });
        read.await
    }

    /// The spawns of a session's children that are kept, in order. At most `max`, behind number `after`.
    ///
    /// A spawn is stored under its parent (RFC-0014's `spawn_start`), before any event of the child.
    ///
    /// # Errors
    /// When they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn spawn_starts(
        &self,
        root: &SessionId,
        parent: &SessionId,
        after: u64,
        max: usize,
    ) -> Result<Vec<Admitted>, StoreError> {
        let (root, parent) = (root.clone(), parent.clone());
        let read = move |connection: &mut _| query::spawn_starts(connection, &root, &parent, after, max);
        self.pool.read(read).await
    }

    /// What a root session's forgotten events came to; none where nothing was forgotten.
    ///
    /// # Errors
    /// When it cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn forgotten(&self, root: &SessionId) -> Result<Option<Forgotten>, StoreError> {
        let root = root.clone();
        self.pool.read(move |connection| query::forgotten(connection, &root)).await
    }

    /// Looks for damage: in the file, and for holes in the numbers of events. Gives what is wrong, for people; up to some
    /// hundreds of faults.
    ///
    /// Reads the whole file.
    ///
    /// # Errors
    /// When the file cannot be read at all.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        self.pool.read(|connection| query::check(connection)).await
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.pool.path()
    }
}
