//! What may leave a call: the caller's reports, and the children that this call spawned.

use std::sync::{Arc, Mutex};

use anabranch_pipeline::{
    ActingLayer, ActingStream, CallItem, CallTool, Caller, ExecuteToolCalls, Executed, Next, ToolCall,
    ToolContext, Toolkit,
};
use anabranch_proto::{
    ChildScope, Event, EventKind, Json, Metadata, Outcome, Scope, SpawnMechanism, ToolCallBlock, ToolCallId,
    ToolResultBlock,
    event::{
        ConfirmResult, Custom, ExternalExecutionResult, RequireExternalExecution, RequireUserConfirm,
        SessionUpdated, SpawnSessionStart, StreamComplete, UserConfirmResult,
    },
};
use futures::{StreamExt, stream};

use crate::support::{
    Script, Step, acting, call, check_call, child_caller, drain, event, root_caller, run_call, run_calls,
    run_script,
};

/// A child's scope: `session#run<parent`, of a call where one is named.
fn scope(name: &str, of: Option<&str>) -> ChildScope {
    let (session, parent) = name.split_once('<').unwrap_or((name, "ses_root"));
    let (session, run) = session.split_once('#').unwrap_or((session, "1"));
    ChildScope::new(session, parent, format!("sa_{session}"), "worker")
        .run(run.parse().unwrap())
        .tool_call_id(of.map(ToolCallId::from))
}

fn say(name: &str, of: Option<&str>) -> Step {
    let null = Json::from(serde_json::Value::Null);
    Step::Event(event(scope(name, of).into(), Custom::new(format!("{name} says"), null)))
}

/// The spawn of a child, as an event of `by`.
fn spawn_by(by: Scope, name: &str, of: Option<&str>) -> Step {
    Step::Event(event(by, SpawnSessionStart::new(&scope(name, of), SpawnMechanism::Sync, "task")))
}

fn spawn(name: &str, of: Option<&str>) -> Step {
    spawn_by(Scope::Root, name, of)
}

fn update(by: Scope, session: &str) -> Step {
    Step::Event(event(by, SessionUpdated::new(session, 1_u32)))
}

/// What passed, in brief.
fn passed(items: &[Executed]) -> Vec<String> {
    let brief = |item: &Executed| {
        let Executed::Event(event) = item else { return None };
        if let EventKind::Custom(custom) = &event.kind {
            Some(custom.name.to_string())
        } else if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            Some(format!("spawn {}", spawn.child_session_id))
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            Some(format!("update {}", update.child_session_id))
        } else {
            matches!(event.kind, EventKind::StreamComplete(_)).then(|| "complete".to_owned())
        }
    };
    items.iter().filter_map(brief).collect()
}

/// What passes of a call `a`, and how many events are dropped.
#[track_caller]
fn check(caller: &Arc<Caller>, steps: impl IntoIterator<Item = Step>, expected: &[&str], dropped: u64) {
    let before = caller.counters.events_dropped();
    let items = run_script(steps, caller);
    check_call(&items);
    assert_eq!(passed(&items), expected);
    assert_eq!(caller.counters.events_dropped() - before, dropped);
}

#[test]
fn a_child_that_was_announced_here_passes_with_all_below_it() {
    let steps = [
        spawn("x", Some("a")),
        say("x", Some("a")),
        spawn_by(scope("x", None).into(), "y<x", Some("k")),
        say("y<x", Some("k")),
        spawn_by(scope("y<x", None).into(), "z<y", None),
        say("z<y", None),
        update(Scope::Root, "x"),
        update(scope("x", None).into(), "y"),
        spawn("x#2", Some("a")),
        say("x#2", Some("a")),
    ];
    let expected = [
        "spawn x", "x says", "spawn y", "y<x says", "spawn z", "z<y says", "update x", "update y", "spawn x",
        "x#2 says",
    ];
    check(&root_caller(), steps, &expected, 0);
}

#[test]
fn a_child_that_nobody_announced_passes_where_it_is_this_calls() {
    let caller = root_caller();
    check(&caller, [say("x", Some("a")), spawn("x", Some("a"))], &["x says", "spawn x"], 0);
    check(&caller, [say("x", None), say("y<x", Some("k"))], &["x says", "y<x says"], 0);
    // Of another call, of an unknown parent, of this call's name below an unknown parent.
    check(&caller, [say("x", Some("b")), say("y<nobody", None), say("z<nobody", Some("a"))], &[], 3);
    // Below one that is not admitted.
    check(&caller, [say("x", Some("b")), say("y<x", None)], &[], 2);
}

