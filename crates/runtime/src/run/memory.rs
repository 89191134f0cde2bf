//! What is kept of runs that have ended, so that they can go on.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_proto::{Message, SessionId, SubagentId};

use super::{Manner, drop_quietly};
use crate::elsewhere::Template;

/// How many sessions are remembered.
const SESSIONS: usize = 256;

/// How many bytes their conversations may have together.
const BYTES: usize = 16 * 1024 * 1024;

/// A session whose run has ended and that can have a further one.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) template: Template,
    pub(crate) source_name: Arc<str>,
    pub(crate) subagent_id: SubagentId,
    /// Its conversation, without calls that have no result.
    pub(crate) messages: Vec<Message>,
    /// The number of its last run.
    pub(crate) run: u32,
    pub(crate) manner: Arc<Manner>,
}

/// The sessions that are remembered. The oldest are forgotten first.
#[derive(Default)]
pub(crate) struct Memories(Mutex<State>);

#[derive(Default)]
struct State {
    known: HashMap<SessionId, (Memory, usize)>,
    order: VecDeque<SessionId>,
    bytes: usize,
}

impl Memories {
    pub(crate) fn keep(&self, session: SessionId, memory: Memory) {
        let bytes = memory.messages.iter().map(Message::approximate_bytes).sum();
        let mut state = self.lock();
        let mut forgotten = vec![state.forget(&session)];
        state.bytes += bytes;
        state.known.insert(session.clone(), (memory, bytes));
        state.order.push_back(session);
        while state.known.len() > SESSIONS || state.bytes > BYTES {
            let Some(oldest) = state.order.front().cloned() else { break };
            forgotten.push(state.forget(&oldest));
        }
        drop(state);
        // With an agent its model and tools go, which may panic.
        forgotten.into_iter().for_each(drop_quietly);
    }

    /// Takes a session out, for its further run; that one keeps it again when it ends. Where there is no such run after all,
    /// the loan gives it back.
    pub(crate) fn lend(self: &Arc<Self>, session: &SessionId) -> Option<(Memory, Loan)> {
        let memory = self.lock().forget(session)?;
        let lent = Some((session.clone(), memory.clone()));
        Some((memory, Loan { memories: Arc::clone(self), lent }))
    }

    /// The session of a sub-agent that is remembered.
    pub(crate) fn session_of(&self, subagent: &SubagentId) -> Option<SessionId> {
        let state = self.lock();
        let mut known = state.known.iter();
        known.find(|(_, (memory, _))| memory.subagent_id == *subagent).map(|(session, _)| session.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, session: &SessionId) -> Option<Memory> {
        let (memory, bytes) = self.known.remove(session)?;
        self.bytes -= bytes;
        self.order.retain(|known| known != session);
        Some(memory)
    }
}

impl fmt::Debug for Memories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memories").field("known", &self.lock().known.len()).finish_non_exhaustive()
    }
}

/// A session that was taken out for a further run which has not begun. Dropping it gives the session back.
pub(crate) struct Loan {
    memories: Arc<Memories>,
    lent: Option<(SessionId, Memory)>,
}

impl Loan {
    /// The further run has begun.
    pub(crate) fn spend(mut self) {
        self.lent = None;
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some((session, memory)) = self.lent.take() {
            self.memories.keep(session, memory);
        }
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("is_spent", &self.lent.is_none()).finish_non_exhaustive()
    }
}
