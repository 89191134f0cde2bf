//! Logs in a file, which outlive the server.

use std::sync::Arc;

use anabranch_proto::{ErrorInfo, ErrorType, Json, SessionId, Timestamp};
use anabranch_runtime::SystemStamp;
use anabranch_session::{Limits, LogError, recover};
use anabranch_store::{Barriers, NewRoot, SessionQuery, Store, StoreError, StoreOptions, StoredRoot};
use futures::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};

use super::{KeptSession, NewSession, OpenLog, SessionLogs};
use crate::{Epoch, Tenant};

/// Why what ran under another server has ended.
const REASON: &str = "the server was restarted while this ran";

/// How many threads of AG-UI a tenant has in the file by default.
const THREADS: usize = 1_000;

/// Sessions and threads in a [`Store`], from which the next server goes on.
///
/// ```no_run
/// use anabranch_server::StoreLogs;
/// use anabranch_store::Store;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("sessions.db", StoreLogs::options()).await?;
/// let logs = StoreLogs::new(store.clone());
/// // Give them to a `Server`, serve, and then:
/// store.close().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct StoreLogs {
    store: Store,
    threads: usize,
}

/// What a session of the server's was made of, as the store keeps it. Others' sessions in the file have none that can be
/// read so, and are left alone.
#[derive(Debug, Serialize, Deserialize)]
struct Origin {
    /// The version of this.
    server: u32,
    options: Option<Json>,
}

impl StoreLogs {
    /// Sessions in a store that was opened with [these options](Self::options), for one server. Other sessions that the store
    /// has are left alone.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, threads: THREADS }
    }

    /// Options of a store for a server: readers see what a crash cannot lose, so that every cursor is good after one.
    pub fn options() -> StoreOptions {
        StoreOptions::new().barriers(Barriers::All)
    }

    /// How many threads of AG-UI a tenant has in the file, 1,000 by default and at least 1. One more takes the place of the one
    /// that was idle for longest.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    async fn open(&self, new: &NewSession) -> Result<OpenLog, LogError> {
        let origin = Json::new(&Origin { server: 1, options: new.options.clone() }).map_err(LogError::new)?;
        let root = NewRoot::new(&new.id).owner(new.tenant.as_str()).origin(origin).created_at(new.created_at);
        let root = match &new.thread {
            Some(thread) => {
                self.make_room(&new.tenant).await.map_err(LogError::new)?;
                root.label(thread)
            }
            None => root,
        };
        let log = self.store.make(root).await.map_err(LogError::new)?;
        open_log(log)
    }

    /// Forgets threads where the tenant has as many as it may.
    async fn make_room(&self, tenant: &Tenant) -> Result<(), StoreError> {
        let mut threads = self.store.reader().roots(SessionQuery::new().owner(tenant.as_str())).await?;
        threads.retain(|root| root.has_origin && root.label.is_some());
        let Some(too_many) = (threads.len() + 1).checked_sub(self.threads).filter(|count| *count > 0) else {
            return Ok(());
        };
        let last_used = |root: &StoredRoot| {
            root.started_at.or(root.created_at).map(|at| (at.unix_seconds(), at.subsec_nanos()))
        };
        threads.sort_by_key(last_used);
        for root in threads.into_iter().take(too_many) {
            tracing::info!(session = %root.id, %tenant, "a thread is forgotten for a new one");
            self.store.delete(root.id).await?;
        }
        Ok(())
    }

    async fn close_what_ran(&self) -> Result<(), StoreError> {
        let why = ErrorInfo::new(ErrorType::other("restart"), REASON);
        let stamp = SystemStamp::new();
        let (mut sessions, mut events) = (0_u64, 0);
        for root in self.store.reader().roots(SessionQuery::new().unfinished()).await? {
            if !self.is_ours(&root).await? {
                continue;
            }
            let log = self.store.log(&root.id).await?;
            match recover(&log, root.id.clone(), Limits::default(), &stamp, &why, &mut |_| {}).await {
                Ok(recovered) => {
                    sessions += 1;
                    events += recovered.closed.len();
                }
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(session = %root.id, error, "what was running in a session cannot be closed");
                }
            }
        }
        if sessions > 0 {
            // Whoever asks is told of ends that are there to stay.
            self.store.flush().await?;
            tracing::info!(sessions, events, "closed what the server before left running");
        }
        Ok(())
    }

    /// Whether a server made the session.
    async fn is_ours(&self, root: &StoredRoot) -> Result<bool, StoreError> {
        if !root.has_origin {
            return Ok(false);
        }
        let origin = self.store.reader().origin(&root.id).await?;
        Ok(origin.is_some_and(|origin| origin.to::<Origin>().is_ok()))
    }

    async fn kept(&self) -> Result<Vec<KeptSession>, StoreError> {
        self.close_what_ran().await?;
        let roots = self.store.reader().roots(SessionQuery::new()).await?;
        Ok(roots
            .into_iter()
            .filter(|root| root.has_origin && root.label.is_none())
            .filter_map(kept)
            .collect())
    }

    async fn reopen(&self, id: &SessionId) -> Result<Option<(NewSession, OpenLog)>, LogError> {
        let read = async {
            let reader = self.store.reader();
            Ok((reader.root(id).await?, reader.origin(id).await?, self.store.log(id).await?))
        };
        let (root, origin, log) = match read.await {
            Ok(read) => read,
            Err(StoreError::NoSession { .. }) => return Ok(None),
            Err(error) => return Err(LogError::new(error)),
        };
        let Some(origin) = origin else { return Ok(None) };
        let Origin { options, .. } = origin.to().map_err(LogError::new)?;
        let tenant = root.owner.as_deref().map(Tenant::new).transpose().map_err(LogError::new)?;
        let new = NewSession {
            id: id.clone(),
            tenant: tenant.unwrap_or_default(),
            options,
            thread: root.label,
            created_at: root.created_at.unwrap_or_else(unknown_time),
        };
        Ok(Some((new, open_log(log)?)))
    }

    async fn find(&self, tenant: &Tenant, thread: &str) -> Result<Option<SessionId>, StoreError> {
        let wanted = SessionQuery::new().owner(tenant.as_str()).label(thread).max(1);
        let found = self.store.reader().roots(wanted).await?;
        Ok(found.into_iter().find(|root| root.has_origin).map(|root| root.id))
    }
}

