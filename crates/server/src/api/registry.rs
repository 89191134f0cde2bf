//! The sessions that are kept, each where its tenant finds it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_proto::SessionId;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::entry::Entry;
use crate::{KeptSession, Limits, Tenant, http::Refusal};

/// The sessions that are kept.
#[derive(Debug)]
pub(super) struct Registry {
    most: Most,
    known: Mutex<Known>,
}

/// How many sessions there may be.
#[derive(Clone, Copy, Debug)]
struct Most {
    of_tenant: usize,
    all: usize,
    /// How many of them may be open, where those that are not can be opened again.
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    of_tenant: usize,
    all: usize,
}

/// A tenant's sessions in the order in which they were created.
type OfTenant = BTreeMap<SessionId, Slot>;

#[derive(Debug)]
enum Slot {
    /// It is being created, and nobody knows of it.
    Room,
    /// Nobody has it open.
    Closed(KeptSession),
    /// It is being opened or closed. Cancelled when that is done.
    Changing(KeptSession, CancellationToken),
    Open {
        entry: Arc<Entry>,
        /// The last request for it.
        used: u64,
    },
}

#[derive(Debug, Default)]
struct Known {
    tenants: HashMap<Tenant, OfTenant>,
    /// How many there are of all tenants.
    count: usize,
    /// How many requests there were.
    requests: u64,
    /// No more are taken.
    is_closed: bool,
}

/// A session that was looked up.
#[derive(Debug)]
pub(super) enum Found {
    Open(Arc<Entry>),
    /// It is the caller's to open.
    Closed(Change),
    /// Others open or close it. Look again when this is cancelled.
    Changing(CancellationToken),
}

/// A session as a listing has it.
#[derive(Debug)]
pub(super) enum Listed {
    Open(Arc<Entry>),
    Closed(KeptSession),
}

impl Registry {
    /// Room for sessions. Those that are closed can be opened again or not.
    pub(super) fn new(limits: &Limits, can_reopen: bool) -> Self {
        let open = Open { of_tenant: limits.open_of_tenant, all: limits.open };
        let most = Most {
            of_tenant: limits.sessions_of_tenant,
            all: limits.sessions,
            open: can_reopen.then_some(open),
        };
        Self { most, known: Mutex::default() }
    }

    /// Takes sessions that were kept from before, however many they are.
    pub(super) fn take(&self, kept: Vec<KeptSession>) {
        let mut known = self.lock();
        for session in kept {
            let sessions = known.tenants.entry(session.tenant.clone()).or_default();
            if sessions.insert(session.id.clone(), Slot::Closed(session)).is_none() {
                known.count += 1;
            }
        }
    }

    /// A tenant's session. Somebody else's is found no more than one that never was.
    pub(super) fn look_up(
        self: &Arc<Self>,
        tenant: &Tenant,
        session: &str,
    ) -> Option<Result<Found, Refusal>> {
        let mut known = self.lock();
        known.requests += 1;
        let (now, is_closed) = (known.requests, known.is_closed);
        let can_reopen = self.most.open.is_some();
        let slot = known.tenants.get_mut(tenant)?.get_mut(session)?;
        Some(Ok(match slot {
            Slot::Room => return None,
            // It could not go on. Where it can by now, it does.
            Slot::Open { entry, .. } if can_reopen && !is_closed && entry.session.has_ended() => {
                let ended = Arc::clone(entry);
                let mut change = self.change(slot, ended.kept(tenant.clone()));
                change.ended = Some(ended);
                Found::Closed(change)
            }
            Slot::Open { entry, used } => {
                *used = now;
                Found::Open(Arc::clone(entry))
            }
            Slot::Changing(_, done) => Found::Changing(done.clone()),
            Slot::Closed(_) if is_closed => return Some(Err(Refusal::Stopping)),
            Slot::Closed(kept) => {
                let kept = kept.clone();
                Found::Closed(self.change(slot, kept))
            }
        }))
    }

