//! What the other side is told of a child that it is to run.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{ContentBlock, Message, Metadata, SessionId, SubagentId, ToolCallId};
use serde::{Deserialize, Serialize};

use super::Policy;
use crate::Limits;

/// A child that somebody else is to run: who it is, what it is asked, what it may do.
///
/// It has a spelling in JSON, so that it can be sent. What cannot be sent stays: tools, models and layers are the other
/// side's, under the name of its agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Order {
    /// The child's session.
    pub session_id: SessionId,
    /// Which run of the session it is, from 1.
    pub run: u32,
    /// The sub-agent as the application knows it.
    pub subagent_id: SubagentId,
    /// The session that spawned the child.
    pub parent_session_id: SessionId,
    /// The call that spawned the child, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
    /// The agent that is to run, as the other side knows it.
    pub agent: Arc<str>,
    /// What the child is called, for people and on its events.
    pub source_name: Arc<str>,
    /// The task.
    pub prompt: Vec<ContentBlock>,
    /// The conversation that the child starts from: its parent's where it is forked, its own where it goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// The application's keys for all events of the child and of those below it. Reserved keys are not among them.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// How much the child may do.
    pub limits: OrderLimits,
    /// How long it may run, from now. It is stopped here then; the other side stops by itself where it is not told.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "milliseconds")]
    pub timeout: Option<Duration>,
    /// How often somebody has begun to run it, this time included. The ids of its calls differ from time to time.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// What all above it may do without asking; the child may do no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Policy>,
}

/// How much a child elsewhere may do, of what its session has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OrderLimits {
    /// How many levels may lie below it: 0 when it may spawn nothing.
    pub depth: u32,
    /// How many may run at once, the child among them.
    pub running: usize,
    /// How many may be spawned below it, all in all.
    pub spawned: usize,
    /// How long a question to a person waits for its answer, in milliseconds.
    pub request_ms: u64,
}

impl OrderLimits {
    /// As the limits of the session on the other side, in which the child lies one level deep.
    pub(super) fn over(self, own: Limits) -> Limits {
        let Self { depth, running, spawned, request_ms } = self;
        let mut limits = own;
        limits.max_depth = depth.saturating_add(1).min(own.max_depth.max(1));
        limits.max_running = running.min(own.max_running).max(1);
        limits.max_spawned = spawned.saturating_add(1).min(own.max_spawned.max(1));
        limits.request = Duration::from_millis(request_ms);
        limits
    }
}

fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_first(attempt: &u32) -> bool {
    *attempt <= 1
}

/// Times as whole milliseconds, which every language has a number for.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let milliseconds = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        milliseconds.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_without_what_is_optional_is_read() {
        let text = r#"{"session_id":"ses_1","run":1,"subagent_id":"sa_1","parent_session_id":"ses_0","agent":"worker",
            "source_name":"n1","prompt":[{"type":"text","id":"b","text":"Do it."}],
            "limits":{"depth":0,"running":1,"spawned":0,"request_ms":1000},"timeout":1500}"#;
        let order: Order = serde_json::from_str(text).unwrap();
        assert_eq!(order.timeout, Some(Duration::from_millis(1_500)));
        let again: Order = serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap();
        assert_eq!(again, order);
    }

    #[test]
    fn an_order_narrows_the_other_sides_limits_and_never_widens_them() {
        let own = Limits::default().max_depth(3).max_running(4).max_spawned(10);
        let wide = OrderLimits { depth: 9, running: 99, spawned: 99, request_ms: 5 };
        let narrow = OrderLimits { depth: 0, running: 1, spawned: 0, request_ms: 5 };
        let limits = |limits: Limits| (limits.max_depth, limits.max_running, limits.max_spawned);
        assert_eq!(limits(wide.over(own)), (3, 4, 10));
        assert_eq!(limits(narrow.over(own)), (1, 1, 1));
    }
}