fn open_log(log: anabranch_store::SessionLog) -> Result<OpenLog, LogError> {
    let epoch = Epoch::new(log.epoch()).map_err(LogError::new)?;
    Ok(OpenLog::new(Arc::new(log), epoch))
}

fn kept(root: StoredRoot) -> Option<KeptSession> {
    let tenant = Tenant::new(root.owner?).ok()?;
    let epoch = Epoch::new(root.epoch).ok()?;
    let created_at = root.created_at.unwrap_or_else(unknown_time);
    Some(KeptSession::new(root.id, tenant, epoch, root.last, created_at))
}

/// The store says it of every session that it makes.
fn unknown_time() -> Timestamp {
    Timestamp::from_unix(0, 0)
}

impl SessionLogs for StoreLogs {
    fn open<'a>(&'a self, new: &'a NewSession) -> BoxFuture<'a, Result<OpenLog, LogError>> {
        self.open(new).boxed()
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        async move {
            if let Err(error) = self.store.delete(session).await {
                let error: &dyn std::error::Error = &error;
                tracing::error!(%session, error, "a session that was deleted is still in the store");
            }
        }
        .boxed()
    }

    fn outlive(&self) -> bool {
        true
    }

    fn kept(&self) -> BoxFuture<'_, Result<Vec<KeptSession>, LogError>> {
        self.kept().map(|kept| kept.map_err(LogError::new)).boxed()
    }

    fn reopen<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<(NewSession, OpenLog)>, LogError>> {
        self.reopen(session).boxed()
    }

    fn thread<'a>(
        &'a self,
        tenant: &'a Tenant,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<SessionId>, LogError>> {
        self.find(tenant, thread).map(|found| found.map_err(LogError::new)).boxed()
    }
}
