//! The native spelling: what is read is written back, what is wrong is named.

use anabranch_proto::{
    Artifact, ChildScope, ContentBlock, Event, EventId, EventKind, Json, Message, Metadata, Outcome, Role,
    Scope, SpawnMechanism, TextBlock, Timestamp, ToolCallBlock,
    event::{
        Custom, MessageOrigin, SessionUpdated, SpawnSessionStart, StreamComplete, TextBlockDelta,
        ToolResultEnd, UserMessage,
    },
    native::{self, ReadError, Reader},
};
use proptest::prelude::*;

const SAMPLES: &str = include_str!("data/agentscope/samples.jsonl");
const STREAMS: &[&str] = &[
    include_str!("data/agentscope/streams/01_text_only.jsonl"),
    include_str!("data/agentscope/streams/02_two_concurrent_tools.jsonl"),
    include_str!("data/agentscope/streams/03_one_tool_raises.jsonl"),
    include_str!("data/agentscope/streams/04_invalid_args_unknown_tool.jsonl"),
    include_str!("data/agentscope/streams/05_cancelled.jsonl"),
    include_str!("data/agentscope/streams/06a_user_confirm_parked.jsonl"),
    include_str!("data/agentscope/streams/06b_user_confirm_input.jsonl"),
    include_str!("data/agentscope/streams/06c_user_confirm_resumed.jsonl"),
];

/// The line without white space between its tokens.
fn compact(line: &str) -> String {
    Json::parse(line).unwrap().to_string()
}

fn at() -> Timestamp {
    "2026-11-30T10:00:00.000001Z".parse().unwrap()
}

fn child() -> ChildScope {
    ChildScope::new("ses_child", "ses_root", "sa_1", "n1").tool_call_id(Some("call_1".into()))
}

fn event(scope: impl Into<Scope>, kind: impl Into<EventKind>) -> Event {
    Event::new("evt", at(), scope.into(), Metadata::default(), kind)
}

#[track_caller]
fn round_trip(event: &Event) -> String {
    let line = native::to_string(event).unwrap();
    let read = Reader::default().read(&line).unwrap();
    assert_eq!(&read.event, event);
    assert_eq!(native::to_string(&read.event).unwrap(), line);
    line
}

#[test]
fn each_captured_event_is_written_as_it_was_read() {
    let mut reader = Reader::default();
    let mut tags = Vec::new();
    let events = STREAMS.iter().flat_map(|stream| {
        stream.lines().filter(|line| line.contains("\"type\": \"") && line.starts_with("{\"id\""))
    });
    for line in SAMPLES.lines().chain(events) {
        let read = reader.read(line).unwrap();
        assert!(!matches!(read.event.kind, EventKind::Unknown(_)), "{line}");
        tags.push(read.event.kind.tag().to_owned());
        assert_eq!(native::to_string(&read.event).unwrap(), compact(line));
    }
    assert_eq!(tags.len(), 28 + 111, "every line of the captures was read");
    let captured = &EventKind::TAGS[..28];
    assert!(captured.iter().all(|tag| tags.iter().any(|seen| seen == tag)), "{captured:?}");
}

/// Each captured class's fields, as agentscope's own schemas list them, are those that we write, in the same order.
#[test]
fn each_kinds_fields_are_those_of_agentscopes_schema() {
    let schemas: serde_json::Value =
        serde_json::from_str(include_str!("data/agentscope/schemas.json")).unwrap();
    let schemas = schemas.as_object().unwrap();
    let mut compared = 0;
    for line in SAMPLES.lines() {
        let written = native::to_string(&Reader::default().read(line).unwrap().event).unwrap();
        let written: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&written).unwrap();
        let is_of_type =
            |schema: &&serde_json::Value| schema["properties"]["type"]["default"] == written["type"];
        let schema = schemas.values().find(is_of_type).expect("a schema for each class");
        let fields: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(written.keys().collect::<Vec<_>>(), fields, "{}", written["type"]);
        compared += 1;
    }
    assert_eq!(compared, 28);
}

