//! The sessions of a connection.

use std::{
    collections::BTreeMap,
    mem,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent_client_protocol::v1::{Responder, schema::PromptResponse};
use anabranch_proto::SessionId;
use anabranch_runtime::Session;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::refusal::Refusal;

/// How many sessions a connection has at most.
const MOST: usize = 32;

/// A prompt that is not answered.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) responder: Responder<PromptResponse>,
    /// Stops it, begun or not.
    pub(super) cancel: CancellationToken,
    /// Tells that it is answered.
    _answered: DropGuard,
}

impl Turn {
    /// A turn that ends when it is cancelled, or the request is.
    pub(super) fn new(responder: Responder<PromptResponse>) -> Self {
        let (cancel, answered) = (CancellationToken::new(), CancellationToken::new());
        let (request, stop, ended) = (responder.cancellation(), cancel.clone(), answered.clone());
        // Not the connection's: that would wait for it when its client has left.
        tokio::spawn(async move {
            tokio::select! {
                () = request.cancelled() => stop.cancel(),
                () = ended.cancelled() => {}
            }
        });
        Self { responder, cancel, _answered: answered.drop_guard() }
    }
}

/// A root session.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) session: Session,
    pub(super) cwd: PathBuf,
    /// Whether its children are announced, with the grant to cancel them.
    pub(super) grants: bool,
    turn: Arc<Mutex<Option<Box<Turn>>>>,
}

impl Root {
    pub(super) fn new(session: Session, cwd: PathBuf, grants: bool) -> Self {
        Self { session, cwd, grants, turn: Arc::default() }
    }

    /// Takes the turn; gives it back where another has it.
    pub(super) fn begin(&self, turn: Box<Turn>) -> Result<(), Box<Turn>> {
        let mut current = self.turn();
        if current.is_some() {
            return Err(turn);
        }
        *current = Some(turn);
        Ok(())
    }

    /// Who is to be answered, once.
    pub(super) fn end(&self) -> Option<Box<Turn>> {
        self.turn().take()
    }

    /// Stops what answers the prompt.
    pub(super) fn cancel(&self) {
        if let Some(turn) = &*self.turn() {
            turn.cancel.cancel();
        }
    }

    fn turn(&self) -> MutexGuard<'_, Option<Box<Turn>>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose session an id names.
#[derive(Debug)]
pub(super) enum Found {
    Root(Root),
    /// A session below this root's.
    Child(Root, SessionId),
}

/// The sessions of a connection, by their ids.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<BTreeMap<String, Root>>);

impl Sessions {
    /// Keeps the session that `start` starts.
    pub(super) fn add(&self, start: impl FnOnce() -> Root) -> Result<Root, Refusal> {
        let mut known = self.lock();
        if known.len() >= MOST {
            return Err(Refusal::TooMany(MOST));
        }
        let root = start();
        known.insert(root.session.id().to_string(), root.clone());
        Ok(root)
    }

    pub(super) fn find(&self, id: &str) -> Option<Found> {
        let known = self.lock();
        if let Some(root) = known.get(id) {
            return Some(Found::Root(root.clone()));
        }
        let child = SessionId::new(id);
        let root = known.values().find(|root| root.session.with_tree(|tree| tree.get(&child).is_some()))?;
        Some(Found::Child(root.clone(), child))
    }

    /// A root session; nothing else may be mutated.
    pub(super) fn root(&self, id: &str) -> Result<Root, Refusal> {
        match self.find(id) {
            Some(Found::Root(root)) => Ok(root),
            Some(Found::Child(_, child)) => Err(Refusal::Child(child)),
            None => Err(Refusal::Unknown(id.to_owned())),
        }
    }

    pub(super) fn remove(&self, id: &str) -> Option<Root> {
        self.lock().remove(id)
    }

    pub(super) fn roots(&self) -> Vec<Root> {
        self.lock().values().cloned().collect()
    }

    pub(super) fn take_all(&self) -> Vec<Root> {
        mem::take(&mut *self.lock()).into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Root>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