    fn change(self: &Arc<Self>, slot: &mut Slot, kept: KeptSession) -> Change {
        let done = CancellationToken::new();
        *slot = Slot::Changing(kept.clone(), done.clone());
        Change { registry: Arc::clone(self), kept, done, ended: None }
    }

    /// The idle sessions that are to be closed before another one of a tenant's is opened, the caller's to close; the tenant's
    /// own where it has as many open as it may, or else those that nobody has asked for for longest.
    ///
    /// Whatever is being opened counts.
    pub(super) fn make_room(
        self: &Arc<Self>,
        tenant: &Tenant,
    ) -> Result<Option<(Arc<Entry>, Change)>, Refusal> {
        let Some(most) = self.most.open else { return Ok(None) };
        let mut known = self.lock();
        let open = |sessions: &OfTenant| sessions.values().filter(|slot| slot.is_open()).count();
        let of_tenant = known.tenants.get(tenant).map_or(0, open);
        let is_own = of_tenant > most.of_tenant;
        if !is_own && known.tenants.values().map(open).sum::<usize>() <= most.all {
            return Ok(None);
        }
        let idlest = known
            .tenants
            .iter()
            .filter(|(whose, _)| !is_own || *whose == tenant)
            .flat_map(|(whose, sessions)| sessions.iter().map(move |(id, slot)| (whose, id, slot)))
            .filter_map(|(whose, id, slot)| {
                let Slot::Open { entry, used } = slot else { return None };
                // Whoever reads or asks has it too; nobody else can take it while this looks.
                let is_free = Arc::strong_count(entry) == 1 && entry.is_idle();
                is_free.then_some((*used, whose, id))
            })
            .min_by_key(|(used, ..)| *used)
            .map(|(_, whose, id)| (whose.clone(), id.clone()));
        let Some((whose, id)) = idlest else {
            return Err(if is_own {
                Refusal::TooManyOpen { bound: most.of_tenant }
            } else {
                Refusal::NoRoom
            });
        };
        let slot = known.tenants.get_mut(&whose).and_then(|sessions| sessions.get_mut(&id));
        let Some(slot @ Slot::Open { .. }) = slot else { return Ok(None) };
        let Some(entry) = slot.entry() else { return Ok(None) };
        let entry = Arc::clone(entry);
        let change = self.change(slot, entry.kept(whose));
        Ok(Some((entry, change)))
    }

    /// A tenant's sessions after one of them, at most so many.
    pub(super) fn list(&self, tenant: &Tenant, after: &str, most: usize) -> Vec<Listed> {
        let known = self.lock();
        let Some(sessions) = known.tenants.get(tenant) else { return Vec::new() };
        let later = sessions.iter().skip_while(|(id, _)| id.as_str() <= after);
        let listed = later.filter_map(|(_, slot)| match slot {
            Slot::Room => None,
            Slot::Open { entry, .. } => Some(Listed::Open(Arc::clone(entry))),
            Slot::Closed(kept) | Slot::Changing(kept, _) => Some(Listed::Closed(kept.clone())),
        });
        listed.take(most).collect()
    }

    /// The open sessions of all tenants. No more are taken or opened.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        let mut known = self.lock();
        known.is_closed = true;
        let slots = known.tenants.values().flat_map(OfTenant::values);
        slots.filter_map(Slot::entry).cloned().collect()
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
        if known.tenants.get(tenant).is_some_and(|sessions| sessions.len() >= self.most.of_tenant) {
            return Err(Refusal::TooManySessions { bound: self.most.of_tenant });
        }
        if known.count >= self.most.all {
            return Err(Refusal::NoRoom);
        }
        known.tenants.entry(tenant.clone()).or_default().insert(session.clone(), Slot::Room);
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
    pub(super) fn remove(&self, tenant: &Tenant, session: &str) -> Option<Removed> {
        let mut known = self.lock();
        match known.tenants.get(tenant)?.get(session)? {
            Slot::Room => return None,
            Slot::Changing(_, done) => return Some(Removed::NotYet(done.clone())),
            Slot::Closed(_) | Slot::Open { .. } => {}
        }
        match known.remove(tenant, session)? {
            Slot::Open { entry, .. } => Some(Removed::Open(entry)),
            Slot::Room | Slot::Closed(_) | Slot::Changing(..) => Some(Removed::Closed),
        }
    }

