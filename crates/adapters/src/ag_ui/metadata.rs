//! What stands in a frame's `metadata`.

use anabranch_proto::{
    ErrorType, Metadata, Outcome, SessionId, SourceType, SpawnMechanism, SubagentId, ToolResultState,
};
use serde::{Serialize, Serializer, ser::SerializeMap};

/// A frame's `metadata`: what the protocol has no field for, then the event's own keys.
#[derive(Clone, Debug)]
pub struct FrameMetadata<'a> {
    pub(super) own: Own<'a>,
    pub(super) event: &'a Metadata,
}

/// What the protocol has no field for.
#[derive(Clone, Debug)]
pub(super) enum Own<'a> {
    None,
    Spawn(&'a SpawnInfo),
    Ended { outcome: Outcome, error_type: Option<&'a ErrorType> },
    Result { state: ToolResultState, response: &'a Metadata },
}

/// What is said of a child when it is announced.
#[derive(Clone, Debug)]
pub(super) struct SpawnInfo {
    pub(super) spawn_mechanism: SpawnMechanism,
    pub(super) source_type: SourceType,
    pub(super) depth: u32,
    pub(super) run: u32,
    pub(super) child_session_id: SessionId,
    pub(super) subagent_id: Option<SubagentId>,
}

impl Own<'_> {
    fn keys(&self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Spawn(_) => {
                &["spawn_mechanism", "source_type", "depth", "run", "child_session_id", "subagent_id"]
            }
            Self::Ended { .. } => &["outcome", "error_type"],
            Self::Result { .. } => &["tool_result_state", "tool_response"],
        }
    }
}

impl FrameMetadata<'_> {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.own, Own::None) && self.event.is_empty()
    }
}

impl Serialize for FrameMetadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if matches!(self.own, Own::None) {
            return self.event.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        match &self.own {
            Own::None => {}
            Own::Spawn(info) => {
                map.serialize_entry("spawn_mechanism", &info.spawn_mechanism)?;
                map.serialize_entry("source_type", &info.source_type)?;
                map.serialize_entry("depth", &info.depth)?;
                map.serialize_entry("run", &info.run)?;
                map.serialize_entry("child_session_id", &info.child_session_id)?;
                if let Some(id) = &info.subagent_id {
                    map.serialize_entry("subagent_id", id)?;
                }
            }
            Own::Ended { outcome, error_type } => {
                map.serialize_entry("outcome", outcome)?;
                if let Some(error_type) = error_type {
                    map.serialize_entry("error_type", error_type)?;
                }
            }
            Own::Result { state, response } => {
                map.serialize_entry("tool_result_state", state)?;
                if !response.is_empty() {
                    map.serialize_entry("tool_response", response)?;
                }
            }
        }
        let taken = self.own.keys();
        for (key, value) in self.event.iter().filter(|(key, _)| !taken.contains(key)) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
