//! The flat spelling: how each thing is said, and whose an event is.

use anabranch_proto::{
    ChildScope, ContentBlock, ErrorInfo, ErrorType, Event, EventKind, FinishedReason, Json, Message,
    Metadata, Outcome, Role, Scope, SpawnMechanism, TextBlock, Timestamp, ToolResultState,
    event::{
        Custom, MessageOrigin, ReplyEnd, ReplyStart, SessionUpdated, SpawnSessionStart, StreamComplete,
        TextBlockDelta, ToolResultEnd, UserMessage,
    },
    flat, lines,
};
use static_assertions::assert_impl_all;

assert_impl_all!(flat::Reader: Send, Sync, Unpin);
assert_impl_all!(flat::Line: Send, Sync, Unpin, Clone);
assert_impl_all!(lines::EventLines<flat::Reader>: Send, Sync, Unpin);
assert_impl_all!(lines::LineError: Send, Sync, std::error::Error);

fn at() -> Timestamp {
    "2026-11-30T10:00:00.000001Z".parse().unwrap()
}

fn child() -> ChildScope {
    ChildScope::new("ses_child", "ses_root", "sa_1", "n1").tool_call_id(Some("call_1".into()))
}

fn event(scope: impl Into<Scope>, kind: impl Into<EventKind>) -> Event {
    let scope = scope.into();
    let metadata = match &scope {
        Scope::Root => Metadata::default(),
        Scope::Child(child) => Metadata::default().with("subagent_id", child.subagent_id.as_str()),
    };
    Event::new("evt", at(), scope, metadata, kind)
}

/// A reader that knows the child.
fn reader() -> flat::Reader {
    let mut reader = flat::Reader::default();
    let spawn = event(Scope::Root, SpawnSessionStart::new(&child(), SpawnMechanism::Sync, "Run n1 task"));
    reader.read(&flat::to_string(&spawn).unwrap()).unwrap();
    reader
}

#[track_caller]
fn round_trip(event: &Event) -> String {
    let line = flat::to_string(event).unwrap();
    let read = reader().read(&line).unwrap();
    assert_eq!(&read.event, event, "{line}");
    assert!(!read.provisional);
    line
}

