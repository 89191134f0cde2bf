//! Whose the events are that name a sub-agent.

use std::{collections::HashMap, sync::Arc};

use crate::{ChildScope, EventKind, ReplyId, Scope, SessionId, SubagentId, event::SpawnSessionStart};

/// What a stream has said so far of whose its events are.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    children: HashMap<SubagentId, Known>,
    /// Whose each open reply is. More than one have the same id only if their producers do not share an id source.
    replies: HashMap<ReplyId, Vec<Scope>>,
    /// The root's session, once an event named it.
    root: Option<SessionId>,
}

#[derive(Debug)]
struct Known {
    scope: Arc<ChildScope>,
    provisional: bool,
}

impl Scopes {
    /// The scope of an event whose metadata names this sub-agent or none.
    pub(super) fn of(&mut self, named: Option<String>, kind: &EventKind) -> Scope {
        let Some(named) = named.map(SubagentId::new) else { return Scope::Root };
        if let Some(owners) = ended_reply(kind).and_then(|reply| self.replies.get(reply))
            && let Some(owner) = owners.last()
            && !owners.iter().any(|owner| is_named(owner, &named))
        {
            return owner.clone();
        }
        if let Some(known) = self.children.get(&named) {
            return Scope::Child(Arc::clone(&known.scope));
        }
        let scope = Arc::new(self.provisional(&named, kind));
        self.children.insert(named, Known { scope: Arc::clone(&scope), provisional: true });
        Scope::Child(scope)
    }

    /// Whether the scope is that of a child that no spawn has announced.
    pub(super) fn is_provisional(&self, scope: &Scope) -> bool {
        let known = scope.child().and_then(|child| self.children.get(&child.subagent_id));
        known.is_some_and(|known| known.provisional)
    }

    /// Remembers what later lines are read by.
    pub(super) fn learn(&mut self, scope: &Scope, kind: &EventKind) {
        if let EventKind::ReplyStart(start) = kind {
            if matches!(scope, Scope::Root) {
                self.root = Some(start.session_id.clone());
            }
            let owners = self.replies.entry(start.reply_id.clone()).or_default();
            if !owners.iter().any(|owner| owner.same_run(scope)) {
                owners.push(scope.clone());
            }
        } else if let EventKind::ReplyEnd(end) = kind {
            if let Some(owners) = self.replies.get_mut(&end.reply_id) {
                owners.retain(|owner| !owner.same_run(scope));
                if owners.is_empty() {
                    self.replies.remove(&end.reply_id);
                }
            }
        } else if let EventKind::SpawnSessionStart(spawn) = kind {
            if matches!(scope, Scope::Root) {
                self.root = Some(spawn.parent_session_id.clone());
            }
            self.announce(spawn);
        }
    }

    fn announce(&mut self, spawn: &SpawnSessionStart) {
        // What has no name of its own is known by its session.
        let named = spawn.subagent_id.clone();
        let named = named.unwrap_or_else(|| SubagentId::new(spawn.child_session_id.as_str()));
        let name = Arc::clone(&spawn.source_name);
        let scope = ChildScope::new(&spawn.child_session_id, &spawn.parent_session_id, &named, name)
            .run(spawn.run.unwrap_or(1))
            .tool_call_id(spawn.tool_call_id.clone())
            .source_type(spawn.source_type)
            .depth(spawn.depth);
        self.children.insert(named, Known { scope: Arc::new(scope), provisional: false });
    }

    fn provisional(&self, named: &SubagentId, kind: &EventKind) -> ChildScope {
        let parent = self.root.clone().unwrap_or_else(|| SessionId::new("root"));
        if let EventKind::ReplyStart(start) = kind {
            ChildScope::new(&start.session_id, parent, named, Arc::clone(&start.name))
        } else {
            ChildScope::new(named.as_str(), parent, named, named.as_str())
        }
    }
}

fn is_named(scope: &Scope, subagent_id: &SubagentId) -> bool {
    scope.child().is_some_and(|child| child.subagent_id == *subagent_id)
}

/// The reply of an event that ends it or something in it.
fn ended_reply(kind: &EventKind) -> Option<&ReplyId> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other kind is of whom its metadata names; only agentscope's ends can name somebody else"
    )]
    match kind {
        EventKind::ReplyEnd(end) => Some(&end.reply_id),
        EventKind::ModelCallEnd(end) => Some(&end.reply_id),
        EventKind::TextBlockEnd(end) => Some(&end.reply_id),
        EventKind::ThinkingBlockEnd(end) => Some(&end.reply_id),
        EventKind::DataBlockEnd(end) => Some(&end.reply_id),
        EventKind::ToolCallEnd(end) => Some(&end.reply_id),
        EventKind::ToolResultEnd(end) => Some(&end.reply_id),
        _ => None,
    }
}
