//! Spawns: which one begins a run, which one says what was missing, which one says nothing new.

use std::sync::Arc;

use anabranch_proto::{Event, Scope, SubagentId, event::SpawnSessionStart};
use tracing::debug;

use crate::{
    Announcement, EventProcessor,
    child::{Announced, with_stated_parent},
    processor::Io,
    recent::Fresh,
    run::Counting,
    tree::{ROOT, Status},
};

/// What becomes of a spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// It begins this run.
    Run(u32),
    /// It says what was missing of a run that was made by fallback.
    Upgrade(usize),
    /// It says nothing new.
    Duplicate,
}

impl EventProcessor {
    /// Takes a spawn.
    pub(crate) fn spawn(
        &mut self,
        event: &Arc<Event>,
        spawn: &SpawnSessionStart,
        fresh: Fresh,
        io: &mut Io<'_>,
    ) {
        match self.admission(event, spawn) {
            Admission::Run(run) => self.spawn_run(event, spawn, run, fresh, io),
            Admission::Upgrade(node) => self.upgrade(node, event, spawn, fresh, io),
            Admission::Duplicate => {
                self.counters.duplicates += 1;
                debug!(child = %spawn.child_session_id, run = spawn.run, "dropped a duplicate spawn");
            }
        }
    }

    fn admission(&self, event: &Event, spawn: &SpawnSessionStart) -> Admission {
        // Runs count from 1, so run 0 is the first.
        let stated_run = spawn.run.map(|run| run.max(1));
        let child = self.tree.index_of(&spawn.child_session_id);
        let Some((node, record)) = child.and_then(|node| Some((node, self.tree.record(node)?))) else {
            return Admission::Run(stated_run.unwrap_or(1));
        };
        if node == ROOT {
            return Admission::Duplicate;
        }
        if record.announcement == Announcement::Fallback && stated_run.is_none_or(|run| run == record.runs) {
            return Admission::Upgrade(node);
        }
        match stated_run {
            Some(run) if run > record.runs => Admission::Run(run),
            Some(_) => Admission::Duplicate,
            None => {
                let same_event =
                    self.nodes.get(node).is_some_and(|node| node.spawned_by.as_ref() == Some(&event.id));
                let same_call = spawn.tool_call_id.is_some() && spawn.tool_call_id == record.tool_call_id;
                if record.status == Status::Running || same_event || same_call {
                    Admission::Duplicate
                } else {
                    record.runs.checked_add(1).map_or(Admission::Duplicate, Admission::Run)
                }
            }
        }
    }

    fn spawn_run(
        &mut self,
        event: &Arc<Event>,
        spawn: &SpawnSessionStart,
        run: u32,
        fresh: Fresh,
        io: &mut Io<'_>,
    ) {
        // A spawn is an event of the parent's too: a parent that nobody announced is, before its child.
        if let Scope::Child(scope) = &event.scope
            && scope.child_session_id == spawn.parent_session_id
            && scope.child_session_id != spawn.child_session_id
            && self.tree.get(&scope.child_session_id).is_none_or(|parent| parent.runs < scope.run.max(1))
        {
            self.locate(scope, event, io);
        }
        let subagent_id =
            spawn.subagent_id.clone().unwrap_or_else(|| SubagentId::new(spawn.child_session_id.as_str()));
        let announced = Announced {
            spawn,
            run,
            subagent_id: subagent_id.clone(),
            metadata: &event.metadata,
            counting: if spawn.run.is_some() { Counting::Counted } else { Counting::Uncounted },
            announcement: Announcement::Spawn,
            at: event.created_at,
        };
        let Some(opened) = self.open_child(&announced, io) else { return };
        if let Some(node) = self.nodes.get_mut(opened.node) {
            node.spawned_by = Some(event.id.clone());
        }
        let corrected = self.correct(spawn, run, &subagent_id, &opened);
        let scope = self.scope_of(opened.parent);
        if corrected.is_none() && scope == event.scope && opened.stated_parent.is_none() {
            self.admit_announcement(Arc::clone(event), Some(fresh), io);
        } else {
            self.counters.rewritten += 1;
            let mut rewritten = Event::clone(event);
            rewritten.scope = scope;
            rewritten.metadata = with_stated_parent(&event.metadata, opened.stated_parent.as_ref());
            if let Some(corrected) = corrected {
                rewritten.kind = corrected.into();
            }
            self.admit_announcement(Arc::new(rewritten), Some(fresh), io);
        }
    }
}
