//! What is learnt of a child after its run began.

use std::sync::Arc;

use anabranch_proto::{
    Event, Scope, SpawnMechanism,
    event::{SessionUpdated, SpawnSessionStart},
};

use crate::{
    Announcement, EventProcessor, child::with_stated_parent, processor::Io, recent::Fresh, tree::ROOT,
};

impl EventProcessor {
    /// Takes what a late spawn says of a run that was made by fallback.
    pub(crate) fn upgrade(
        &mut self,
        node: usize,
        event: &Event,
        spawn: &SpawnSessionStart,
        fresh: Fresh,
        io: &mut Io<'_>,
    ) {
        let Some(record) = self.tree.record_mut(node) else { return };
        record.announcement = Announcement::Upgraded;
        record.metadata = event.metadata.clone();
        let run = record.runs;
        let stated_parent = (record.parent.as_ref() != Some(&spawn.parent_session_id))
            .then(|| spawn.parent_session_id.clone());
        if let Some(node) = self.nodes.get_mut(node) {
            node.spawned_by = Some(event.id.clone());
        }
        let update = SessionUpdated::new(spawn.child_session_id.clone(), run)
            .source_name(Arc::clone(&spawn.source_name))
            .source_type(spawn.source_type)
            .description(spawn.description.clone())
            .spawn_mechanism(spawn.spawn_mechanism)
            .tool_call_id(spawn.tool_call_id.clone());
        self.counters.upgrades += 1;
        let mut updated = Event::clone(event);
        updated.scope = self.announcing_scope(node, io);
        let update = self.without_waiting(node, &update).unwrap_or(update);
        self.learn(node, &update);
        updated.metadata = with_stated_parent(&event.metadata, stated_parent.as_ref());
        updated.kind = update.into();
        self.admit_announcement(Arc::new(updated), Some(fresh), io);
    }

    /// Takes what a producer says of a child later. Of a run that was never begun nothing can be said.
    pub(crate) fn update(
        &mut self,
        event: &Arc<Event>,
        update: &SessionUpdated,
        fresh: Fresh,
        io: &mut Io<'_>,
    ) {
        let child = self.tree.index_of(&update.child_session_id);
        let runs = child.and_then(|node| self.tree.record(node)).map_or(0, |record| record.runs);
        // Runs count from 1, so run 0 is the first.
        let run = update.run.max(1);
        let Some(node) = child.filter(|&node| node != ROOT && run <= runs) else {
            self.counters.late += 1;
            return;
        };
        let scope = self.announcing_scope(node, io);
        let without_waiting = self.without_waiting(node, update);
        let is_right = scope == event.scope && run == update.run && without_waiting.is_none();
        let mut update = without_waiting.unwrap_or_else(|| update.clone());
        update.run = run;
        if run == runs {
            self.learn(node, &update);
        }
        let event = if is_right {
            Arc::clone(event)
        } else {
            self.counters.rewritten += 1;
            let mut corrected = Event::clone(event);
            corrected.scope = scope;
            corrected.kind = update.into();
            Arc::new(corrected)
        };
        self.admit_announcement(event, Some(fresh), io);
    }

    /// The update without what cannot be: between its parent's runs nobody begins to wait for a child.
    fn without_waiting(&self, node: usize, update: &SessionUpdated) -> Option<SessionUpdated> {
        let parent = self.tree.record(node).map_or(ROOT, |record| record.parent_index);
        let is_sync = update.spawn_mechanism == Some(SpawnMechanism::Sync);
        if !is_sync || self.run(parent).is_some() || self.run(node).is_none() {
            return None;
        }
        let mut left = update.clone();
        left.spawn_mechanism = Some(SpawnMechanism::Manual);
        left.tool_call_id = None;
        Some(left)
    }

    fn learn(&mut self, node: usize, update: &SessionUpdated) {
        let Some(record) = self.tree.record_mut(node) else { return };
        if let Some(name) = &update.source_name {
            record.source_name = Arc::clone(name);
        }
        if let Some(source_type) = update.source_type {
            record.source_type = source_type;
        }
        if let Some(description) = &update.description {
            record.description.clone_from(description);
        }
        if update.spawn_mechanism.is_some() {
            record.mechanism = update.spawn_mechanism;
        }
        if update.tool_call_id.is_some() {
            record.tool_call_id.clone_from(&update.tool_call_id);
        }
        let parent = record.parent_index;
        self.note_call(node, parent, update.tool_call_id.as_ref());
    }

    /// The scope in which something is said of a child: its parent's, or where that has ended the nearest one's above
    /// that has not. A run in which it is said begins with a prompt.
    fn announcing_scope(&mut self, child: usize, io: &mut Io<'_>) -> Scope {
        let mut above = self.tree.record(child).map_or(ROOT, |record| record.parent_index);
        while above != ROOT && self.run(above).is_none() {
            above = self.tree.record(above).map_or(ROOT, |record| record.parent_index);
        }
        self.begin(above, None, io);
        self.scope_of(above)
    }
}
