//! An event that passes through decides nothing.
//!
//! agentscope's consumers look at an event's class, so a child's event that passed through was taken for the parent's own:
//! a child's end ended the parent, a child's question parked it. Here each kind of event is put at each position of a
//! tool's output, and the caller's own events must stay exactly what they are without it.

use std::sync::Arc;

use anabranch_pipeline::{Caller, Executed};
use anabranch_proto::{
    BlockId, ChildScope, DataBlock, DataSource, Event, EventKind, Fields, FinishedReason, Json, Outcome,
    ReplyId, Scope, SpawnMechanism, TextOrBlocks, ToolCallBlock, ToolCallId, ToolChunk, ToolResultBlock,
    ToolResultState,
    event::{
        ConfirmResult, Custom, DataBlockDelta, DataBlockEnd, DataBlockStart, DataPart, ExceedMaxIters,
        ExternalExecutionResult, HintBlockEvent, MessageOrigin, ModelCallEnd, ModelCallStart, ReplyEnd,
        ReplyStart, RequireExternalExecution, RequireUserConfirm, SessionUpdated, SpawnSessionStart,
        StreamComplete, TextBlockDelta, TextBlockEnd, TextBlockStart, ThinkingBlockDelta, ThinkingBlockEnd,
        ThinkingBlockStart, ToolCallDelta, ToolCallEnd, ToolCallStart, ToolResultDataDelta, ToolResultEnd,
        ToolResultStart, ToolResultTextDelta, Unknown, UserConfirmResult, UserInterrupt, UserMessage,
    },
};

use crate::support::{
    Step, check_call, child_caller, custom, event, last, root_caller, run_script, scope, text,
};

/// One event of each kind, with the caller's own reply and call, so that only the scope tells whose it is.
fn every_kind() -> Vec<EventKind> {
    let reply = || ReplyId::from("reply");
    let call = || ToolCallId::from("a");
    let block = || BlockId::from("block");
    let calls = || vec![ToolCallBlock::new("a", "a", "{}")];
    let png = || DataPart::Base64("aGk=".to_owned());
    let child = ChildScope::new("ses_x", "ses_root", "sa_x", "worker");
    vec![
        ReplyStart::new("ses_x", reply(), "worker").into(),
        ReplyEnd::new("ses_x", reply(), FinishedReason::Interrupted).into(),
        ModelCallStart::new(reply(), "model").into(),
        ModelCallEnd::new(reply(), 1_u64, 2_u64).into(),
        TextBlockStart::new(reply(), block()).into(),
        TextBlockDelta::new(reply(), block(), "x").into(),
        TextBlockEnd::new(reply(), block()).into(),
        ThinkingBlockStart::new(reply(), block()).into(),
        ThinkingBlockDelta::new(reply(), block(), "x").into(),
        ThinkingBlockEnd::new(reply(), block()).into(),
        DataBlockStart::new(reply(), block(), "image/png").into(),
        DataBlockDelta::new(reply(), block(), "image/png", png()).into(),
        DataBlockEnd::new(reply(), block()).into(),
        HintBlockEvent::new(reply(), block(), "who".to_owned(), TextOrBlocks::Text("x".to_owned())).into(),
        ToolCallStart::new(reply(), call(), "a").into(),
        ToolCallDelta::new(reply(), call(), "{}").into(),
        ToolCallEnd::new(reply(), call()).into(),
        ToolResultStart::new(reply(), call(), "a").into(),
        ToolResultTextDelta::new(reply(), call(), "x").into(),
        ToolResultDataDelta::new(reply(), call(), block(), "image/png", png()).into(),
        ToolResultEnd::new(reply(), call(), ToolResultState::Interrupted).into(),
        RequireUserConfirm::new(reply(), calls()).into(),
        RequireExternalExecution::new(reply(), calls()).into(),
        UserConfirmResult::new(
            reply(),
            calls().into_iter().map(|call| ConfirmResult::new(true, call)).collect::<Vec<_>>(),
        )
        .into(),
        UserInterrupt::new(reply()).into(),
        ExternalExecutionResult::new(reply(), vec![ToolResultBlock::new("a", "a")]).into(),
        ExceedMaxIters::new(reply(), "worker").into(),
        Custom::new("custom", Json::from(serde_json::Value::Null)).into(),
        UserMessage::new("message", vec![], MessageOrigin::Parent).into(),
        SpawnSessionStart::new(&child, SpawnMechanism::Sync, "Run worker task").into(),
        SessionUpdated::new("ses_x", 1_u32).into(),
        StreamComplete::new(Outcome::Interrupted).into(),
        Unknown::new("A_NEW_KIND", Fields::default()).into(),
    ]
}