#[test]
fn another_run_than_the_announced_one_is_dropped() {
    let caller = root_caller();
    check(&caller, [spawn("x", None), say("x#2", None), say("x#0", None)], &["spawn x", "x#0 says"], 1);
    check(&caller, [say("x#3", None), say("x", None), say("x#3", None)], &["x#3 says", "x#3 says"], 1);
    let steps = [spawn("x#2", None), spawn("x", None), say("x#2", None), say("x", None)];
    check(&caller, steps, &["spawn x", "spawn x", "x#2 says"], 1);
    // Who does not count runs says 1 in each.
    let mut uncounted = SpawnSessionStart::new(&scope("x", None), SpawnMechanism::Sync, "task");
    uncounted.run = None;
    let uncounted = || Step::Event(event(Scope::Root, uncounted.clone()));
    let steps = [uncounted(), say("x", None), uncounted(), say("x", None), say("x#2", None)];
    check(&caller, steps, &["spawn x", "x says", "spawn x", "x says", "x#2 says"], 0);
}

#[test]
fn a_spawn_or_an_update_of_whom_this_call_does_not_have_is_dropped() {
    let caller = root_caller();
    check(&caller, [spawn("x", Some("b")), update(Scope::Root, "x")], &[], 2);
    check(&caller, [spawn("x<elsewhere", Some("a")), say("x<elsewhere", Some("a"))], &[], 2);
    // The caller itself, and a child itself.
    check(&caller, [spawn("ses_root", None), say("ses_root", None)], &[], 2);
    let by_x = || scope("x", None).into();
    check(&caller, [say("x", None), spawn_by(by_x(), "x#2<x", None)], &["x says"], 1);
    // A child in its parent's name, and the caller's child in a child's name.
    check(&caller, [say("x", None), spawn_by(by_x(), "y", None)], &["x says"], 1);
    check(&caller, [say("x", None), update(by_x(), "y")], &["x says"], 1);
}

#[test]
fn the_caller_in_another_run_its_parent_and_the_root_are_not_spoken_for() {
    let caller = child_caller();
    let of_caller = |run: u32| Scope::from(scope("ses_caller", None).run(run));
    let complete = |scope: Scope| Step::Event(event(scope, StreamComplete::new(Outcome::Failed)));
    check(&caller, [complete(of_caller(1)), complete(of_caller(2)), complete(Scope::Root)], &[], 3);
    check(&caller, [spawn("x", None), say("ses_root", None)], &[], 2);
    check(&caller, [spawn_by(of_caller(2), "ses_root<ses_caller", None)], &[], 1);
    let steps = [spawn_by(of_caller(2), "x<ses_caller", None), say("x<ses_caller", None)];
    check(&caller, steps, &["spawn x", "x<ses_caller says"], 0);
}

#[test]
fn a_sibling_that_runs_is_not_spoken_for_and_may_be_called_again_later() {
    let caller = root_caller();
    let kit = [
        Script::new("a", [spawn("x", Some("a")), Step::Yield, Step::Yield, say("x", Some("a"))]),
        // It names `x` as its own in every way that there is.
        Script::new(
            "b",
            [Step::Yield, say("x", None), say("x", Some("b")), spawn("x#2", Some("b")), say("y<x", None)],
        ),
    ];
    let items = run_calls([call("a"), call("b")], &caller, &acting(kit));
    assert_eq!(passed(&items), ["spawn x", "x says"]);
    assert_eq!(caller.counters.events_dropped(), 4);

    let again = Script::new("c", [spawn("x#2", Some("c")), say("x#2", Some("c"))]);
    let items = run_calls([call("c")], &caller, &acting([again]));
    assert_eq!(passed(&items), ["spawn x", "x#2 says"]);
}

#[test]
fn what_passes_of_others_is_not_copied() {
    let shared = Scope::from(scope("x", Some("a")));
    let null = || Json::from(serde_json::Value::Null);
    let events: Vec<_> = (0..3).map(|_| event(shared.clone(), Custom::new("n", null()))).collect();
    let steps = [spawn("x", Some("a"))].into_iter().chain(events.iter().cloned().map(Step::Event));
    let items = run_script(steps, &root_caller());
    let passed = items.iter().filter_map(|item| match item {
        Executed::Event(event) if matches!(event.kind, EventKind::Custom(_)) => Some(event),
        Executed::Event(_) | Executed::Response(..) => None,
    });
    assert_eq!(passed.zip(&events).filter(|(passed, given)| Arc::ptr_eq(passed, given)).count(), 3);
}

/// Gives events of its own between the call's.
struct Interferes(Vec<Arc<Event>>);

