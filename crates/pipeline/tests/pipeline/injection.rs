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

use crate::support::{Step, check_call, child_caller, event, last, root_caller, run_script, scope, text};

/// One event of each kind, with the caller's own reply and call, so that only the scope tells whose it is.
fn every_kind(parent: &str) -> Vec<EventKind> {
    let reply = || ReplyId::from("reply");
    let call = || ToolCallId::from("a");
    let block = || BlockId::from("block");
    let calls = || vec![ToolCallBlock::new("a", "a", "{}")];
    let png = || DataPart::Base64("aGk=".to_owned());
    let child = ChildScope::new("ses_y", parent, "sa_y", "worker");
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
    let kinds = every_kind("ses_x");
    let mut tags: Vec<_> = kinds.iter().map(EventKind::tag).collect();
    assert_eq!(tags.pop(), Some("A_NEW_KIND"));
    assert_eq!(tags, EventKind::TAGS);
}

/// The scope of a child of the caller.
fn child_of(caller: &Caller) -> Scope {
    ChildScope::new("ses_x", &caller.session_id, "sa_x", "worker").depth(caller.scope.depth() + 1).into()
}

/// What the tool does without the injected event: it announces a child, then parts of all sorts, events of its own, a
/// pause.
fn script(caller: &Caller) -> Vec<Step> {
    let scope = || caller.scope.clone();
    let child = child_of(caller);
    let spawn = SpawnSessionStart::new(child.child().unwrap(), SpawnMechanism::Sync, "Run worker task");
    let custom = |name: &str| event(scope(), Custom::new(name, Json::from(serde_json::Value::Null)));
    let source = DataSource::Base64 { data: "aGk=".to_owned(), media_type: "image/png".into() };
    let data = ToolChunk::new(vec![DataBlock::new(source).id("d").into()]);
    vec![
        Step::Event(event(scope(), spawn)),
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

/// The injected event has an id of its own: where it is in the caller's scope a copy may pass.
fn injected(scope: &Scope, kind: EventKind) -> Arc<Event> {
    let mut injected = Event::clone(&event(scope.clone(), kind));
    injected.id = "the injected".into();
    Arc::new(injected)
}

fn is_injected(item: &Executed) -> bool {
    matches!(item, Executed::Event(event) if event.id == "the injected".into())
}

/// Runs the script with an event at a position, once yielded and once emitted.
fn inject(
    caller: fn() -> Arc<Caller>,
    position: usize,
    injected: &Arc<Event>,
) -> [(Arc<Caller>, Vec<Executed>); 2] {
    [Step::Event(Arc::clone(injected)), Step::Emit(Arc::clone(injected))].map(|step| {
        let caller = caller();
        let mut steps = script(&caller);
        steps.insert(position, step);
        let items = run_script(steps, &caller);
        (caller, items)
    })
}

/// The script's items without an injected event.
fn without(caller: fn() -> Arc<Caller>) -> Vec<Executed> {
    let caller = caller();
    let items = run_script(script(&caller), &caller);
    check_call(&items);
    items
}

fn check_passes(caller: fn() -> Arc<Caller>) {
    let script = script(&caller());
    let without = without(caller);
    for kind in every_kind("ses_x") {
        // Before it was announced, too.
        for position in 0..=script.len() {
            let injected = injected(&child_of(&caller()), kind.clone());
            for (caller, mut items) in inject(caller, position, &injected) {
                let at: Vec<_> = items
                    .iter()
                    .enumerate()
                    .filter(|(_, item)| is_injected(item))
                    .map(|(at, _)| at)
                    .collect();
                // After the start and what the tool did before.
                let expected = 1 + seen(&script[..position]);
                assert_eq!(at, [expected], "{} at {position}: {items:?}", kind.tag());
                let Executed::Event(event) = items.remove(expected) else { panic!("{items:?}") };
                assert!(Arc::ptr_eq(&event, &injected), "copied");
                assert_eq!(items, without, "{} at {position}", kind.tag());
                assert_eq!(caller.counters.events_dropped(), 0);
            }
        }
    }
}

/// Checks that of a scope no event passes but for these kinds.
fn check_is_dropped(caller: fn() -> Arc<Caller>, scope: &Scope, but_for: &[&str]) {
    let without = without(caller);
    let mut passed = Vec::new();
    for kind in every_kind(caller().session_id.as_str()) {
        let injected = injected(scope, kind.clone());
        let mut times = Vec::new();
        // Once the child was announced.
        for position in 1..=script(&caller()).len() {
            for (caller, mut items) in inject(caller, position, &injected) {
                let before = items.len();
                items.retain(|item| !is_injected(item));
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
    assert_eq!(passed, but_for);
}

/// Of the questions those about the call itself, and no answer that was not asked for.
const REPORTS: &[&str] = &[
    "REQUIRE_USER_CONFIRM",
    "REQUIRE_EXTERNAL_EXECUTION",
    "CUSTOM",
    "SPAWN_SESSION_START",
    "SESSION_UPDATED",
];

#[test]
fn a_childs_event_leaves_the_roots_own_events_identical() {
    check_passes(root_caller);
}

#[test]
fn a_grandchilds_event_leaves_the_childs_own_events_identical() {
    check_passes(child_caller);
}

#[test]
fn in_the_roots_own_scope_a_tool_may_only_announce_update_report_and_ask() {
    check_is_dropped(root_caller, &Scope::Root, REPORTS);
}

#[test]
fn in_a_childs_own_scope_a_tool_may_only_announce_update_report_and_ask() {
    check_is_dropped(child_caller, &child_caller().scope, REPORTS);
}

#[test]
fn in_the_scope_of_another_run_of_the_caller_a_tool_may_say_nothing() {
    check_is_dropped(child_caller, &scope("ses_caller", 1), &[]);
}

#[test]
fn in_the_scope_of_the_callers_parent_a_tool_may_say_nothing() {
    check_is_dropped(child_caller, &Scope::Root, &[]);
}

#[test]
fn in_the_scope_of_a_strangers_child_a_tool_may_say_nothing() {
    let stranger = ChildScope::new("ses_z", "ses_stranger", "sa_z", "worker");
    check_is_dropped(root_caller, &stranger.into(), &[]);
    let siblings = ChildScope::new("ses_z", "ses_root", "sa_z", "worker").tool_call_id(Some("b".into()));
    check_is_dropped(root_caller, &siblings.into(), &[]);
}
