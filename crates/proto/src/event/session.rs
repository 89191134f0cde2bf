//! Where sessions and their runs begin and end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{HasIds, Ids, Payload, payload};
use crate::{
    ChildScope, ContentBlock, ErrorInfo, Message, MessageId, Outcome, SessionId, SourceType, SpawnMechanism,
    SubagentId, ToolCallId,
};

payload! {
    /// A prompt, in the scope of the session that is prompted.
    ///
    /// The first event of each run, the root's and a child's alike: without it no conversation could be rebuilt.
    pub struct UserMessage {
        /// The message's id.
        message_id: MessageId,
        /// What is asked.
        content: Vec<ContentBlock>,
        /// Who asks.
        origin: MessageOrigin,
    }
}

/// Who wrote a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessageOrigin {
    /// A person.
    User,
    /// The agent that spawned the session.
    Parent,
    /// A person or an agent, while the run was under way.
    Steering,
}

/// A child session's run begins (RFC-0014). In the parent's scope, before the child's first event of the run.
///
/// What the RFC calls `metadata` is the event's own: `prompt` (up to 200 characters), `task_id`, `user_message_id`,
/// `max_depth`, then the caller's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SpawnSessionStart {
    /// The child's session.
    pub child_session_id: SessionId,
    /// The session that spawns it.
    pub parent_session_id: SessionId,
    /// The parent's tool call that spawns it, where one does.
    #[serde(default)]
    pub tool_call_id: Option<ToolCallId>,
    /// What creates it.
    pub spawn_mechanism: SpawnMechanism,
    /// The name of the agent or team that will run in it.
    pub source_name: Arc<str>,
    /// What will run in it.
    pub source_type: SourceType,
    /// How deep it lies: 1 for a child of the root.
    #[serde(default = "first")]
    pub depth: u32,
    /// What it will do, for people.
    pub description: String,
    /// Which run of the session this is, from 1. Absent in a line from a producer that does not count runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// The sub-agent as the application knows it. Absent in a line from a producer that has no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_id: Option<SubagentId>,
}

fn first() -> u32 {
    1
}

impl SpawnSessionStart {
    /// The start of the run that `scope` names: its events will carry the same scope.
    pub fn new(scope: &ChildScope, spawn_mechanism: SpawnMechanism, description: impl Into<String>) -> Self {
        Self {
            child_session_id: scope.child_session_id.clone(),
            parent_session_id: scope.parent_session_id.clone(),
            tool_call_id: scope.tool_call_id.clone(),
            spawn_mechanism,
            source_name: Arc::clone(&scope.source_name),
            source_type: scope.source_type,
            depth: scope.depth,
            description: description.into(),
            run: Some(scope.run),
            subagent_id: Some(scope.subagent_id.clone()),
        }
    }
}

impl Payload for SpawnSessionStart {
    const FIELDS: &'static [&'static str] = &[
        "child_session_id",
        "parent_session_id",
        "tool_call_id",
        "spawn_mechanism",
        "source_name",
        "source_type",
        "depth",
        "description",
        "run",
        "subagent_id",
    ];
}

impl HasIds for SpawnSessionStart {
    fn share_ids(&mut self, ids: &mut Ids) {
        self.child_session_id.share_ids(ids);
        self.parent_session_id.share_ids(ids);
        self.tool_call_id.share_ids(ids);
        self.subagent_id.share_ids(ids);
    }
}

payload! {
    /// Something was learnt of a child after it had begun. In the parent's scope; what is absent did not change.
    ///
    /// What was learnt of the application's keys is in the event's metadata.
    pub struct SessionUpdated {
        /// The child's session.
        child_session_id: SessionId,
        /// Which run of it.
        run: u32,
    }
    optional {
        /// The name of the agent or team.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_name: Option<Arc<str>> = None,
        /// What runs in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_type: Option<SourceType> = None,
        /// What it will do, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String> = None,
        /// What created it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spawn_mechanism: Option<SpawnMechanism> = None,
        /// The parent's tool call that spawned it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<ToolCallId> = None,
    }
}

payload! {
    /// A session's run ends: the one terminal, and the last event of the run.
    pub struct StreamComplete {
        /// How it ended.
        outcome: Outcome,
    }
    optional {
        /// What went wrong, where it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ErrorInfo> = None,
        /// What the run came to: the text and data blocks after its last tool result, never the transcript.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message> = None,
    }
}