#[test]
fn every_kind_is_injected() {
    let kinds = every_kind();
    let mut tags: Vec<_> = kinds.iter().map(EventKind::tag).collect();
    assert_eq!(tags.pop(), Some("A_NEW_KIND"));
    assert_eq!(tags, EventKind::TAGS);
}

/// What the tool does without the injected event: parts of all sorts, events of its own, a pause.
fn script() -> Vec<Step> {
    let source = DataSource::Base64 { data: "aGk=".to_owned(), media_type: "image/png".into() };
    let data = ToolChunk::new(vec![DataBlock::new(source).id("d").into()]);
    vec![
        text("one"),
        Step::Event(custom("own")),
        Step::Yield,
        Step::Chunk(data),
        Step::Send(ToolChunk::text("two")),
        Step::Emit(custom("emitted")),
        last("three"),
    ]
}

/// How many items the caller sees of the first steps.
fn seen(steps: &[Step]) -> usize {
    steps.iter().filter(|step| !matches!(step, Step::Yield)).count()
}

fn is(item: &Executed, injected: &Arc<Event>) -> bool {
    matches!(item, Executed::Event(event) if Arc::ptr_eq(event, injected))
}

/// Runs the script with an event at a position, once yielded and once emitted.
fn inject(
    caller: fn() -> Arc<Caller>,
    position: usize,
    injected: &Arc<Event>,
) -> [(Arc<Caller>, Vec<Executed>); 2] {
    [Step::Event(Arc::clone(injected)), Step::Emit(Arc::clone(injected))].map(|step| {
        let mut steps = script();
        steps.insert(position, step);
        let caller = caller();
        let items = run_script(steps, &caller);
        (caller, items)
    })
}

fn check_passes(caller: fn() -> Arc<Caller>, scope: &Scope) {
    let without = run_script(script(), &caller());
    check_call(&without);
    for kind in every_kind() {
        for position in 0..=script().len() {
            let injected = event(scope.clone(), kind.clone());
            for (caller, mut items) in inject(caller, position, &injected) {
                let at: Vec<_> = items
                    .iter()
                    .enumerate()
                    .filter(|(_, item)| is(item, &injected))
                    .map(|(at, _)| at)
                    .collect();
                // After the start and what the tool did before.
                let expected = 1 + seen(&script()[..position]);
                assert_eq!(at, [expected], "{} at {position}: {items:?}", kind.tag());
                items.remove(expected);
                assert_eq!(items, without, "{} at {position}", kind.tag());
                assert_eq!(caller.counters.events_dropped(), 0);
            }
        }
    }
}

fn check_is_dropped_but_for_three_kinds(caller: fn() -> Arc<Caller>) {
    let scope = caller().scope.clone();
    let without = run_script(script(), &caller());
    let mut passed = Vec::new();
    for kind in every_kind() {
        let injected = event(scope.clone(), kind.clone());
        let mut times = Vec::new();
        for position in 0..=script().len() {
            for (caller, mut items) in inject(caller, position, &injected) {
                let before = items.len();
                items.retain(|item| !is(item, &injected));
                assert_eq!(items, without, "{} at {position}", kind.tag());
                let passed = before - items.len();
                assert_eq!(u64::from(passed == 0), caller.counters.events_dropped());
                times.push(passed);
            }
        }
        assert!(times.iter().all(|time| *time == times[0]), "{}: {times:?}", kind.tag());
        if times[0] == 1 {
            passed.push(kind.tag().to_owned());
        }
    }
    assert_eq!(passed, ["CUSTOM", "SPAWN_SESSION_START", "SESSION_UPDATED"]);
}

#[test]
fn a_childs_event_leaves_the_roots_own_events_identical() {
    check_passes(root_caller, &scope("ses_x", 1));
}

#[test]
fn a_grandchilds_event_leaves_the_childs_own_events_identical() {
    check_passes(child_caller, &scope("ses_x", 1));
}

#[test]
fn an_event_of_another_run_of_the_caller_is_not_the_callers_own() {
    check_passes(child_caller, &scope("ses_caller", 1));
}

#[test]
fn an_event_of_the_callers_parent_is_not_the_callers_own() {
    // Where it would be the caller's own, further up, it is looked at again.
    check_passes(child_caller, &Scope::Root);
}

#[test]
fn in_the_roots_own_scope_a_tool_may_only_announce_update_and_report() {
    check_is_dropped_but_for_three_kinds(root_caller);
}

#[test]
fn in_a_childs_own_scope_a_tool_may_only_announce_update_and_report() {
    check_is_dropped_but_for_three_kinds(child_caller);
}