#[test]
fn our_own_kinds_have_their_spelling() {
    let scope = Scope::from(child());
    let text = ContentBlock::from(TextBlock::new("hi").id("b1"));
    let lines = [
        round_trip(&event(Scope::Root, UserMessage::new("m1", [text.clone()], MessageOrigin::User))),
        round_trip(&event(
            Scope::Root,
            SpawnSessionStart::new(&child(), SpawnMechanism::Sync, "Run n1 task"),
        )),
        round_trip(&event(
            Scope::Root,
            SessionUpdated::new("ses_child", 1_u32).description("more".to_owned()),
        )),
        round_trip(&event(
            scope.clone(),
            StreamComplete::new(Outcome::Completed).message(Message::new(
                "r1",
                "n1",
                Role::Assistant,
                [text],
            )),
        )),
        round_trip(&event(scope, TextBlockDelta::new("r1", "b1", "a\n\"ü\u{1F680}"))),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{},"type":"USER_MESSAGE","message_id":"m1","content":[{"type":"text","text":"hi","id":"b1","finished_at":null}],"origin":"user"}
    {"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{},"type":"SPAWN_SESSION_START","child_session_id":"ses_child","parent_session_id":"ses_root","tool_call_id":"call_1","spawn_mechanism":"sync","source_name":"n1","source_type":"agent","depth":1,"description":"Run n1 task","run":1,"subagent_id":"sa_1"}
    {"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{},"type":"SESSION_UPDATED","child_session_id":"ses_child","run":1,"description":"more"}
    {"type":"SUB_AGENT","child_session_id":"ses_child","run":1,"parent_session_id":"ses_root","subagent_id":"sa_1","tool_call_id":"call_1","source_name":"n1","source_type":"agent","depth":1,"event":{"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{},"type":"STREAM_COMPLETE","outcome":"completed","message":{"id":"r1","name":"n1","role":"assistant","content":[{"type":"text","text":"hi","id":"b1","finished_at":null}]}}}
    {"type":"SUB_AGENT","child_session_id":"ses_child","run":1,"parent_session_id":"ses_root","subagent_id":"sa_1","tool_call_id":"call_1","source_name":"n1","source_type":"agent","depth":1,"event":{"id":"evt","created_at":"2026-11-30T10:00:00.000001Z","metadata":{},"type":"TEXT_BLOCK_DELTA","reply_id":"r1","block_id":"b1","delta":"a\n\"ü🚀"}}
    "#);
}

#[test]
fn a_number_comes_first_and_is_read_back() {
    let event = event(child(), TextBlockDelta::new("r", "b", "x"));
    let mut line = Vec::new();
    native::write(Some(7), &event, &mut line).unwrap();
    let line = String::from_utf8(line).unwrap();
    assert!(line.starts_with(r#"{"seq":7,"type":"SUB_AGENT","#), "{line}");
    assert_eq!(Reader::default().read(&line).unwrap().seq, Some(7));
}

#[test]
fn what_is_unknown_is_kept() {
    for line in [
        r#"{"id":"e","created_at":"2026-11-30T10:00:00","metadata":{"n":1e2},"type":"NEW_KIND","b":null,"a":[1.50,{"x":12345678901234567890123}]}"#,
        r#"{"id":"e","created_at":"2026-11-30T10:00:00","metadata":{},"type":"TEXT_BLOCK_START","reply_id":"r","block_id":"b","later":{"z":1,"a":2}}"#,
        r#"{"id":"e","created_at":"2026-11-30T10:00:00","metadata":{},"type":"USER_MESSAGE","message_id":"m","content":[{"type":"hologram","size":1e3}],"origin":"user"}"#,
    ] {
        let read = Reader::default().read(line).unwrap();
        assert_eq!(native::to_string(&read.event).unwrap(), line);
    }
}

#[test]
fn a_known_kind_with_a_bad_body_is_an_error_that_names_the_field() {
    let head = r#""id":"e","created_at":"2026-11-30T10:00:00Z","metadata":{}"#;
    for (line, message) in [
        (format!(r#"{{{head},"type":"REPLY_END","session_id":"s","reply_id":"r","finished_reason":"tired"}}"#), "REPLY_END: field `finished_reason`: unknown variant `tired`, expected one of `completed`, `interrupted`, `exceed_max_iters`, `error`"),
        (format!(r#"{{{head},"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b"}}"#), "TEXT_BLOCK_DELTA: field `delta`: missing"),
        (format!(r#"{{{head},"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":null}}"#), "TEXT_BLOCK_DELTA: field `delta`: invalid type: null, expected a string"),
        (r#"{"id":"e","created_at":"yesterday","type":"USER_INTERRUPT","reply_id":"r"}"#.to_owned(), "USER_INTERRUPT: field `created_at`: not a time of the form 2026-11-30T10:00:00.000001Z: \"yesterday\""),
        (r#"{"id":"e","created_at":"2026-11-30T10:00:00Z","metadata":[],"type":"USER_INTERRUPT","reply_id":"r"}"#.to_owned(), "USER_INTERRUPT: field `metadata`: metadata must be a JSON object, found []"),
        (r#"{"id":"e"}"#.to_owned(), "the line: field `type`: missing"),
        (r#"{"type":"SUB_AGENT","child_session_id":"c","event":{}}"#.to_owned(), "SUB_AGENT: field `parent_session_id`: missing"),
        (format!(r#"{{{head},"type":"DATA_BLOCK_DELTA","reply_id":"r","block_id":"b","media_type":"t","data":null,"url":null}}"#), "DATA_BLOCK_DELTA: exactly one of `data` and `url` must be given"),
        (format!(r#"{{{head},"type":"USER_MESSAGE","message_id":"m","content":[{{"type":"text"}}],"origin":"user"}}"#), "USER_MESSAGE: field `content`: text block: field `text`: missing"),
    ] {
        let error = Reader::default().read(&line).unwrap_err();
        assert!(matches!(error, ReadError::Field { .. }));
        assert_eq!(error.to_string(), message);
    }
    let error = Reader::default().read("[1]").unwrap_err();
    assert_eq!(
        error.to_string(),
        "not a JSON object: invalid type: sequence, expected a JSON object at line 1 column 0"
    );
}

#[test]
fn the_events_of_a_run_share_their_scope() {
    let mut reader = Reader::default();
    let line = native::to_string(&event(child(), TextBlockDelta::new("r", "b", "x"))).unwrap();
    let (first, second) = (reader.read(&line).unwrap(), reader.read(&line).unwrap());
    let (Scope::Child(a), Scope::Child(b)) = (&first.event.scope, &second.event.scope) else {
        panic!("a child's")
    };
    assert!(std::sync::Arc::ptr_eq(a, b));
}

#[test]
fn a_response_is_a_field_of_its_own_and_absent_where_there_is_none() {
    let with = ToolResultEnd::new("r", "c", anabranch_proto::ToolResultState::Success);
    assert!(!round_trip(&event(Scope::Root, with.clone())).contains("response"));
    let files = serde_json::to_value([Artifact::new("a.csv", "/out/a.csv", "text/csv")]).unwrap();
    let line = round_trip(&event(Scope::Root, with.response(Metadata::default().with("files", files))));
    assert!(line.ends_with(
        r#""state":"success","response":{"files":[{"name":"a.csv","path":"/out/a.csv","mime_type":"text/csv"}]}}"#
    ));
}

#[test]
fn blocks_of_every_type_round_trip() {
    let call = ToolCallBlock::new("c", "bash", r#"{"cmd": "ls"}"#);
    let message = Message::new(
        "m",
        "agent",
        Role::Assistant,
        [ContentBlock::from(call), TextBlock::new("done").into()],
    );
    let text = serde_json::to_string(&message).unwrap();
    assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
    assert_eq!(message.final_content(), [TextBlock::new("done").into()]);
}

proptest! {
    #[test]
    fn any_text_id_and_metadata_survive(
        id in any::<String>(), delta in any::<String>(), key in any::<String>(), value in any::<String>(), run in 1_u32..9,
    ) {
        let metadata = Metadata::default().with(&key, value);
        let mut event = event(child().run(run).depth(3), TextBlockDelta::new(&*delta, &*id, delta.clone()));
        event.id = EventId::new(&id);
        event.metadata = metadata;
        round_trip(&event);
        let json = Json::parse(&delta);
        if let Ok(json) = json {
            event.kind = Custom::new(&*delta, json).into();
            round_trip(&event);
        }
    }
}
