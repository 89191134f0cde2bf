//! The sessions that are kept, each where its tenant finds it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_proto::SessionId;
use futures::future::join_all;

use super::entry::Entry;
use crate::{Tenant, http::Refusal};

/// The sessions that are kept.
#[derive(Debug)]
pub(super) struct Registry {
    most_of_tenant: usize,
    most: usize,
    known: Mutex<Known>,
}

/// A tenant's sessions in the order in which they were created; none stands for one that is being created.
type OfTenant = BTreeMap<SessionId, Option<Arc<Entry>>>;

#[derive(Debug, Default)]
struct Known {
    tenants: HashMap<Tenant, OfTenant>,
    /// How many there are of all tenants.
    count: usize,
    /// No more are taken.
    is_closed: bool,
}

impl Registry {
    pub(super) fn new(most_of_tenant: usize, most: usize) -> Self {
        Self { most_of_tenant, most, known: Mutex::default() }
    }

    /// A tenant's session. Somebody else's is found no more than one that never was.
    pub(super) fn get(&self, tenant: &Tenant, session: &str) -> Option<Arc<Entry>> {
        self.lock().tenants.get(tenant)?.get(session)?.clone()
    }

    /// A tenant's sessions after one of them, at most so many.
    pub(super) fn list(&self, tenant: &Tenant, after: &str, most: usize) -> Vec<Arc<Entry>> {
        let known = self.lock();
        let all = known.tenants.get(tenant).into_iter().flatten();
        let later = all.skip_while(|(id, _)| id.as_str() <= after);
        later.filter_map(|(_, entry)| entry.clone()).take(most).collect()
    }

    /// The sessions of all tenants. No more are taken.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        let mut known = self.lock();
        known.is_closed = true;
        known.tenants.values().flatten().filter_map(|(_, entry)| entry.clone()).collect()
    }

    /// Room for one session more.
    pub(super) fn reserve(
        self: &Arc<Self>,
        tenant: &Tenant,
        session: &SessionId,
    ) -> Result<Reservation, Refusal> {
        let mut known = self.lock();
        if known.is_closed {
            return Err(Refusal::Stopping);
        }
        if known.tenants.get(tenant).is_some_and(|sessions| sessions.len() >= self.most_of_tenant) {
            return Err(Refusal::TooManySessions { bound: self.most_of_tenant });
        }
        if known.count >= self.most {
            return Err(Refusal::NoRoom);
        }
        known.tenants.entry(tenant.clone()).or_default().insert(session.clone(), None);
        known.count += 1;
        drop(known);
        Ok(Reservation {
            registry: Arc::clone(self),
            tenant: tenant.clone(),
            session: session.clone(),
            is_kept: false,
        })
    }

    /// Takes a tenant's session out. Its requests find it no more.
    pub(super) fn remove(&self, tenant: &Tenant, session: &SessionId) -> Option<Arc<Entry>> {
        self.lock().remove(tenant, session)
    }

    /// Takes no more sessions, and ends those that there are.
    pub(super) async fn close(&self) {
        let tenants = {
            let mut known = self.lock();
            known.is_closed = true;
            known.count = 0;
            std::mem::take(&mut known.tenants)
        };
        let entries = tenants.into_values().flatten().filter_map(|(_, entry)| entry).collect::<Vec<_>>();
        join_all(entries.iter().map(|entry| entry.session.close())).await;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn remove(&mut self, tenant: &Tenant, session: &SessionId) -> Option<Arc<Entry>> {
        let sessions = self.tenants.get_mut(tenant)?;
        let removed = sessions.remove(session)?;
        if sessions.is_empty() {
            self.tenants.remove(tenant);
        }
        self.count -= 1;
        removed
    }
}

/// Room for a session that is being created. Free again when it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    registry: Arc<Registry>,
    tenant: Tenant,
    session: SessionId,
    is_kept: bool,
}

impl Reservation {
    /// Fills the room. Where the server has been stopped meanwhile, the session comes back.
    pub(super) fn fill(mut self, entry: Arc<Entry>) -> Result<(), Arc<Entry>> {
        let mut known = self.registry.lock();
        let is_closed = known.is_closed;
        let room = known.tenants.get_mut(&self.tenant).and_then(|sessions| sessions.get_mut(&self.session));
        match room {
            Some(room) if !is_closed => *room = Some(entry),
            Some(_) | None => return Err(entry),
        }
        drop(known);
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_kept {
            self.registry.remove(&self.tenant, &self.session);
        }
    }
}