    /// Takes no more sessions, and ends those that there are.
    pub(super) async fn close(&self) {
        let tenants = {
            let mut known = self.lock();
            known.is_closed = true;
            known.count = 0;
            std::mem::take(&mut known.tenants)
        };
        let slots = tenants.values().flat_map(OfTenant::values);
        join_all(slots.filter_map(Slot::entry).map(|entry| entry.session.close())).await;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that was taken out.
#[derive(Debug)]
pub(super) enum Removed {
    Open(Arc<Entry>),
    Closed,
    /// It is there still: others open or close it. Take it when this is cancelled.
    NotYet(CancellationToken),
}

impl Slot {
    fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Open { entry, .. } => Some(entry),
            Self::Room | Self::Closed(_) | Self::Changing(..) => None,
        }
    }

    /// Whether it is open or being opened, or is closed in this moment.
    fn is_open(&self) -> bool {
        !matches!(self, Self::Closed(_))
    }
}

impl Known {
    fn remove(&mut self, tenant: &Tenant, session: &str) -> Option<Slot> {
        let sessions = self.tenants.get_mut(tenant)?;
        let removed = sessions.remove(session)?;
        if sessions.is_empty() {
            self.tenants.remove(tenant);
        }
        self.count -= 1;
        Some(removed)
    }
}

/// A session that is being opened or closed. Closed when it is dropped, or as it was.
#[derive(Debug)]
pub(super) struct Change {
    registry: Arc<Registry>,
    kept: KeptSession,
    done: CancellationToken,
    /// It as it was open and could not go on.
    ended: Option<Arc<Entry>>,
}

impl Change {
    /// The session is open now. Where the server has been stopped meanwhile, it comes back.
    pub(super) fn opened(self, entry: &Arc<Entry>) -> Result<(), Refusal> {
        let mut known = self.registry.lock();
        let (now, is_closed) = (known.requests, known.is_closed);
        match known.slot(&self.kept) {
            Some(slot) if !is_closed => *slot = Slot::Open { entry: Arc::clone(entry), used: now },
            Some(_) | None => return Err(Refusal::Stopping),
        }
        Ok(())
    }

    /// The session is closed now, with this number as its last event's.
    pub(super) fn closed(mut self, last: u64) {
        self.kept.last = last;
    }

    /// It as it was open and could not go on, where it was.
    pub(super) fn ended(&self) -> Option<Arc<Entry>> {
        self.ended.clone()
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.kept.id
    }
}

impl Known {
    fn slot(&mut self, kept: &KeptSession) -> Option<&mut Slot> {
        self.tenants.get_mut(&kept.tenant)?.get_mut(&kept.id)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let mut known = self.registry.lock();
        let used = known.requests;
        if let Some(slot @ Slot::Changing(..)) = known.slot(&self.kept) {
            *slot = match self.ended.take() {
                Some(entry) => Slot::Open { entry, used },
                None => Slot::Closed(self.kept.clone()),
            };
        }
        drop(known);
        self.done.cancel();
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
        let (used, is_closed) = (known.requests, known.is_closed);
        let room = known.tenants.get_mut(&self.tenant).and_then(|sessions| sessions.get_mut(&self.session));
        match room {
            Some(room) if !is_closed => *room = Slot::Open { entry, used },
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
            self.registry.lock().remove(&self.tenant, self.session.as_str());
        }
    }
}