impl ActingLayer for Interferes {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let events: Vec<_> = self.0.iter().cloned().map(CallItem::Event).collect();
        ActingStream::boxed(stream::iter(events).chain(next.run(call, context)))
    }
}

#[test]
fn a_layer_speaks_for_no_more_than_a_tool() {
    let Step::Event(sibling) = say("x", Some("b")) else { panic!() };
    let Step::Event(own) = say("y", Some("a")) else { panic!() };
    let end = event(Scope::Root, StreamComplete::new(Outcome::Completed));
    let layer = Arc::new(Interferes(vec![end, sibling, own])) as Arc<dyn ActingLayer>;
    let caller = root_caller();
    let complete = Step::Event(event(Scope::Root, StreamComplete::new(Outcome::Completed)));
    let acting = acting([Script::new("a", [complete, say("z", None)])]).layers([layer]);
    let items = run_call(call("a"), &caller, &acting);
    assert_eq!(passed(&items), ["y says", "z says"]);
    assert_eq!(caller.counters.events_dropped(), 3, "each once");
}

#[test]
fn a_call_that_runs_by_itself_is_looked_at_too() {
    let caller = root_caller();
    let kit =
        Toolkit::new().with(Script::new("a", [say("x", Some("b")), spawn("x", Some("b")), say("y", None)]));
    let items = drain(CallTool::start(&call("a"), Arc::clone(&caller), &kit));
    let events = items.iter().filter(|item| matches!(item, CallItem::Event(_))).count();
    assert_eq!((events, caller.counters.events_dropped()), (1, 2));
}

/// Gives what an event's metadata becomes on its way out of a call.
fn metadata_of(caller: &Arc<Caller>, kind: impl Into<EventKind>, metadata: &Metadata) -> (Metadata, bool) {
    let mut given = Event::clone(&event(caller.scope.clone(), kind));
    given.metadata = metadata.clone();
    let given = Arc::new(given);
    let known = Step::Event(event(
        caller.scope.clone(),
        SpawnSessionStart::new(&scope(&format!("x<{}", caller.session_id), None), SpawnMechanism::Sync, ""),
    ));
    let items = run_script([known, Step::Event(Arc::clone(&given))], caller);
    let is_it = |item: &&Executed| matches!(item, Executed::Event(event) if event.kind == given.kind && event.metadata != *caller_foreign());
    let Some(Executed::Event(out)) = items.iter().rfind(is_it) else { panic!("{items:?}") };
    assert_eq!((&out.id, &out.scope, out.created_at), (&given.id, &given.scope, given.created_at));
    (out.metadata.clone(), Arc::ptr_eq(out, &given))
}

fn caller_foreign() -> &'static Metadata {
    static FOREIGN: std::sync::OnceLock<Metadata> = std::sync::OnceLock::new();
    FOREIGN.get_or_init(|| Metadata::default().with("foreign", true))
}

