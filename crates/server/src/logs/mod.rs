//! Where sessions' events are kept.

mod memory;
mod store;

pub use memory::MemoryLogs;
pub use store::StoreLogs;

use std::{fmt, sync::Arc};

use anabranch_proto::{Json, SessionId, Timestamp};
use anabranch_session::{EventLog, LogError};
use futures::{FutureExt as _, future, future::BoxFuture};

use crate::{Epoch, Tenant};

/// What a session that is asked for is to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewSession {
    /// The session's id.
    pub id: SessionId,
    /// Whose it will be.
    pub tenant: Tenant,
    /// What its client wants of the agent: a JSON object, whose meaning is the application's. Of a thread of AG-UI its first
    /// input.
    pub options: Option<Json>,
    /// The thread of AG-UI that it is, as its client calls it; none for a session of `/sessions`.
    pub thread: Option<String>,
    /// When it is asked for.
    pub created_at: Timestamp,
}

/// The log of one session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenLog {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// What its numbers belong to.
    pub epoch: Epoch,
}

impl OpenLog {
    /// A log whose numbers belong to an epoch.
    #[must_use]
    pub fn new(log: Arc<dyn EventLog>, epoch: Epoch) -> Self {
        Self { log, epoch }
    }
}

/// A session that is kept while nobody has it open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptSession {
    /// The session's id.
    pub id: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What the numbers of its events belong to.
    pub epoch: Epoch,
    /// The number of its last event.
    pub last: u64,
    /// When it was created.
    pub created_at: Timestamp,
}

impl KeptSession {
    /// A session that is kept.
    #[must_use]
    pub fn new(id: SessionId, tenant: Tenant, epoch: Epoch, last: u64, created_at: Timestamp) -> Self {
        Self { id, tenant, epoch, last, created_at }
    }
}

/// Brings the logs of sessions: in memory, or wherever they outlive the process.
///
/// Those that outlive it are given again after it, and are closed and opened again meanwhile as the server has room; they keep
/// with each session what it was made of. A number that a client has seen has to mean the same event then, whatever became of
/// the process: readers of such a log are to see what a crash cannot lose.
pub trait SessionLogs: fmt::Debug + Send + Sync {
    /// The log of a session that begins. It has no events.
    ///
    /// # Errors
    /// When there is none to be had; the session does not begin then, and its client is told to try again.
    fn open<'a>(&'a self, new: &'a NewSession) -> BoxFuture<'a, Result<OpenLog, LogError>>;

    /// The session was deleted and has ended: its events may be forgotten. By default nothing.
    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let _ = session;
        future::ready(()).boxed()
    }

    /// Whether sessions outlive the process, and can be [opened again](Self::reopen). By default they do not.
    fn outlive(&self) -> bool {
        false
    }

    /// The sessions of `/sessions` that are there when a server begins. Whatever was running in sessions and threads is closed
    /// first, once. Asked once, before the first request is served. By default none.
    ///
    /// # Errors
    /// When that cannot be told; the server does not begin then.
    fn kept(&self) -> BoxFuture<'_, Result<Vec<KeptSession>, LogError>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    /// The log of a session that nobody has open now, with what it was made of; none where there is no such session, and by
    /// default.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn reopen<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<(NewSession, OpenLog)>, LogError>> {
        let _ = session;
        future::ready(Ok(None)).boxed()
    }

    /// The session that is a tenant's thread of AG-UI, where one is kept. By default none.
    ///
    /// # Errors
    /// When that cannot be told.
    fn thread<'a>(
        &'a self,
        tenant: &'a Tenant,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<SessionId>, LogError>> {
        let _ = (tenant, thread);
        future::ready(Ok(None)).boxed()
    }
}
