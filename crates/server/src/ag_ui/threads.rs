//! The threads that are kept.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_runtime::Session;
use futures::future::join_all;
use tokio::sync::{Mutex as Exclusive, OwnedMutexGuard};

use super::talk::{State, Talk};
use crate::{Tenant, http::Refusal};

/// A thread that one request has for itself until it drops this.
pub(super) type Lease = OwnedMutexGuard<Talk>;

/// Whose thread it is, and what its client calls it.
type Key = (Tenant, String);

/// The threads that are kept, by their ids.
#[derive(Debug)]
pub(super) struct Threads {
    most: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    threads: HashMap<Key, Thread>,
    /// How many requests there were.
    requests: u64,
}

#[derive(Debug)]
struct Thread {
    /// Locked while a request has it.
    talk: Arc<Exclusive<Talk>>,
    /// The talk's, for who does not have that.
    session: Session,
    /// The last request for it.
    used: u64,
}

/// A thread that was looked up.
enum Found {
    /// It is the caller's now.
    Free(Lease),
    /// Another request has it.
    Taken(Arc<Exclusive<Talk>>),
}

impl Threads {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), known: Mutex::default() }
    }

    /// Takes the tenant's thread of this id, which `begin` begins where there is none. Where another request has it, waits for that
    /// to let it go: a client that left may not have been noticed yet.
    pub(super) async fn take(
        &self,
        tenant: &Tenant,
        id: &str,
        begin: impl Fn() -> Talk,
        patience: Duration,
    ) -> Result<Lease, Refusal> {
        let waited = tokio::time::timeout(patience, async {
            loop {
                let talk = match self.look_up(tenant, id, &begin)? {
                    Found::Free(lease) => return Ok(lease),
                    Found::Taken(talk) => talk,
                };
                let lease = talk.lock_owned().await;
                // One that came to its end meanwhile has a successor.
                if !matches!(lease.state, State::Dead) {
                    return Ok(lease);
                }
            }
        });
        waited.await.unwrap_or(Err(Refusal::Busy))
    }

    fn look_up(&self, tenant: &Tenant, id: &str, begin: impl FnOnce() -> Talk) -> Result<Found, Refusal> {
        let key = (tenant.clone(), id.to_owned());
        let mut known = self.lock();
        known.requests += 1;
        let now = known.requests;
        if let Some(thread) = known.threads.get_mut(&key) {
            let Ok(lease) = Arc::clone(&thread.talk).try_lock_owned() else {
                thread.used = now;
                return Ok(Found::Taken(Arc::clone(&thread.talk)));
            };
            if !matches!(lease.state, State::Dead) {
                thread.used = now;
                return Ok(Found::Free(lease));
            }
        }
        known.threads.remove(&key);
        if known.threads.len() >= self.most && !known.forget_idlest(tenant) {
            return Err(Refusal::Full { bound: self.most });
        }
        let talk = begin();
        let session = talk.session.clone();
        let talk = Arc::new(Exclusive::new(talk));
        let lease = Arc::clone(&talk).try_lock_owned().map_err(|_| Refusal::Busy)?;
        known.threads.insert(key, Thread { talk, session, used: now });
        tracing::debug!(thread = id, session = %lease.session.id(), "a thread begins");
        Ok(Found::Free(lease))
    }

    /// Ends all sessions.
    pub(super) async fn close(&self) {
        let threads: Vec<_> = self.lock().threads.drain().map(|(_, thread)| thread.session).collect();
        join_all(threads.iter().map(Session::close)).await;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Forgets the thread that nobody has asked for, for longest; nothing where all are served. One of the tenant's own
    /// where it has one, so that nobody pushes others out by asking for more and more.
    fn forget_idlest(&mut self, tenant: &Tenant) -> bool {
        let idle = self.threads.iter().filter(|(_, thread)| thread.talk.try_lock().is_ok());
        let Some(key) = idle
            .min_by_key(|((whose, _), thread)| (whose != tenant, thread.used))
            .map(|(key, _)| key.clone())
        else {
            return false;
        };
        if let Some(thread) = self.threads.remove(&key) {
            tracing::info!(thread = key.1, "a thread is forgotten for a new one");
            // Closing begins with the first poll, and goes on without another.
            let _ = futures::FutureExt::now_or_never(thread.session.close());
        }
        true
    }
}
