//! Whose event it is, and what happens where nobody announced that.

use std::sync::Arc;

use anabranch_proto::{ChildScope, Event, Fields, Metadata, Scope, SpawnMechanism, event::SpawnSessionStart};
use tracing::warn;

use crate::{
    Announcement, EventProcessor,
    child::{Announced, with_stated_parent},
    processor::{Fit, Io, address},
    run::Counting,
    tree::ROOT,
};

impl EventProcessor {
    /// The run that an event of a child belongs to, and whether its scope says so rightly. A run that nobody announced
    /// is announced here. Runs count from 1, so run 0 is the first.
    pub(crate) fn locate(
        &mut self,
        scope: &Arc<ChildScope>,
        event: &Event,
        io: &mut Io<'_>,
    ) -> Option<(usize, Fit)> {
        if let Some(&node) = self.scopes.get(&address(scope)) {
            return Some((node, Fit::Right));
        }
        let stated_run = scope.run.max(1);
        let node = match self.tree.index_of(&scope.child_session_id) {
            Some(ROOT) => {
                self.counters.refused_events += 1;
                return None;
            }
            Some(node) => {
                let runs = self.tree.record(node).map_or(0, |record| record.runs);
                if stated_run > runs {
                    self.fall_back(scope, event, io)?
                } else if self
                    .run(node)
                    .is_some_and(|run| run.counting == Counting::Uncounted || stated_run == runs)
                {
                    node
                } else {
                    self.counters.late += 1;
                    return None;
                }
            }
            None => self.fall_back(scope, event, io)?,
        };
        let run = self.run_mut(node)?;
        let known = run.scope.child()?;
        let fits = known.run == scope.run
            && known.parent_session_id == scope.parent_session_id
            && known.depth == scope.depth
            && known.subagent_id == scope.subagent_id;
        if !fits {
            return Some((node, Fit::Wrong));
        }
        // The scope says the same: from here on this one is compared, by its address.
        let before = address(known);
        run.scope = Scope::Child(Arc::clone(scope));
        self.scopes.remove(&before);
        self.scopes.insert(address(scope), node);
        Some((node, Fit::Right))
    }

    /// Announces a run that nobody announced, from what its first event says of it.
    fn fall_back(&mut self, scope: &ChildScope, event: &Event, io: &mut Io<'_>) -> Option<usize> {
        let run = scope.run.max(1);
        let refused_run = self.tree.index_of(&scope.child_session_id).and_then(|node| self.nodes.get(node));
        if self.refused.contains(&scope.child_session_id)
            || refused_run.is_some_and(|node| node.refused_run >= run)
        {
            self.counters.refused_events += 1;
            return None;
        }
        let description = format!("Run {} task", scope.source_name);
        let spawn = SpawnSessionStart::new(scope, SpawnMechanism::Manual, description);
        // The event is the child's and says so in its metadata; the spawn is the parent's.
        let metadata = without_subagent(&event.metadata);
        let at = io.at;
        let announced = Announced {
            spawn: &spawn,
            run,
            subagent_id: scope.subagent_id.clone(),
            metadata: &metadata,
            counting: Counting::Counted,
            announcement: Announcement::Fallback,
            at,
        };
        let opened = self.open_child(&announced, io)?;
        self.counters.fallbacks += 1;
        self.counters.synthesised += 1;
        warn!(
            child = %scope.child_session_id,
            run,
            parent = %scope.parent_session_id,
            "a child's event came before its spawn; announced it from the event"
        );
        let corrected = self.correct(&spawn, run, &scope.subagent_id, &opened).unwrap_or(spawn);
        let parent = self.scope_of(opened.parent);
        let metadata = with_stated_parent(&metadata, opened.stated_parent.as_ref());
        let metadata = match parent.child() {
            Some(parent) => metadata.with("subagent_id", parent.subagent_id.as_str()),
            None => metadata,
        };
        let spawn = Event::new(io.stamp.event_id_at(at), at, parent, metadata, corrected);
        self.admit_announcement(Arc::new(spawn), None, io);
        Some(opened.node)
    }
}

fn without_subagent(metadata: &Metadata) -> Metadata {
    if metadata.get("subagent_id").is_none() {
        return metadata.clone();
    }
    let mut fields = Fields::default();
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "subagent_id") {
        fields.insert(key, value.clone());
    }
    fields.into()
}
