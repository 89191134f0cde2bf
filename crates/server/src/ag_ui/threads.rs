//! The threads that are kept.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_runtime::Session;
use futures::future::join_all;
use tokio::{
    sync::{Mutex as Exclusive, OwnedMappedMutexGuard, OwnedMutexGuard},
    time::{Instant, timeout_at},
};

use super::talk::{State, Talk};
use crate::{Tenant, http::Refusal};

/// A thread that one request has for itself until it drops this.
pub(super) type Lease = OwnedMappedMutexGuard<Option<Talk>, Talk>;

/// Whose thread it is, and what its client calls it.
type Key = (Tenant, String);

/// A thread's talk; none before it has begun, and where it could not.
type Place = Arc<Exclusive<Option<Talk>>>;

/// The threads that are kept, by their ids.
#[derive(Debug)]
pub(super) struct Threads {
    most: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    threads: HashMap<Key, Thread>,
    /// Sessions of threads that were forgotten, which may not have ended yet.
    ending: HashMap<Key, Session>,
    /// How many requests there were.
    requests: u64,
    /// No more begin.
    is_closed: bool,
}

#[derive(Debug)]
struct Thread {
    /// Locked while a request has it.
    talk: Place,
    /// The talk's, for who does not have that.
    session: Option<Session>,
    /// The last request for it.
    used: u64,
}

/// A thread that was looked up.
enum Found {
    /// It is the caller's now.
    Free(Lease),
    /// Another request has it.
    Taken(Place),
    /// It is the caller's to begin, once this session has ended.
    New(OwnedMutexGuard<Option<Talk>>, Option<Session>),
}

impl Threads {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), known: Mutex::default() }
    }

    /// Takes the tenant's thread of this id, which `begin` begins where there is none; that goes on where nobody waits for it any
    /// more. Where another request has it, waits for that to let it go: a client that left may not have been noticed yet.
    pub(super) async fn take(
        self: &Arc<Self>,
        tenant: &Tenant,
        id: &str,
        begin: impl Future<Output = Result<Talk, Refusal>> + Send + 'static,
        patience: Duration,
    ) -> Result<Lease, Refusal> {
        let key = (tenant.clone(), id.to_owned());
        let until = Instant::now() + patience;
        let (place, before) = loop {
            let talk = match self.look_up(&key)? {
                Found::Free(lease) => return Ok(lease),
                Found::Taken(talk) => talk,
                Found::New(place, before) => break (place, before),
            };
            let talk = timeout_at(until, talk.lock_owned()).await.map_err(|_| Refusal::Busy)?;
            // One that came to its end meanwhile has a successor.
            if let Some(lease) = alive(talk) {
                return Ok(lease);
            }
        };
        let this = Arc::clone(self);
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                // It may still write to the log that the next one reads.
                before.close().await;
            }
            this.began(&key, place, begin.await)
        });
        task.await.unwrap_or(Err(Refusal::LogFailed))
    }

    fn look_up(&self, key: &Key) -> Result<Found, Refusal> {
        let mut known = self.lock();
        if known.is_closed {
            return Err(Refusal::Stopping);
        }
        known.requests += 1;
        let now = known.requests;
        known.ending.retain(|_, session| !session.has_ended());
        if let Some(thread) = known.threads.get_mut(key) {
            let Ok(talk) = Arc::clone(&thread.talk).try_lock_owned() else {
                thread.used = now;
                return Ok(Found::Taken(Arc::clone(&thread.talk)));
            };
            if let Some(lease) = alive(talk) {
                thread.used = now;
                return Ok(Found::Free(lease));
            }
        }
        known.forget(key);
        if known.threads.len() >= self.most && !known.forget_idlest(&key.0) {
            return Err(Refusal::Full { bound: self.most });
        }
        let talk = Place::default();
        let place = Arc::clone(&talk).try_lock_owned().map_err(|_| Refusal::Busy)?;
        known.threads.insert(key.clone(), Thread { talk, session: None, used: now });
        Ok(Found::New(place, known.ending.remove(key)))
    }

    fn began(
        &self,
        key: &Key,
        mut place: OwnedMutexGuard<Option<Talk>>,
        begun: Result<Talk, Refusal>,
    ) -> Result<Lease, Refusal> {
        let talk = begun?;
        let mut known = self.lock();
        let Some(thread) = known.threads.get_mut(key) else {
            // The server has been stopped meanwhile.
            talk.end_session();
            return Err(Refusal::Stopping);
        };
        tracing::debug!(thread = key.1, session = %talk.session.id(), "a thread begins");
        thread.session = Some(talk.session.clone());
        drop(known);
        *place = Some(talk);
        alive(place).ok_or(Refusal::Ended)
    }

    /// Ends all sessions.
    pub(super) async fn close(&self) {
        let sessions: Vec<_> = {
            let mut known = self.lock();
            known.is_closed = true;
            let threads: Vec<_> = known.threads.drain().filter_map(|(_, thread)| thread.session).collect();
            known.ending.drain().map(|(_, session)| session).chain(threads).collect()
        };
        join_all(sessions.iter().map(Session::close)).await;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The talk, where there will be more of it.
fn alive(talk: OwnedMutexGuard<Option<Talk>>) -> Option<Lease> {
    let is_alive = |talk: &&mut Talk| !matches!(talk.state, State::Dead);
    OwnedMutexGuard::try_map(talk, |talk| talk.as_mut().filter(is_alive)).ok()
}

impl Known {
    /// Forgets a thread. Closing its session begins, and goes on without anybody.
    fn forget(&mut self, key: &Key) {
        let Some(Thread { session: Some(session), .. }) = self.threads.remove(key) else { return };
        let _ = futures::FutureExt::now_or_never(session.close());
        self.ending.insert(key.clone(), session);
    }

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
        tracing::info!(thread = key.1, "an idle thread makes room for another");
        self.forget(&key);
        true
    }
}
