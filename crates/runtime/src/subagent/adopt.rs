//! Events of a foreign root session as those of a child.

use std::{collections::HashMap, sync::Arc};

use anabranch_proto::{ChildScope, Event, EventKind, Metadata, Scope, SessionId};

/// Puts a foreign session under a child of ours: its own events become the child's, its children the child's children.
pub(super) struct Adopt {
    child: Arc<ChildScope>,
    metadata: Metadata,
    /// What the foreign session calls itself, once it has said so.
    foreign_root: Option<SessionId>,
    /// The foreign scopes that were met, by address, each with what it became. Both are kept, so no address is used twice.
    scopes: HashMap<usize, (Arc<ChildScope>, Arc<ChildScope>)>,
}

impl Adopt {
    pub(super) fn new(child: Arc<ChildScope>, metadata: Metadata) -> Self {
        Self { child, metadata, foreign_root: None, scopes: HashMap::new() }
    }

    pub(super) fn scope(&self) -> Scope {
        Scope::Child(Arc::clone(&self.child))
    }

    pub(super) fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    /// Whether an event that was adopted is the child's own.
    pub(super) fn is_own(&self, event: &Event) -> bool {
        event.scope.child().is_some_and(|scope| Arc::ptr_eq(scope, &self.child))
    }

    /// The event as it is to stand on our stream.
    pub(super) fn adopt(&mut self, event: Arc<Event>) -> Arc<Event> {
        match &event.scope {
            Scope::Root => self.adopt_own(Arc::unwrap_or_clone(event)),
            Scope::Child(scope) => {
                let adopted = self.adopt_scope(&Arc::clone(scope));
                if Arc::ptr_eq(&adopted, scope) {
                    return event;
                }
                let mut event = Arc::unwrap_or_clone(event);
                event.scope = Scope::Child(adopted);
                if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
                    spawn.depth = spawn.depth.saturating_add(self.child.depth);
                }
                Arc::new(event)
            }
        }
    }

    /// An event of the foreign root: the child's own, in its scope, with its metadata.
    fn adopt_own(&mut self, mut event: Event) -> Arc<Event> {
        let session = &self.child.child_session_id;
        // A spawn's reserved keys say what it is for; on other events they are not the producer's to write.
        let is_spawn = matches!(event.kind, EventKind::SpawnSessionStart(_));
        let keys = if is_spawn { event.metadata } else { event.metadata.without_reserved() };
        if let EventKind::ReplyStart(start) = &mut event.kind {
            self.foreign_root = Some(std::mem::replace(&mut start.session_id, session.clone()));
        } else if let EventKind::ReplyEnd(end) = &mut event.kind {
            end.session_id = session.clone();
        } else if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
            self.foreign_root = Some(std::mem::replace(&mut spawn.parent_session_id, session.clone()));
            spawn.depth = self.child.depth.saturating_add(1);
        }
        event.scope = self.scope();
        event.metadata = keys.merged(&self.metadata);
        Arc::new(event)
    }

    /// A foreign child's scope, under the child. One that is ours already stays.
    fn adopt_scope(&mut self, scope: &Arc<ChildScope>) -> Arc<ChildScope> {
        let Some(foreign_root) = &self.foreign_root else { return Arc::clone(scope) };
        if scope.parent_session_id == self.child.child_session_id {
            return Arc::clone(scope);
        }
        let address = Arc::as_ptr(scope).addr();
        let (_, adopted) = self.scopes.entry(address).or_insert_with(|| {
            let mut adopted = ChildScope::clone(scope).depth(scope.depth.saturating_add(self.child.depth));
            if adopted.parent_session_id == *foreign_root {
                adopted.parent_session_id = self.child.child_session_id.clone();
            }
            (Arc::clone(scope), Arc::new(adopted))
        });
        Arc::clone(adopted)
    }
}
