//! Opening a child's run: where the child goes, and whether it may.

use std::sync::Arc;

use anabranch_proto::{
    ChildScope, Metadata, Outcome, Scope, SessionId, SpawnMechanism, SubagentId, Timestamp, ToolCallId,
    event::SpawnSessionStart,
};
use tracing::warn;

use crate::{
    Announcement, Ending, EventProcessor,
    processor::Io,
    run::{Counting, Run},
    tree::ROOT,
};

/// The key of a spawn's metadata that keeps the parent it stated, where the child was put under the root instead.
const STATED_PARENT: &str = "stated_parent_session_id";

/// A run that is to be announced.
pub(crate) struct Announced<'a> {
    pub(crate) spawn: &'a SpawnSessionStart,
    pub(crate) run: u32,
    pub(crate) subagent_id: SubagentId,
    pub(crate) metadata: &'a Metadata,
    pub(crate) counting: Counting,
    pub(crate) announcement: Announcement,
    pub(crate) at: Timestamp,
}

/// A run that was opened: what its announcement is to say.
pub(crate) struct Opened {
    pub(crate) node: usize,
    pub(crate) parent: usize,
    /// The parent that was stated, where the child is not under it.
    pub(crate) stated_parent: Option<SessionId>,
    /// What creates the child, once it is known who can wait for it.
    pub(crate) mechanism: SpawnMechanism,
    pub(crate) tool_call_id: Option<ToolCallId>,
}

impl EventProcessor {
    /// Opens a run of a child, or refuses it because of a limit.
    pub(crate) fn open_child(&mut self, announced: &Announced<'_>, io: &mut Io<'_>) -> Option<Opened> {
        let child = &announced.spawn.child_session_id;
        let stated = &announced.spawn.parent_session_id;
        let known = self.tree.index_of(child);
        let parent = self.parent_for(known, stated);
        let depth = self.tree.record(parent).map_or(0, |parent| parent.depth).saturating_add(1);
        // What a parent that is not in the tree lies at is only what the spawn says.
        let depth =
            if self.tree.index_of(stated).is_none() { depth.max(announced.spawn.depth) } else { depth };
        if depth > self.limits.max_depth
            || (known.is_none() && self.tree.len() > self.limits.max_spawned)
            || self.refused.contains(stated)
        {
            self.refuse(child, known, announced.run);
            return None;
        }
        if let Some(node) = known {
            self.close_run(node, &Ending::new(Outcome::Interrupted), io);
        }
        self.begin_parent(parent, announced, io);

        // A child under another parent than its spawn says, or between the root's runs, is no call's: nobody waits for it.
        let is_no_calls =
            self.tree.record(parent).is_some_and(|record| record.id != *stated) || self.run(parent).is_none();
        let stated_mechanism = announced.spawn.spawn_mechanism;
        let is_left = is_no_calls && stated_mechanism == SpawnMechanism::Sync;
        let mechanism = if is_left { SpawnMechanism::Manual } else { stated_mechanism };
        let tool_call_id = announced.spawn.tool_call_id.clone().filter(|_| !is_no_calls);

        let node = self.tree.begin_child(child, parent);
        self.tree.begin_run(node, announced.run, announced.at);
        let spawn = announced.spawn;
        if let Some(record) = self.tree.record_mut(node) {
            record.subagent_id = Some(announced.subagent_id.clone());
            record.source_name = Arc::clone(&spawn.source_name);
            record.source_type = spawn.source_type;
            record.mechanism = Some(mechanism);
            record.description.clone_from(&spawn.description);
            record.tool_call_id.clone_from(&tool_call_id);
            record.metadata = announced.metadata.clone();
            record.announcement = announced.announcement;
        }
        let parent_record = self.tree.record(parent)?;
        let scope = ChildScope::new(
            child.clone(),
            parent_record.id.clone(),
            announced.subagent_id.clone(),
            Arc::clone(&spawn.source_name),
        )
        .run(announced.run)
        .tool_call_id(tool_call_id.clone())
        .source_type(spawn.source_type)
        .depth(parent_record.depth + 1);
        let stated_parent = (parent_record.id != *stated).then(|| stated.clone());
        self.open(node, Run::new(scope.into(), announced.counting));
        if stated_parent.is_some() {
            self.counters.reparented += 1;
        }
        let is_between = parent == ROOT && self.run(ROOT).is_none();
        if let Some(node) = self.nodes.get_mut(node) {
            node.is_between = is_between;
        }
        self.note_call(node, parent, tool_call_id.as_ref());
        Some(Opened { node, parent, stated_parent, mechanism, tool_call_id })
    }

