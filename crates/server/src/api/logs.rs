//! Where sessions' events are kept.

use std::{fmt, sync::Arc};

use anabranch_proto::SessionId;
use anabranch_session::{EventLog, LogError, MemoryLog};
use futures::{FutureExt as _, future, future::BoxFuture};

use super::{Epoch, NewSession};

/// The log of one session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenLog {
    /// The log. It has no events yet.
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

/// Brings the logs of sessions: in memory, or wherever they outlive the process.
pub trait SessionLogs: fmt::Debug + Send + Sync {
    /// The log of a session that begins.
    ///
    /// # Errors
    /// When there is none to be had; the session does not begin then, and its client is told to try again.
    fn open<'a>(&'a self, new: &'a NewSession) -> BoxFuture<'a, Result<OpenLog, LogError>>;

    /// The session was deleted and has ended: its events may be forgotten. By default nothing.
    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let _ = session;
        future::ready(()).boxed()
    }
}

/// Logs in memory. They end with the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryLogs {
    /// How many bytes each keeps.
    pub(super) retention: usize,
}

impl SessionLogs for MemoryLogs {
    fn open<'a>(&'a self, _new: &'a NewSession) -> BoxFuture<'a, Result<OpenLog, LogError>> {
        let log = Arc::new(MemoryLog::with_retention(self.retention));
        future::ready(Ok(OpenLog::new(log, Epoch::random()))).boxed()
    }
}
