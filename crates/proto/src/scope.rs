//! Whose event it is.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    SessionId, SubagentId, ToolCallId,
    ids::{HasIds, Ids},
};

/// Whose event this is: the root's own, or one child's.
///
/// Scopes are flat. At any depth an event names the session that produced it, that session's parent and its depth.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "an event is the root's or a child's; there is no third")]
pub enum Scope {
    /// The root session's own event.
    Root,
    /// An event of a child session. Shared by the events of one run.
    Child(Arc<ChildScope>),
}

impl Scope {
    /// The child's scope, where the event is a child's.
    #[must_use]
    pub fn child(&self) -> Option<&Arc<ChildScope>> {
        match self {
            Self::Root => None,
            Self::Child(child) => Some(child),
        }
    }

    /// How deep the session lies: 0 for the root, 1 for its children.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.child().map_or(0, |child| child.depth)
    }

    /// The session that produced the event, given the root's.
    #[must_use]
    pub fn session<'a>(&'a self, root: &'a SessionId) -> &'a SessionId {
        self.child().map_or(root, |child| &child.child_session_id)
    }

    /// Whether both name the same session and run.
    #[must_use]
    pub fn same_run(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Root, Self::Root) => true,
            (Self::Child(a), Self::Child(b)) => {
                Arc::ptr_eq(a, b) || (a.run == b.run && a.child_session_id == b.child_session_id)
            }
            (Self::Root, Self::Child(_)) | (Self::Child(_), Self::Root) => false,
        }
    }
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Root, Self::Root) => true,
            (Self::Child(a), Self::Child(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Root, Self::Child(_)) | (Self::Child(_), Self::Root) => false,
        }
    }
}

impl Eq for Scope {}

impl From<ChildScope> for Scope {
    fn from(child: ChildScope) -> Self {
        Self::Child(Arc::new(child))
    }
}

/// One run of a child session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ChildScope {
    /// The child's session.
    pub child_session_id: SessionId,
    /// Which run of that session, from 1.
    #[serde(default = "first_run")]
    pub run: u32,
    /// The session that spawned the child.
    pub parent_session_id: SessionId,
    /// The sub-agent as the application knows it.
    pub subagent_id: SubagentId,
    /// The parent's tool call that spawned the child, where one did.
    pub tool_call_id: Option<ToolCallId>,
    /// The name of the agent or team that runs in the child session.
    pub source_name: Arc<str>,
    /// What runs in the child session.
    pub source_type: SourceType,
    /// How deep the child lies, from 1.
    pub depth: u32,
}

fn first_run() -> u32 {
    1
}

impl ChildScope {
    /// The first run of an agent directly below the root, spawned by no tool call.
    pub fn new(
        child_session_id: impl Into<SessionId>,
        parent_session_id: impl Into<SessionId>,
        subagent_id: impl Into<SubagentId>,
        source_name: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            child_session_id: child_session_id.into(),
            run: 1,
            parent_session_id: parent_session_id.into(),
            subagent_id: subagent_id.into(),
            tool_call_id: None,
            source_name: source_name.into(),
            source_type: SourceType::Agent,
            depth: 1,
        }
    }

    /// Which run of the session this is, from 1.
    #[must_use]
    pub fn run(mut self, run: u32) -> Self {
        self.run = run;
        self
    }

    /// The parent's tool call that spawned the child.
    #[must_use]
    pub fn tool_call_id(mut self, tool_call_id: impl Into<Option<ToolCallId>>) -> Self {
        self.tool_call_id = tool_call_id.into();
        self
    }

    /// What runs in the child session.
    #[must_use]
    pub fn source_type(mut self, source_type: SourceType) -> Self {
        self.source_type = source_type;
        self
    }

    /// How deep the child lies, from 1.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }
}

impl HasIds for ChildScope {
    fn share_ids(&mut self, ids: &mut Ids) {
        self.child_session_id.share_ids(ids);
        self.parent_session_id.share_ids(ids);
        self.subagent_id.share_ids(ids);
        self.tool_call_id.share_ids(ids);
    }
}

/// What runs in a child session (RFC-0014, `source_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SourceType {
    /// One agent.
    Agent,
    /// A team whose members run side by side.
    TeamParallel,
    /// A team whose members run one after another.
    TeamSequential,
}

/// What created a child session (RFC-0014, `spawn_mechanism`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SpawnMechanism {
    /// A tool call that waits for the child.
    Sync,
    /// A tool call that started the child in the background.
    AsyncWorker,
    /// Code.
    Manual,
}

impl SpawnMechanism {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::AsyncWorker => "async_worker",
            Self::Manual => "manual",
        }
    }
}

impl fmt::Display for SpawnMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
