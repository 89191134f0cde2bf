//! The children that were announced.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use anabranch_proto::{
    ChildScope, Metadata, SessionId, SpawnMechanism, ToolCallId,
    event::{SessionUpdated, SpawnSessionStart},
};

use super::{ids, metadata::SpawnInfo, owner::Owner};

/// One run of a child session.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) session: SessionId,
    pub(super) run: u32,
    pub(super) id: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) description: String,
    pub(super) parent: SessionId,
    pub(super) parent_call: Option<ToolCallId>,
    pub(super) info: SpawnInfo,
    /// The metadata of its spawn.
    pub(super) metadata: Metadata,
    /// Whether it may go on when the root's run has ended: nobody waits for it, or for somebody above it.
    pub(super) outlives: bool,
    pub(super) state: State,
    /// In which run of the protocol it was announced last, counted from 1.
    pub(super) announced_in: u64,
    pub(super) owner: Owner,
}

/// How far a child's run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Announced.
    Open,
    /// At work, and to be announced in the next run.
    Suspended,
    /// Over.
    Ended,
}

/// All children, in the order in which they were announced.
///
/// Grows with the number of children; of one that has ended, a short record is left.
#[derive(Clone, Debug, Default)]
pub(super) struct Children {
    all: Vec<Child>,
    sessions: HashMap<SessionId, Vec<usize>>,
    ids: HashSet<Arc<str>>,
}

impl Children {
    /// Adds the run that is announced; nothing when it is known.
    pub(super) fn add(&mut self, spawn: &SpawnSessionStart, metadata: &Metadata) -> Option<usize> {
        let last = self.last(&spawn.child_session_id);
        let last_run = last.map_or(0, |last| last.run);
        let run = match spawn.run {
            Some(run) if run <= last_run => return None,
            Some(run) => run,
            // Who does not count runs means the next one, unless this announces the last one again.
            None if last.is_some_and(|last| {
                last.state != State::Ended
                    || (spawn.tool_call_id.is_some() && spawn.tool_call_id == last.parent_call)
            }) =>
            {
                return None;
            }
            None => last_run.saturating_add(1),
        };
        let above = self.last(&spawn.parent_session_id).is_some_and(|parent| parent.outlives);
        let id = self.unique(&ids::of_child(&spawn.child_session_id, run));
        let info = SpawnInfo {
            spawn_mechanism: spawn.spawn_mechanism,
            source_type: spawn.source_type,
            depth: spawn.depth,
            run,
            child_session_id: spawn.child_session_id.clone(),
            subagent_id: spawn.subagent_id.clone(),
        };
        let owner = Owner::of_child(Arc::clone(&id), Arc::clone(&spawn.source_name));
        let child = Child {
            session: spawn.child_session_id.clone(),
            run,
            id,
            name: Arc::clone(&spawn.source_name),
            description: spawn.description.clone(),
            parent: spawn.parent_session_id.clone(),
            parent_call: spawn.tool_call_id.clone(),
            info,
            metadata: metadata.clone(),
            outlives: above || spawn.spawn_mechanism != SpawnMechanism::Sync,
            state: State::Open,
            announced_in: 0,
            owner,
        };
        let at = self.all.len();
        self.sessions.entry(child.session.clone()).or_default().push(at);
        self.all.push(child);
        Some(at)
    }

    /// The run that a scope names; nothing when nobody announced it.
    pub(super) fn of_scope(&self, scope: &ChildScope) -> Option<usize> {
        self.of_run(&scope.child_session_id, scope.run)
    }

    pub(super) fn of_run(&self, session: &SessionId, run: u32) -> Option<usize> {
        let runs = self.sessions.get(session)?;
        runs.iter().rev().copied().find(|at| self.get(*at).is_some_and(|child| child.run == run))
    }

    pub(super) fn get(&self, at: usize) -> Option<&Child> {
        self.all.get(at)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Child> {
        self.all.get_mut(at)
    }

    /// The last run of a session.
    pub(super) fn last(&self, session: &SessionId) -> Option<&Child> {
        self.sessions.get(session)?.last().and_then(|at| self.get(*at))
    }

    /// The places of those in a state, in the order in which they were announced: parents first.
    pub(super) fn in_state(&self, state: State) -> Vec<usize> {
        let all = self.all.iter().enumerate();
        all.filter(|(_, child)| child.state == state).map(|(at, _)| at).collect()
    }

    /// Whether the root's run has to wait for a child.
    pub(super) fn is_waited_for(&self) -> bool {
        self.all.iter().any(|child| child.state == State::Open && !child.outlives)
    }

    fn unique(&mut self, wanted: &str) -> Arc<str> {
        let mut id: Arc<str> = wanted.into();
        let mut count: u64 = 1;
        while !self.ids.insert(Arc::clone(&id)) {
            count += 1;
            id = format!("{wanted}#{count}").into();
        }
        id
    }
}

impl Child {
    /// The run is over: nothing is left of it but who it was.
    pub(super) fn end(&mut self) {
        self.state = State::Ended;
        self.owner.forget();
        self.description = String::new();
        self.metadata = Metadata::default();
    }

    /// Takes what was learnt.
    pub(super) fn learn(&mut self, update: &SessionUpdated) {
        if let Some(name) = &update.source_name {
            self.name = Arc::clone(name);
            self.owner.name = Some(Arc::clone(name));
        }
        if let Some(description) = &update.description {
            self.description.clone_from(description);
        }
        if let Some(mechanism) = update.spawn_mechanism {
            self.info.spawn_mechanism = mechanism;
        }
        if let Some(source_type) = update.source_type {
            self.info.source_type = source_type;
        }
        if let Some(call) = &update.tool_call_id {
            self.parent_call = Some(call.clone());
        }
    }
}
