//! The children that were announced.

use std::{collections::BTreeSet, sync::Arc};

use anabranch_proto::{
    ChildScope, Metadata, SessionId, SpawnMechanism, ToolCallId,
    event::{SessionUpdated, SpawnSessionStart},
};
use foldhash::HashMap;

use super::{ids, metadata::SpawnInfo, owner::Owner};
use crate::unique::Unique;

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
    announced: Announced,
    state: State,
    /// In which run of the protocol it was announced last, counted from 1.
    pub(super) announced_in: u64,
    pub(super) owner: Owner,
}

/// Whether a run's spawn was seen, or an event of the run only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    Yes,
    NotYet,
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
    /// A session's runs, in their order, which is that of their numbers.
    sessions: HashMap<SessionId, Vec<usize>>,
    /// Those that are at work.
    open: BTreeSet<usize>,
    suspended: BTreeSet<usize>,
    ids: Unique,
    /// The scope that was named last, and whose it is.
    last: Option<(Arc<ChildScope>, usize)>,
}

impl Children {
    /// Adds the run that is announced; nothing when it is known.
    pub(super) fn add(
        &mut self,
        spawn: &SpawnSessionStart,
        announced: Announced,
        metadata: &Metadata,
    ) -> Option<usize> {
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
            None => last_run.checked_add(1)?,
        };
        let above = self.last(&spawn.parent_session_id).is_some_and(|parent| parent.outlives);
        let id = self.ids.take(&ids::of_child(&spawn.child_session_id, run));
        let info = SpawnInfo {
            spawn_mechanism: spawn.spawn_mechanism,
            source_type: spawn.source_type,
            depth: spawn.depth.max(1),
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
            announced,
            state: State::Open,
            announced_in: 0,
            owner,
        };
        let at = self.all.len();
        self.sessions.entry(child.session.clone()).or_default().push(at);
        self.all.push(child);
        self.open.insert(at);
        Some(at)
    }

    /// The number of a session's last run, where that was met before its spawn, which this is. It has been announced now.
    pub(super) fn announced_late(&mut self, spawn: &SpawnSessionStart) -> Option<u32> {
        let at = *self.sessions.get(&spawn.child_session_id)?.last()?;
        let last = self.all.get_mut(at)?;
        let is_it = last.announced == Announced::NotYet && spawn.run.is_none_or(|run| run == last.run);
        if !is_it {
            return None;
        }
        last.announced = Announced::Yes;
        Some(last.run)
    }

    /// The run that a scope names; nothing when nobody announced it.
    pub(super) fn of_scope(&mut self, scope: &Arc<ChildScope>) -> Option<usize> {
        // The events of a run share their scope, and mostly the same run speaks on. What has been added stays where it is.
        if let Some((last, at)) = &self.last
            && Arc::ptr_eq(last, scope)
        {
            return Some(*at);
        }
        let at = self.of_run(&scope.child_session_id, scope.run)?;
        self.last = Some((Arc::clone(scope), at));
        Some(at)
    }

    pub(super) fn of_run(&self, session: &SessionId, run: u32) -> Option<usize> {
        let runs = self.sessions.get(session)?;
        let number = |at: &usize| self.get(*at).map_or(0, |child| child.run);
        runs.get(runs.binary_search_by_key(&run, number).ok()?).copied()
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

    /// The places of those who are to be announced again, in the order in which they were announced: parents first.
    pub(super) fn suspended(&self) -> Vec<usize> {
        self.suspended.iter().copied().collect()
    }

    /// The places of those who are at work, in the same order.
    pub(super) fn open(&self) -> Vec<usize> {
        self.open.iter().copied().collect()
    }

    /// Whether the root's run has to wait for a child.
    pub(super) fn is_waited_for(&self) -> bool {
        self.open.iter().filter_map(|at| self.get(*at)).any(|child| !child.outlives)
    }

    /// How far a child is from now on. Of one whose run is over, nothing is left but who it was.
    pub(super) fn set(&mut self, at: usize, state: State) {
        let Some(child) = self.all.get_mut(at) else {
            return;
        };
        child.state = state;
        self.open.remove(&at);
        self.suspended.remove(&at);
        match state {
            State::Open => {
                self.open.insert(at);
            }
            State::Suspended => {
                self.suspended.insert(at);
            }
            State::Ended => child.forget(),
        }
    }
}

impl Child {
    /// Whether it has been announced and has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    fn forget(&mut self) {
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