#[test]
fn what_a_tool_reports_in_its_callers_scope_has_the_callers_reserved_keys() {
    let all_reserved =
        Metadata::RESERVED.iter().fold(Metadata::default(), |all, key| all.with(key, "forged"));
    let of_root = Arc::new(Caller::clone(&root_caller()).metadata(Metadata::default().with("tenant", "t")));
    let of_child = {
        let child = child_caller();
        Arc::new(Caller::clone(&child).metadata(child.metadata.clone().with("tenant", "t")))
    };
    let custom = || EventKind::from(Custom::new("n", Json::from(serde_json::Value::Null)));
    let update = || EventKind::from(SessionUpdated::new("x", 1_u32));
    for (caller, own) in [
        (&of_root, r#"{"n":1,"tenant":"t"}"#),
        (&of_child, r#"{"n":1,"subagent_id":"sa_caller","tenant":"t"}"#),
    ] {
        for kind in [custom(), update()] {
            let forged = all_reserved.clone().with("n", 1).with("tenant", "other");
            let (metadata, _) = metadata_of(caller, kind.clone(), &forged);
            let mut keys: Vec<_> =
                metadata.iter().map(|(key, value)| format!("\"{key}\":{}", value.as_str())).collect();
            keys.sort();
            assert_eq!(format!("{{{}}}", keys.join(",")), own);
            assert!(metadata_of(caller, kind.clone(), &caller.metadata).1, "copied");
            let more = caller.metadata.clone().with("n", 1);
            assert_eq!(metadata_of(caller, kind, &more), (more, true));
        }
    }
    assert!(metadata_of(&root_caller(), custom(), &Metadata::default().with("n", 1)).1, "copied");
}

#[test]
fn a_spawn_keeps_its_own_reserved_keys_and_is_its_callers() {
    let spawn = |caller: &Caller| {
        let child = scope(&format!("x#2<{}", caller.session_id), None);
        EventKind::from(SpawnSessionStart::new(&child, SpawnMechanism::Sync, "task"))
    };
    let own = Metadata::default()
        .with("prompt", "p")
        .with("task_id", "t")
        .with("user_message_id", "m")
        .with("max_depth", 5)
        .with("node", "n");
    let root = root_caller();
    assert_eq!(metadata_of(&root, spawn(&root), &own), (own.clone(), true));
    let forged = own.clone().with("subagent_id", "sa_x").with("outcome", "completed").with("files", 1);
    let forged = forged.with("child_session_id", "x").with("tool_response", 1);
    assert_eq!(metadata_of(&root, spawn(&root), &forged), (own.clone(), false));

    let child = child_caller();
    let of_child = own.clone().with("subagent_id", "sa_ses_caller");
    assert_eq!(metadata_of(&child, spawn(&child), &own), (of_child.clone(), false));
    assert_eq!(metadata_of(&child, spawn(&child), &own.clone().with("subagent_id", 7)).0, of_child);
    assert_eq!(metadata_of(&child, spawn(&child), &forged), (of_child.clone(), false));
    assert_eq!(metadata_of(&child, spawn(&child), &of_child), (of_child, true));
}

#[test]
fn layers_see_what_is_dropped_after_them() {
    struct Counts(Mutex<usize>);
    impl ActingLayer for Counts {
        fn item(&self, _call: &ToolCall, item: CallItem) -> CallItem {
            *self.0.lock().unwrap() += usize::from(matches!(item, CallItem::Event(_)));
            item
        }
    }
    let layer = Arc::new(Counts(Mutex::new(0)));
    let acting = acting([Script::new("a", [say("x", Some("b")), say("y", None)])])
        .layers([Arc::clone(&layer) as Arc<dyn ActingLayer>]);
    let calls = ExecuteToolCalls::new([call("a")], root_caller(), &acting);
    assert_eq!(passed(&drain(calls)), ["y says"]);
    assert_eq!(*layer.0.lock().unwrap(), 2);
}

/// A question about calls or an answer, as the root's: `?` whether they may run, `!` that, `?ext`, `!ext`.
fn question(what: &str, calls: &[&str]) -> Step {
    let blocks = || calls.iter().map(|call| ToolCallBlock::new(*call, "a", "{}"));
    let kind: EventKind = match what {
        "?" => RequireUserConfirm::new("reply", blocks().collect::<Vec<_>>()).into(),
        "!" => {
            let answers = blocks().map(|block| ConfirmResult::new(true, block));
            UserConfirmResult::new("reply", answers.collect::<Vec<_>>()).into()
        }
        "?ext" => RequireExternalExecution::new("reply", blocks().collect::<Vec<_>>()).into(),
        "!ext" => {
            let results = calls.iter().map(|call| ToolResultBlock::new(*call, "a"));
            ExternalExecutionResult::new("reply", results.collect::<Vec<_>>()).into()
        }
        other => panic!("no question is {other}"),
    };
    Step::Event(event(Scope::Root, kind))
}

/// The kinds of a call's events in order.
fn tags(items: &[Executed]) -> Vec<&str> {
    let tag = |item: &'_ Executed| {
        if let Executed::Event(event) = item { Some(event.kind.tag().to_owned()) } else { None }
    };
    items.iter().filter_map(tag).map(|tag| &*tag.leak()).collect()
}

#[test]
fn a_call_asks_about_itself_alone_once_at_a_time_and_is_answered_in_kind() {
    for (steps, dropped) in [
        (vec![question("?", &["a"]), question("!", &["a"])], 0),
        (vec![question("?ext", &["a"]), question("!ext", &["a"]), question("?", &["a"])], 0),
        (vec![question("?", &["b"]), question("?", &["a", "b"]), question("?", &[])], 3),
        (vec![question("!", &["a"]), question("!ext", &["a"])], 2),
        (vec![question("?", &["a"]), question("?ext", &["a"]), question("!ext", &["a"])], 2),
    ] {
        let caller = root_caller();
        check_call(&run_script(steps, &caller));
        assert_eq!(caller.counters.events_dropped(), dropped);
    }
}

#[test]
fn a_result_begins_when_its_call_was_given_leave() {
    let steps = [question("?", &["a"]), Step::Yield, question("!", &["a"]), Step::Yield, say("x", Some("a"))];
    let items = run_script(steps, &root_caller());
    assert_eq!(
        tags(&items),
        ["REQUIRE_USER_CONFIRM", "USER_CONFIRM_RESULT", "TOOL_RESULT_START", "CUSTOM", "TOOL_RESULT_END"]
    );
}