#[test]
fn our_own_kinds_are_custom_events() {
    let scope = Scope::from(child());
    let text = ContentBlock::from(TextBlock::new("hi").id("b1"));
    let grandchild = ChildScope::new("ses_2", "ses_child", "sa_2", "n2").depth(2);
    let lines = [
        round_trip(&event(Scope::Root, UserMessage::new("m1", [text.clone()], MessageOrigin::User))),
        round_trip(&event(
            scope.clone(),
            SpawnSessionStart::new(&grandchild, SpawnMechanism::Sync, "Run n2 task"),
        )),
        round_trip(&event(
            Scope::Root,
            SessionUpdated::new("ses_child", 1_u32).description("more".to_owned()),
        )),
        round_trip(&event(
            scope,
            StreamComplete::new(Outcome::Completed).message(Message::new(
                "r1",
                "n1",
                Role::Assistant,
                [text],
            )),
        )),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{},"type":"CUSTOM","name":"anabranch.user_message","value":{"message_id":"m1","content":[{"type":"text","text":"hi","id":"b1","finished_at":null}],"origin":"user"}}
    {"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{"subagent_id":"sa_1"},"type":"CUSTOM","name":"anabranch.spawn_session_start","value":{"child_session_id":"ses_2","parent_session_id":"ses_child","tool_call_id":null,"spawn_mechanism":"sync","source_name":"n2","source_type":"agent","depth":2,"description":"Run n2 task","run":1,"subagent_id":"sa_2"}}
    {"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{},"type":"CUSTOM","name":"anabranch.session_updated","value":{"child_session_id":"ses_child","run":1,"description":"more"}}
    {"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{"subagent_id":"sa_1"},"type":"CUSTOM","name":"anabranch.stream_complete","value":{"outcome":"completed","message":{"id":"r1","name":"n1","role":"assistant","content":[{"type":"text","text":"hi","id":"b1","finished_at":null}]}}}
    "#);
}

#[test]
fn a_response_travels_in_the_metadata() {
    let end = |response: Metadata| ToolResultEnd::new("r", "c", ToolResultState::Success).response(response);
    let none = round_trip(&event(Scope::Root, end(Metadata::default())));
    assert!(none.ends_with(
        r#""metadata":{},"type":"TOOL_RESULT_END","reply_id":"r","tool_call_id":"c","state":"success"}"#
    ));
    let response = Metadata::default().with("subagent_id", "sa_1").with("outcome", "completed");
    let some = round_trip(&event(Scope::Root, end(response)));
    assert!(
        some.contains(r#""metadata":{"tool_response":{"subagent_id":"sa_1","outcome":"completed"}},"type""#),
        "{some}"
    );
}

#[test]
fn what_the_metadata_itself_says_of_our_keys_is_noted_behind_the_line() {
    let end = ToolResultEnd::new("r", "c", ToolResultState::Success);
    let own = Metadata::default().with("tool_response", 7).with("subagent_id", "sa_9").with("z", 1);
    let cases = [
        (
            Scope::Root,
            Metadata::default().with("subagent_id", "sa_9").with("z", 1),
            EventKind::from(TextBlockDelta::new("r", "b", "x")),
        ),
        (child().into(), Metadata::default().with("z", 1), TextBlockDelta::new("r", "b", "x").into()),
        (
            child().into(),
            Metadata::default().with("a", 0).with("subagent_id", 5),
            TextBlockDelta::new("r", "b", "x").into(),
        ),
        (child().into(), own.clone(), end.clone().into()),
        (child().into(), own, end.response(Metadata::default().with("n", 1)).into()),
    ];
    let lines = cases.map(|(scope, metadata, kind)| {
        let line = round_trip(&Event::new("e", at(), scope, metadata, kind));
        line.replace(r#""id":"e","created_at":"2026-11-30T10:00:00.000001Z","#, "")
    });
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"metadata":{"z":1},"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"x","anabranch":{"metadata":{"subagent_id":"sa_9","z":1}}}
    {"metadata":{"subagent_id":"sa_1","z":1},"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"x","anabranch":{"metadata":{"z":1}}}
    {"metadata":{"a":0,"subagent_id":"sa_1"},"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"x","anabranch":{"metadata":{"a":0,"subagent_id":5}}}
    {"metadata":{"subagent_id":"sa_1","z":1},"type":"TOOL_RESULT_END","reply_id":"r","tool_call_id":"c","state":"success","anabranch":{"metadata":{"tool_response":7,"subagent_id":"sa_9","z":1}}}
    {"metadata":{"subagent_id":"sa_1","z":1,"tool_response":{"n":1}},"type":"TOOL_RESULT_END","reply_id":"r","tool_call_id":"c","state":"success","anabranch":{"metadata":{"tool_response":7,"subagent_id":"sa_9","z":1}}}
    "#);
}

#[test]
fn an_applications_custom_event_is_its_own_whatever_its_name_and_value() {
    let custom = |name: &str, value: &str| {
        round_trip(&event(Scope::Root, Custom::new(name, Json::parse(value).unwrap())))
    };
    let ours = custom("anabranch.stream_complete", r#"{"outcome":"completed"}"#);
    assert!(ours.ends_with(r#""name":"anabranch.stream_complete","value":{"outcome":"completed"},"anabranch":{"application":true}}"#), "{ours}");
    let later = custom("anabranch.of_the_future", "{}");
    assert!(later.ends_with(r#""name":"anabranch.of_the_future","value":{}}"#), "{later}");
    let number = custom("mine", "1e2");
    assert!(number.ends_with(r#""value":{"value":1e2},"anabranch":{"value":true}}"#), "{number}");
}

#[test]
fn an_error_that_agentscope_does_not_have_is_unknown_to_it_alone() {
    let end = |error_type: ErrorType| {
        let error = Box::new(ErrorInfo::new(error_type, "no"));
        event(Scope::Root, ReplyEnd::new("s", "r", FinishedReason::Error).error(error))
    };
    let theirs = round_trip(&end(ErrorType::RATE_LIMIT));
    assert!(theirs.ends_with(r#""error":{"type":"rate_limit","message":"no"}}"#), "{theirs}");
    let ours = round_trip(&end(ErrorType::other("tool")));
    assert!(
        ours.ends_with(r#""error":{"type":"unknown","message":"no"},"anabranch":{"error_type":"tool"}}"#),
        "{ours}"
    );
}

#[test]
fn an_end_is_of_whom_its_reply_is() {
    let mut reader = flat::Reader::default();
    let mut read = |line: &str| reader.read(line).unwrap();
    let head = r#""id":"e","created_at":"2026-11-30T10:00:00""#;
    let start = |metadata: &str, reply: &str| {
        format!(
            r#"{{{head},"metadata":{metadata},"type":"REPLY_START","session_id":"s_{reply}","reply_id":"{reply}","name":"{reply}"}}"#
        )
    };
    let end = |metadata: &str, reply: &str| {
        format!(
            r#"{{{head},"metadata":{metadata},"type":"TOOL_RESULT_END","reply_id":"{reply}","tool_call_id":"c1","state":"success"}}"#
        )
    };
    let named = r#"{"subagent_id":"sa_1","files":[]}"#;
    assert!(!read(&start("{}", "parent")).provisional);
    let began = read(&start(r#"{"subagent_id":"sa_1"}"#, "child"));
    assert!(began.provisional);
    let scope = began.event.scope.child().unwrap();
    assert_eq!((scope.child_session_id.as_str(), &*scope.source_name), ("s_child", "child"));
    assert_eq!(scope.parent_session_id.as_str(), "s_parent");

    // In agentscope a tool's own result is the event's metadata, and the tool has spawned `sa_1`.
    let of_parent = read(&end(named, "parent"));
    assert_eq!((&of_parent.event.scope, of_parent.provisional), (&Scope::Root, false));
    assert_eq!(of_parent.event.metadata.to_string(), named);
    let line = flat::to_string(&of_parent.event).unwrap();
    assert!(
        line.contains(r#""metadata":{"files":[]},"#),
        "whoever routes by the metadata is right now: {line}"
    );
    assert_eq!(read(&line).event, of_parent.event);

    assert_eq!(read(&end(named, "child")).event.scope, began.event.scope);
    assert_eq!(read(&end(named, "of nobody")).event.scope, began.event.scope);
}

#[test]
fn a_later_spawn_ends_the_guess_and_a_run_replaces_the_one_before() {
    let mut reader = flat::Reader::default();
    let mut read = |event: &Event| reader.read(&flat::to_string(event).unwrap()).unwrap();
    let delta = |run| event(child().run(run), TextBlockDelta::new("r", "b", "x"));
    let spawn =
        |run| event(Scope::Root, SpawnSessionStart::new(&child().run(run), SpawnMechanism::Sync, "d"));
    let guessed = read(&delta(1));
    assert!(guessed.provisional);
    assert_eq!(guessed.event.scope.child().unwrap().child_session_id.as_str(), "sa_1");
    for run in [1, 2] {
        assert!(!read(&spawn(run)).provisional);
        let known = read(&delta(run));
        assert_eq!((known.provisional, known.event), (false, delta(run)));
    }
}

#[test]
fn a_spawn_without_a_sub_agent_is_known_by_its_session() {
    let mut spawn = SpawnSessionStart::new(&child(), SpawnMechanism::Sync, "d");
    (spawn.run, spawn.subagent_id) = (None, None);
    let mut reader = flat::Reader::default();
    let spawn = event(Scope::Root, spawn);
    assert_eq!(reader.read(&flat::to_string(&spawn).unwrap()).unwrap().event, spawn);
    let scope =
        ChildScope::new("ses_child", "ses_root", "ses_child", "n1").tool_call_id(Some("call_1".into()));
    let delta = event(scope, TextBlockDelta::new("r", "b", "x"));
    let read = reader.read(&flat::to_string(&delta).unwrap()).unwrap();
    assert_eq!((read.event, read.provisional), (delta, false));
}

#[test]
fn the_events_of_a_run_share_scope_and_metadata() {
    let mut reader = reader();
    let line = flat::to_string(&event(child(), TextBlockDelta::new("r", "b", "x"))).unwrap();
    let (first, second) = (reader.read(&line).unwrap().event, reader.read(&line).unwrap().event);
    assert!(std::sync::Arc::ptr_eq(first.scope.child().unwrap(), second.scope.child().unwrap()));
    assert!(first.metadata.shares_with(&second.metadata) && !first.metadata.is_empty());
    let start = event(child(), ReplyStart::new("ses_child", "r", "n1"));
    assert_eq!(reader.read(&flat::to_string(&start).unwrap()).unwrap().event, start);
}

#[test]
fn a_bad_body_names_type_and_field() {
    let head = r#""id":"e","created_at":"2026-11-30T10:00:00Z","metadata":{}"#;
    for (rest, message) in [
        (
            r#""type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b""#,
            "TEXT_BLOCK_DELTA: field `delta`: missing",
        ),
        (
            r#""type":"CUSTOM","name":"anabranch.user_message""#,
            "anabranch.user_message: field `value`: missing",
        ),
        (
            r#""type":"CUSTOM","name":"anabranch.user_message","value":{"message_id":"m","content":[]}"#,
            "USER_MESSAGE: field `origin`: missing",
        ),
        (
            r#""type":"CUSTOM","name":"anabranch.user_message","value":[]"#,
            "anabranch.user_message: field `value`: invalid type: sequence, expected a JSON object",
        ),
        (
            r#""type":"CUSTOM","name":null,"value":{}"#,
            "CUSTOM: field `name`: invalid type: null, expected a string",
        ),
    ] {
        let error = flat::Reader::default().read(&format!("{{{head},{rest}}}")).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let error =
        flat::Reader::default().read(r#"{"created_at":"2026-11-30T10:00:00Z","type":"X"}"#).unwrap_err();
    assert_eq!(error.to_string(), "X: field `id`: missing");
}
