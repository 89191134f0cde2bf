//! Whose the events are that name a sub-agent.

use std::{collections::HashMap, sync::Arc};

use crate::{
    ChildScope, EventKind, ReplyId, Scope, SessionId, SubagentId, ToolCallId, event::SpawnSessionStart,
};

/// What a stream has said so far of whose its events are.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    children: HashMap<SubagentId, Known>,
    replies: HashMap<ReplyId, Reply>,
    /// The reply and the owner that were learnt last; most events repeat them.
    latest: Option<(ReplyId, Scope)>,
    /// The sessions that children have, each with the number of its latest run, 0 where no spawn named it.
    sessions: HashMap<SessionId, u32>,
    /// The root's session, once an event named it.
    root: Option<SessionId>,
}

#[derive(Debug)]
struct Known {
    scope: Arc<ChildScope>,
    provisional: bool,
}

/// An open reply.
#[derive(Debug, Default)]
struct Reply {
    owners: Owners,
    /// Whose the results are that have begun and not ended.
    results: HashMap<ToolCallId, Owners>,
}

/// Whose something is, by the sub-agents' names. More than one have the same id only if their producers do not share
/// an id source.
#[derive(Debug, Default)]
struct Owners(HashMap<Option<SubagentId>, Scope>);

impl Owners {
    fn add(&mut self, scope: &Scope) {
        self.0.insert(key(scope), scope.clone());
    }

    fn remove(&mut self, scope: &Scope) {
        self.0.remove(&key(scope));
    }

    /// The owner where it is told that it is not the one who is named: the only one, else the root.
    fn instead_of(&self, named: &SubagentId) -> Option<&Scope> {
        if self.0.contains_key(&Some(named.clone())) {
            return None;
        }
        match self.0.len() {
            1 => self.0.values().next(),
            _ => self.0.get(&None),
        }
    }
}

fn key(scope: &Scope) -> Option<SubagentId> {
    scope.child().map(|child| child.subagent_id.clone())
}

impl Scopes {
    /// The scope of an event whose metadata names this sub-agent or none.
    pub(super) fn of(&mut self, named: Option<String>, kind: &EventKind) -> Scope {
        let Some(named) = named.map(SubagentId::new) else { return Scope::Root };
        if let Some(owner) = self.owner_instead_of(&named, kind) {
            return owner.clone();
        }
        if let Some(known) = self.children.get(&named) {
            return Scope::Child(Arc::clone(&known.scope));
        }
        let scope = Arc::new(self.provisional(&named, kind));
        self.sessions.entry(scope.child_session_id.clone()).or_insert(0);
        self.children.insert(named, Known { scope: Arc::clone(&scope), provisional: true });
        Scope::Child(scope)
    }

    /// Whose an end is where it is not that of the sub-agent that its metadata names.
    fn owner_instead_of(&self, named: &SubagentId, kind: &EventKind) -> Option<&Scope> {
        let (reply, true) = reply_of(kind)? else { return None };
        let reply = self.replies.get(reply)?;
        // A result is of whom it began for, whoever else has a reply of that id.
        if let EventKind::ToolResultEnd(end) = kind
            && let Some(result) = reply.results.get(&end.tool_call_id)
        {
            return result.instead_of(named);
        }
        reply.owners.instead_of(named)
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
            self.replies.entry(start.reply_id.clone()).or_default().owners.add(scope);
        } else if let EventKind::ReplyEnd(end) = kind {
            self.latest = None;
            if let Some(reply) = self.replies.get_mut(&end.reply_id) {
                reply.owners.remove(scope);
                if reply.owners.0.is_empty() {
                    self.replies.remove(&end.reply_id);
                }
            }
        } else if let EventKind::ToolResultEnd(end) = kind {
            if let Some(reply) = self.replies.get_mut(&end.reply_id)
                && let Some(result) = reply.results.get_mut(&end.tool_call_id)
            {
                result.remove(scope);
                if result.0.is_empty() {
                    reply.results.remove(&end.tool_call_id);
                }
            }
        } else if let EventKind::SpawnSessionStart(spawn) = kind {
            if matches!(scope, Scope::Root) {
                self.root = Some(spawn.parent_session_id.clone());
            }
            self.announce(spawn);
        } else if let Some((reply, false)) = reply_of(kind) {
            self.learn_owner(reply, scope);
            if let EventKind::ToolResultStart(start) = kind
                && let Some(reply) = self.replies.get_mut(reply)
            {
                reply.results.entry(start.tool_call_id.clone()).or_default().add(scope);
            }
        }
    }

    /// Learns of a reply from something in it: its `REPLY_START` may have been in the stream before this one.
    fn learn_owner(&mut self, reply_id: &ReplyId, scope: &Scope) {
        if self.latest.as_ref().is_some_and(|(reply, owner)| reply == reply_id && owner.same_run(scope)) {
            return;
        }
        self.latest = Some((reply_id.clone(), scope.clone()));
        let owners = &mut self.replies.entry(reply_id.clone()).or_default().owners;
        // Who answers a child's question may name nobody, which does not make the reply the root's.
        if owners.0.is_empty() || scope.child().is_some() {
            owners.add(scope);
        }
    }

    fn announce(&mut self, spawn: &SpawnSessionStart) {
        // What has no name of its own is known by its session.
        let named = spawn.subagent_id.clone();
        let named = named.unwrap_or_else(|| SubagentId::new(spawn.child_session_id.as_str()));
        let latest = self.sessions.entry(spawn.child_session_id.clone()).or_insert(0);
        *latest = spawn.run.unwrap_or_else(|| latest.saturating_add(1));
        let name = Arc::clone(&spawn.source_name);
        let scope = ChildScope::new(&spawn.child_session_id, &spawn.parent_session_id, &named, name)
            .run(*latest)
            .tool_call_id(spawn.tool_call_id.clone())
            .source_type(spawn.source_type)
            .depth(spawn.depth);
        self.children.insert(named, Known { scope: Arc::new(scope), provisional: false });
    }

    fn provisional(&self, named: &SubagentId, kind: &EventKind) -> ChildScope {
        let parent = self.root.clone().unwrap_or_else(|| SessionId::new("root"));
        let is_free = |session: &SessionId| *session != parent && !self.sessions.contains_key(session);
        if let EventKind::ReplyStart(start) = kind {
            let name = Arc::clone(&start.name);
            if is_free(&start.session_id) {
                return ChildScope::new(&start.session_id, parent, named, name);
            }
            // Agents that were built with one session's id are still several.
            return ChildScope::new(free(named, is_free), parent, named, name);
        }
        ChildScope::new(free(named, is_free), parent, named, named.as_str())
    }
}

