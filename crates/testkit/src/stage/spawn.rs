//! How children come.

use std::sync::Arc;

use anabranch_proto::{
    ChildScope, Metadata, Scope, SessionId, SourceType, SpawnMechanism, SubagentId, ToolCallId,
    event::SpawnSessionStart,
};

use super::Actor;

/// A child that is to be spawned.
///
/// Its session is `ses_1`, `ses_2`… in the order of spawning, and its sub-agent `sa_1`… likewise.
#[derive(Clone, Debug)]
#[must_use = "nothing is spawned before `now`"]
pub struct SpawnBuilder {
    parent: Actor,
    name: Arc<str>,
    mechanism: SpawnMechanism,
    source_type: SourceType,
    description: Option<String>,
    tool_call_id: Option<ToolCallId>,
    metadata: Metadata,
    again: Option<Actor>,
}

impl SpawnBuilder {
    pub(super) fn new(parent: Actor, name: &str) -> Self {
        Self {
            metadata: parent.metadata().clone().without_reserved(),
            parent,
            name: name.into(),
            mechanism: SpawnMechanism::Sync,
            source_type: SourceType::Agent,
            description: None,
            tool_call_id: None,
            again: None,
        }
    }

    /// What creates it; by default a tool call that waits.
    pub fn mechanism(mut self, mechanism: SpawnMechanism) -> Self {
        self.mechanism = mechanism;
        self
    }

    /// What runs in it; by default an agent.
    pub fn source_type(mut self, source_type: SourceType) -> Self {
        self.source_type = source_type;
        self
    }

    /// What it is to do; by default `Run <name> task`.
    pub fn description(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// The parent's call that spawns it; by default none.
    pub fn call(mut self, call: &ToolCallId) -> Self {
        self.tool_call_id = Some(call.clone());
        self
    }

    /// A key on the spawn and on every event of the child.
    pub fn with(mut self, key: &str, value: impl Into<serde_json::Value>) -> Self {
        self.metadata = self.metadata.with(key, value);
        self
    }

    /// Makes it the next run of the session of `child`.
    pub fn again(mut self, child: &Actor) -> Self {
        self.again = Some(child.clone());
        self
    }

    /// Writes the spawn down; gives the child.
    #[expect(clippy::must_use_candidate, reason = "what it is for is what it writes down")]
    pub fn now(self) -> Actor {
        let (parent, metadata) = (self.parent.clone(), self.parent.metadata().clone().merged(&self.metadata));
        let (child, spawn) = self.unannounced();
        parent.stage().push(parent.scope().clone(), metadata, spawn.into());
        child
    }

    /// Writes nothing down: gives the child, and its spawn, which the parent can emit late or never.
    #[must_use]
    pub fn unannounced(self) -> (Actor, SpawnSessionStart) {
        let (session, subagent) = self.ids();
        let run = self
            .again
            .as_ref()
            .and_then(|child| child.scope().child())
            .map_or(1, |scope| scope.run.saturating_add(1));
        let depth = self.parent.scope().depth().saturating_add(1);
        let description = self.description.clone().unwrap_or_else(|| format!("Run {} task", self.name));
        let scope = ChildScope::new(&session, self.parent.session(), &subagent, Arc::clone(&self.name))
            .run(run)
            .tool_call_id(self.tool_call_id)
            .source_type(self.source_type)
            .depth(depth);
        let spawn = SpawnSessionStart::new(&scope, self.mechanism, description);
        let metadata = self.metadata.with("subagent_id", subagent.as_str());
        let child = match self.again {
            Some(child) => child.rescoped(Scope::from(scope), metadata),
            None => Actor::new(self.parent.stage().clone(), session, self.name, Scope::from(scope), metadata),
        };
        (child, spawn)
    }

    fn ids(&self) -> (SessionId, SubagentId) {
        if let Some(child) = &self.again
            && let Some(scope) = child.scope().child()
        {
            return (scope.child_session_id.clone(), scope.subagent_id.clone());
        }
        let count = self.parent.stage().next_session();
        (SessionId::new(format!("ses_{count}")), SubagentId::new(format!("sa_{count}")))
    }
}