    /// Where a child goes: under the parent that is stated, if that has an open run which does not end with the
    /// child's last one; else under the root.
    fn parent_for(&self, child: Option<usize>, stated: &SessionId) -> usize {
        let Some(parent) = self.tree.index_of(stated).filter(|&parent| self.run(parent).is_some()) else {
            return ROOT;
        };
        let mut above = parent;
        while child.is_some() && above != ROOT {
            if Some(above) == child {
                return ROOT;
            }
            above = self.tree.record(above).map_or(ROOT, |record| record.parent_index);
        }
        parent
    }

    /// A spawn is an event of its parent's run, which begins with a prompt. Only a child that nobody waits for may come
    /// before the root's first prompt.
    fn begin_parent(&mut self, parent: usize, announced: &Announced<'_>, io: &mut Io<'_>) {
        if parent != ROOT {
            self.begin(parent, None, io);
        } else if self.tree.root().runs == 0 && announced.spawn.spawn_mechanism == SpawnMechanism::Sync {
            self.open_root(announced.at);
            self.begin(ROOT, None, io);
        }
    }

    fn refuse(&mut self, child: &SessionId, known: Option<usize>, run: u32) {
        self.counters.refused += 1;
        let new = match known.and_then(|node| self.nodes.get_mut(node)) {
            Some(node) => {
                let new = node.refused_run < run;
                node.refused_run = node.refused_run.max(run);
                new
            }
            None => self.refused.insert(child),
        };
        if new {
            warn!(
                %child,
                run,
                max_depth = self.limits.max_depth,
                max_spawned = self.limits.max_spawned,
                "refused a child beyond the limits"
            );
        }
    }

    /// What a spawn is to say where run, sub-agent, parent, depth or who waits for it are not what the tree has.
    pub(crate) fn correct(
        &self,
        spawn: &SpawnSessionStart,
        run: u32,
        subagent_id: &SubagentId,
        opened: &Opened,
    ) -> Option<SpawnSessionStart> {
        let parent = self.tree.record(opened.parent);
        let is_right = spawn.run == Some(run)
            && spawn.subagent_id.as_ref() == Some(subagent_id)
            && spawn.spawn_mechanism == opened.mechanism
            && spawn.tool_call_id == opened.tool_call_id
            && parent
                .is_none_or(|parent| spawn.parent_session_id == parent.id && spawn.depth == parent.depth + 1);
        if is_right {
            return None;
        }
        let mut corrected = spawn.clone();
        corrected.run = Some(run);
        corrected.subagent_id = Some(subagent_id.clone());
        corrected.spawn_mechanism = opened.mechanism;
        corrected.tool_call_id.clone_from(&opened.tool_call_id);
        if let Some(parent) = parent {
            corrected.parent_session_id = parent.id.clone();
            corrected.depth = parent.depth + 1;
        }
        Some(corrected)
    }

    /// Remembers by which call of its parent a child was spawned.
    pub(crate) fn note_call(&mut self, child: usize, parent: usize, call: Option<&ToolCallId>) {
        if let (Some(call), Some(node)) = (call, self.nodes.get_mut(parent)) {
            node.called.entry(call.clone()).or_default().push(child);
        }
    }

    /// What the spawn of a child brought from the application, and whose it is: the metadata of what is made for a run that
    /// has not said anything itself.
    pub(crate) fn brought(&self, node: usize) -> Metadata {
        let Some(record) = self.tree.record(node) else { return Metadata::default() };
        let Some(subagent_id) = &record.subagent_id else { return Metadata::default() };
        Metadata::default()
            .with_json("subagent_id", subagent_id.as_str().into())
            .merged(&record.metadata.clone().without_reserved())
    }

    pub(crate) fn scope_of(&self, node: usize) -> Scope {
        self.run(node).map_or(Scope::Root, |run| run.scope.clone())
    }
}

pub(crate) fn with_stated_parent(metadata: &Metadata, stated: Option<&SessionId>) -> Metadata {
    let metadata = metadata.clone();
    match stated {
        Some(stated) => metadata.with(STATED_PARENT, stated.as_str()),
        None => metadata,
    }
}