/// A session that nobody has, called like the sub-agent if that is one.
fn free(named: &SubagentId, is_free: impl Fn(&SessionId) -> bool) -> SessionId {
    let own = SessionId::new(named.as_str());
    if is_free(&own) {
        return own;
    }
    let mut others = (2_u64..).map(|number| SessionId::new(format!("{named}#{number}")));
    others.find(is_free).unwrap_or(own)
}

/// The reply that an event is of, and whether the event ends it or something in it. Only agentscope's ends can name
/// somebody else than their own agent.
fn reply_of(kind: &EventKind) -> Option<(&ReplyId, bool)> {
    match kind {
        EventKind::ReplyEnd(event) => Some((&event.reply_id, true)),
        EventKind::ModelCallEnd(event) => Some((&event.reply_id, true)),
        EventKind::TextBlockEnd(event) => Some((&event.reply_id, true)),
        EventKind::ThinkingBlockEnd(event) => Some((&event.reply_id, true)),
        EventKind::DataBlockEnd(event) => Some((&event.reply_id, true)),
        EventKind::ToolCallEnd(event) => Some((&event.reply_id, true)),
        EventKind::ToolResultEnd(event) => Some((&event.reply_id, true)),
        EventKind::ReplyStart(event) => Some((&event.reply_id, false)),
        EventKind::ModelCallStart(event) => Some((&event.reply_id, false)),
        EventKind::TextBlockStart(event) => Some((&event.reply_id, false)),
        EventKind::TextBlockDelta(event) => Some((&event.reply_id, false)),
        EventKind::ThinkingBlockStart(event) => Some((&event.reply_id, false)),
        EventKind::ThinkingBlockDelta(event) => Some((&event.reply_id, false)),
        EventKind::DataBlockStart(event) => Some((&event.reply_id, false)),
        EventKind::DataBlockDelta(event) => Some((&event.reply_id, false)),
        EventKind::HintBlock(event) => Some((&event.reply_id, false)),
        EventKind::ToolCallStart(event) => Some((&event.reply_id, false)),
        EventKind::ToolCallDelta(event) => Some((&event.reply_id, false)),
        EventKind::ToolResultStart(event) => Some((&event.reply_id, false)),
        EventKind::ToolResultTextDelta(event) => Some((&event.reply_id, false)),
        EventKind::ToolResultDataDelta(event) => Some((&event.reply_id, false)),
        EventKind::RequireUserConfirm(event) => Some((&event.reply_id, false)),
        EventKind::RequireExternalExecution(event) => Some((&event.reply_id, false)),
        EventKind::UserConfirmResult(event) => Some((&event.reply_id, false)),
        EventKind::UserInterrupt(event) => Some((&event.reply_id, false)),
        EventKind::ExternalExecutionResult(event) => Some((&event.reply_id, false)),
        EventKind::ExceedMaxIters(event) => Some((&event.reply_id, false)),
        EventKind::UserMessage(_)
        | EventKind::SpawnSessionStart(_)
        | EventKind::SessionUpdated(_)
        | EventKind::StreamComplete(_)
        | EventKind::Custom(_)
        | EventKind::Unknown(_) => None,
    }
}
