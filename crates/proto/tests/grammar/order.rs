//! Which of two neighbouring events of a session must come first: a table of its own, by their kinds and by what they
//! have in common.

use std::{collections::HashMap, sync::Arc};

use anabranch_proto::{
    BlockId, Event, EventKind, ReplyId, Scope, SessionId, SpawnMechanism, ToolCallId, event::MessageOrigin,
};

use crate::mutations::Verdict;

/// Pairs of events that are next to each other within their session, with nothing of its descendants between.
pub(crate) fn neighbours(events: &[Arc<Event>]) -> Vec<(usize, usize)> {
    let mut last: HashMap<Option<SessionId>, usize> = HashMap::new();
    let mut parents: HashMap<SessionId, Option<SessionId>> = HashMap::new();
    let root: Option<SessionId> = events.iter().find_map(|event| match (&event.scope, &event.kind) {
        (Scope::Root, EventKind::SpawnSessionStart(spawn)) => Some(spawn.parent_session_id.clone()),
        (Scope::Root | Scope::Child(_), _) => None,
    });
    let mut pairs = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let session = event.scope.child().map(|child| child.child_session_id.clone());
        if let Some(child) = event.scope.child() {
            let parent = Some(child.parent_session_id.clone()).filter(|parent| Some(parent) != root.as_ref());
            parents.insert(child.child_session_id.clone(), parent);
        }
        if let Some(before) = last.insert(session.clone(), at) {
            pairs.push((before, at));
        }
        // What comes later in a session above is no neighbour of what came before this.
        let mut above = session;
        while let Some(child) = &above {
            let parent = parents[child].clone();
            last.remove(&parent);
            above = parent;
        }
    }
    pairs
}

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About<'a> {
    Reply(&'a ReplyId),
    Block(&'a BlockId),
    Call(&'a ToolCallId),
}

/// First and then, where both are about the same. `*` stands for any kind about it.
const ORDERED: &[(&str, &str)] = &[
    ("TEXT_BLOCK_START", "*"),
    ("THINKING_BLOCK_START", "*"),
    ("DATA_BLOCK_START", "*"),
    ("TEXT_BLOCK_DELTA", "TEXT_BLOCK_END"),
    ("THINKING_BLOCK_DELTA", "THINKING_BLOCK_END"),
    ("DATA_BLOCK_DELTA", "DATA_BLOCK_END"),
    ("TOOL_CALL_START", "*"),
    ("TOOL_CALL_DELTA", "TOOL_CALL_END"),
    ("TOOL_CALL_END", "*"),
    ("TOOL_RESULT_START", "TOOL_RESULT_TEXT_DELTA"),
    ("TOOL_RESULT_START", "TOOL_RESULT_DATA_DELTA"),
    ("*", "TOOL_RESULT_END"),
    ("REQUIRE_USER_CONFIRM", "USER_CONFIRM_RESULT"),
    ("USER_CONFIRM_RESULT", "TOOL_RESULT_START"),
    ("REQUIRE_EXTERNAL_EXECUTION", "EXTERNAL_EXECUTION_RESULT"),
    ("MODEL_CALL_START", "MODEL_CALL_END"),
    ("MODEL_CALL_END", "MODEL_CALL_START"),
];

/// What comes of exchanging two neighbours, `a` and then `b`.
pub(crate) fn exchanged(a: &Event, b: &Event) -> Verdict {
    let both_are = |first: &str, then: &str| {
        let is = |event: &Event, tag| tag == "*" || event.kind.tag() == tag;
        is(a, first) && is(b, then)
    };
    let in_common = abouts(a).iter().any(|about| abouts(b).contains(about));
    let by_table = in_common && ORDERED.iter().any(|(first, then)| both_are(first, then));
    if by_table || of_reply(a, b) || of_run(a, b) || of_child(a, b) {
        Verdict::SomeNamed
    } else {
        Verdict::Valid
    }
}

/// Within a reply is what says so, and replies do not overlap.
fn of_reply(a: &Event, b: &Event) -> bool {
    let (a_is, b_is) = (a.kind.tag(), b.kind.tag());
    (a_is == "REPLY_START" && reply(b).is_some())
        || (b_is == "REPLY_END" && reply(a).is_some())
        || (a_is == "REPLY_END" && b_is == "REPLY_START")
}

/// A run begins with its prompt and ends with its terminal. Outside of the root's there may be what is said of children
/// that no call waits for.
fn of_run(a: &Event, b: &Event) -> bool {
    let begins = |event: &Event| matches!(&event.kind, EventKind::UserMessage(prompt) if prompt.origin != MessageOrigin::Steering);
    let ends = |event: &Event| matches!(event.kind, EventKind::StreamComplete(_));
    let may_be_outside = |event: &Event| {
        event.scope == Scope::Root
            && (matches!(event.kind, EventKind::SessionUpdated(_))
                || spawned(event).is_some_and(|mechanism| mechanism != SpawnMechanism::Sync))
    };
    let outlives =
        |event: &Event| spawned(event).is_none_or(|mechanism| mechanism == SpawnMechanism::AsyncWorker);
    (begins(a) && !may_be_outside(b))
        || (ends(b) && !may_be_outside(a))
        || (begins(b) && !may_be_outside(a))
        // A spawn that is drawn into a run ends in it.
        || (ends(a) && !(may_be_outside(b) && outlives(b)))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all others are about none")]
fn spawned(event: &Event) -> Option<SpawnMechanism> {
    match &event.kind {
        EventKind::SpawnSessionStart(spawn) => Some(spawn.spawn_mechanism),
        _ => None,
    }
}

/// Of a child nothing can be learnt before its spawn.
fn of_child(a: &Event, b: &Event) -> bool {
    matches!((&a.kind, &b.kind), (EventKind::SpawnSessionStart(spawn), EventKind::SessionUpdated(update))
        if spawn.child_session_id == update.child_session_id)
}

/// The reply, block and calls that an event is about.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others are about none")]
fn abouts(event: &Event) -> Vec<About<'_>> {
    use EventKind as E;
    match &event.kind {
        E::ModelCallStart(e) => vec![About::Reply(&e.reply_id)],
        E::ModelCallEnd(e) => vec![About::Reply(&e.reply_id)],
        E::TextBlockStart(e) => vec![About::Block(&e.block_id)],
        E::TextBlockDelta(e) => vec![About::Block(&e.block_id)],
        E::TextBlockEnd(e) => vec![About::Block(&e.block_id)],
        E::ThinkingBlockStart(e) => vec![About::Block(&e.block_id)],
        E::ThinkingBlockDelta(e) => vec![About::Block(&e.block_id)],
        E::ThinkingBlockEnd(e) => vec![About::Block(&e.block_id)],
        E::DataBlockStart(e) => vec![About::Block(&e.block_id)],
        E::DataBlockDelta(e) => vec![About::Block(&e.block_id)],
        E::DataBlockEnd(e) => vec![About::Block(&e.block_id)],
        E::ToolCallStart(e) => vec![About::Call(&e.tool_call_id)],
        E::ToolCallDelta(e) => vec![About::Call(&e.tool_call_id)],
        E::ToolCallEnd(e) => vec![About::Call(&e.tool_call_id)],
        E::ToolResultStart(e) => vec![About::Call(&e.tool_call_id)],
        E::ToolResultTextDelta(e) => vec![About::Call(&e.tool_call_id)],
        E::ToolResultDataDelta(e) => vec![About::Call(&e.tool_call_id)],
        E::ToolResultEnd(e) => vec![About::Call(&e.tool_call_id)],
        E::RequireUserConfirm(e) => e.tool_calls.iter().map(|call| About::Call(&call.id)).collect(),
        E::RequireExternalExecution(e) => e.tool_calls.iter().map(|call| About::Call(&call.id)).collect(),
        E::UserConfirmResult(e) => {
            e.confirm_results.iter().map(|answer| About::Call(&answer.tool_call.id)).collect()
        }
        E::ExternalExecutionResult(e) => {
            e.execution_results.iter().map(|result| About::Call(&result.id)).collect()
        }
        // A spawn is about the call that waits for it.
        E::SpawnSessionStart(e) if e.spawn_mechanism == SpawnMechanism::Sync => {
            e.tool_call_id.iter().map(About::Call).collect()
        }
        _ => Vec::new(),
    }
}

/// The reply that an event must come within.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others are about none")]
fn reply(event: &Event) -> Option<&ReplyId> {
    use EventKind as E;
    match &event.kind {
        E::ReplyEnd(e) => Some(&e.reply_id),
        E::ModelCallStart(e) => Some(&e.reply_id),
        E::ModelCallEnd(e) => Some(&e.reply_id),
        E::TextBlockStart(e) => Some(&e.reply_id),
        E::TextBlockDelta(e) => Some(&e.reply_id),
        E::TextBlockEnd(e) => Some(&e.reply_id),
        E::ThinkingBlockStart(e) => Some(&e.reply_id),
        E::ThinkingBlockDelta(e) => Some(&e.reply_id),
        E::ThinkingBlockEnd(e) => Some(&e.reply_id),
        E::DataBlockStart(e) => Some(&e.reply_id),
        E::DataBlockDelta(e) => Some(&e.reply_id),
        E::DataBlockEnd(e) => Some(&e.reply_id),
        E::HintBlock(e) => Some(&e.reply_id),
        E::ToolCallStart(e) => Some(&e.reply_id),
        E::ToolCallDelta(e) => Some(&e.reply_id),
        E::ToolCallEnd(e) => Some(&e.reply_id),
        E::ToolResultStart(e) => Some(&e.reply_id),
        E::ToolResultTextDelta(e) => Some(&e.reply_id),
        E::ToolResultDataDelta(e) => Some(&e.reply_id),
        E::ToolResultEnd(e) => Some(&e.reply_id),
        E::RequireUserConfirm(e) => Some(&e.reply_id),
        E::RequireExternalExecution(e) => Some(&e.reply_id),
        E::UserConfirmResult(e) => Some(&e.reply_id),
        E::UserInterrupt(e) => Some(&e.reply_id),
        E::ExternalExecutionResult(e) => Some(&e.reply_id),
        E::ExceedMaxIters(e) => Some(&e.reply_id),
        _ => None,
    }
}
