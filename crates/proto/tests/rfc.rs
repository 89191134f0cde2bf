//! RFC-0014's spelling is read: what has an equal kind as that kind, all else unchanged.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anabranch_proto::{EventKind, Outcome, Scope, SourceType, SpawnMechanism, Stamp, Timestamp, native};

/// Counts.
#[derive(Default)]
struct Counter(AtomicU64);

impl Stamp for Counter {
    fn unique(&self) -> [u8; 16] {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }

    fn ascending(&self) -> [u8; 16] {
        self.unique()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(1_796_032_800, 0)
    }
}

fn reader() -> native::Reader {
    native::Reader::new(Arc::new(Counter::default()))
}

/// The events of lines, each written natively.
fn native(lines: &[&str]) -> String {
    let mut reader = reader();
    let written =
        lines.iter().map(|line| native::to_string(&reader.read(line).unwrap().event).unwrap() + "\n");
    written.collect()
}

const SPAWN: &str = r#"{"child_session_id":"ses_1","parent_session_id":"ses_0","tool_call_id":null,"spawn_mechanism":"async_worker","source_name":"n1","source_type":"agent","depth":1,"description":"Run n1 task (async: t1)","metadata":{"prompt":"Do…","task_id":"t1","max_depth":5},"event_kind":"spawn_session_start","display_name":"N 1"}"#;

#[test]
fn a_run_of_a_child_is_read_as_ours() {
    let wrapped = |event: &str| {
        format!(
            r#"{{"source_name":"n1","source_type":"agent","event":{event},"depth":1,"child_session_id":"ses_1","parent_session_id":"ses_0","tool_call_id":"call_1","event_kind":"subagent"}}"#
        )
    };
    let delta = wrapped(
        r#"{"index":0,"delta":{"content_delta":"hi","part_delta_kind":"text"},"session_id":"ses_1","message_id":"","event_kind":"part_delta"}"#,
    );
    let custom =
        wrapped(r#"{"event_data":[1e2],"event_type":"progress","source":null,"event_kind":"custom"}"#);
    let complete = wrapped(
        r#"{"message":{"content":"done","role":"assistant","name":"n1","message_id":"m1","usage":{"n":1.50}},"cancelled":false,"session_id":"ses_1","event_kind":"stream_complete"}"#,
    );
    insta::assert_snapshot!(native(&[SPAWN, &delta, &custom, &complete]), @r#"
    {"id":"00000000000000000000000000","created_at":"2026-11-30T10:00:00.000000Z","metadata":{"prompt":"Do…","task_id":"t1","max_depth":5},"type":"SPAWN_SESSION_START","child_session_id":"ses_1","parent_session_id":"ses_0","tool_call_id":null,"spawn_mechanism":"async_worker","source_name":"n1","source_type":"agent","depth":1,"description":"Run n1 task (async: t1)","display_name":"N 1"}
    {"type":"SUB_AGENT","child_session_id":"ses_1","run":1,"parent_session_id":"ses_0","subagent_id":"ses_1","tool_call_id":"call_1","source_name":"n1","source_type":"agent","depth":1,"event":{"id":"00000000000000000000000001","created_at":"2026-11-30T10:00:00.000000Z","metadata":{},"type":"part_delta","index":0,"delta":{"content_delta":"hi","part_delta_kind":"text"},"session_id":"ses_1","message_id":""}}
    {"type":"SUB_AGENT","child_session_id":"ses_1","run":1,"parent_session_id":"ses_0","subagent_id":"ses_1","tool_call_id":"call_1","source_name":"n1","source_type":"agent","depth":1,"event":{"id":"00000000000000000000000002","created_at":"2026-11-30T10:00:00.000000Z","metadata":{},"type":"CUSTOM","name":"progress","value":[1e2],"source":null}}
    {"type":"SUB_AGENT","child_session_id":"ses_1","run":1,"parent_session_id":"ses_0","subagent_id":"ses_1","tool_call_id":"call_1","source_name":"n1","source_type":"agent","depth":1,"event":{"id":"00000000000000000000000003","created_at":"2026-11-30T10:00:00.000000Z","metadata":{},"type":"STREAM_COMPLETE","outcome":"completed","message":{"id":"m1","name":"n1","role":"assistant","content":[{"type":"text","text":"done","finished_at":null}],"metadata":{"usage":{"n":1.50}}},"session_id":"ses_1"}}
    "#);
}

#[test]
fn a_spawns_metadata_is_the_events() {
    let event = reader().read(SPAWN).unwrap().event;
    assert_eq!(event.metadata.to_string(), r#"{"prompt":"Do…","task_id":"t1","max_depth":5}"#);
    let EventKind::SpawnSessionStart(spawn) = event.kind else { panic!("a spawn") };
    assert_eq!(spawn.spawn_mechanism, SpawnMechanism::AsyncWorker);
    assert_eq!((spawn.run, spawn.subagent_id), (None, None));
    assert_eq!(event.extra.unwrap().get("display_name").unwrap().as_str(), r#""N 1""#);
}

#[test]
fn nested_wrappers_are_flattened_to_the_innermost() {
    let event = r#"{"message":null,"cancelled":true,"event_kind":"stream_complete"}"#;
    let wrap = |event: &str, child: &str, parent: &str| {
        format!(
            r#"{{"source_name":"{child}","source_type":"team_parallel","event":{event},"child_session_id":"{child}","parent_session_id":"{parent}","event_kind":"subagent"}}"#
        )
    };
    let line = wrap(&wrap(&wrap(event, "c", "b"), "b", "a"), "a", "root");
    let read = reader().read(&line).unwrap().event;
    let Scope::Child(scope) = read.scope else { panic!("a child's") };
    assert_eq!((scope.child_session_id.as_str(), scope.parent_session_id.as_str()), ("c", "b"));
    assert_eq!((scope.depth, scope.run, scope.source_type), (3, 1, SourceType::TeamParallel));
    assert_eq!(scope.subagent_id.as_str(), "c");
    assert!(matches!(read.kind, EventKind::StreamComplete(end) if end.outcome == Outcome::Interrupted));

    let too_many = (0..70).fold(event.to_owned(), |event, _| wrap(&event, "c", "b"));
    let error = reader().read(&too_many).unwrap_err();
    assert_eq!(error.to_string(), "the event in subagent: wrapped more than 64 times");
}

#[test]
fn an_error_is_a_failed_end() {
    let line =
        r#"{"message":"429","code":"rate_limit","run_id":"r","agent_name":null,"event_kind":"run_error"}"#;
    let event = reader().read(line).unwrap().event;
    let EventKind::StreamComplete(end) = &event.kind else { panic!("an end") };
    assert_eq!(end.outcome, Outcome::Failed);
    assert_eq!(end.error.as_ref().unwrap().to_string(), "rate_limit: 429");
}

#[test]
fn what_has_no_equal_kind_keeps_all_its_fields() {
    for (line, kept) in [
        (
            r#"{"index":0,"part":{"content":"","part_kind":"text"},"event_kind":"part_start","n":1.50}"#,
            r#""metadata":{},"type":"part_start","index":0,"part":{"content":"","part_kind":"text"},"n":1.50}"#,
        ),
        (
            r#"{"tool_name":"bash","tool_result":null,"metadata":{"is_error":true},"event_kind":"tool_call_complete"}"#,
            r#""metadata":{"is_error":true},"type":"tool_call_complete","tool_name":"bash","tool_result":null}"#,
        ),
        (
            r#"{"tool_name":"bash","metadata":null,"event_kind":"tool_call_complete"}"#,
            r#""metadata":{},"type":"tool_call_complete","tool_name":"bash","metadata":null}"#,
        ),
    ] {
        let event = reader().read(line).unwrap().event;
        let written = native::to_string(&event).unwrap();
        assert!(written.ends_with(kept), "{written}");
        assert_eq!(native::Reader::default().read(&written).unwrap().event, event);
    }
}

#[test]
fn each_event_gets_an_id_and_a_time_of_its_own_unless_it_has_them() {
    let mut reader = reader();
    let (first, second) = (reader.read(SPAWN).unwrap().event, reader.read(SPAWN).unwrap().event);
    assert_ne!(first.id, second.id);
    assert_eq!(first.created_at, Timestamp::from_unix(1_796_032_800, 0));
    let line = r#"{"id":"mine","type":"USER_INTERRUPT","reply_id":"r"}"#;
    assert_eq!(reader.read(line).unwrap().event.id.to_string(), "mine");

    let error = native::Reader::default().read(SPAWN).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spawn_session_start: field `id`: missing; `Reader::new` gives a fresh one to each such event"
    );
}

#[test]
fn a_bad_body_is_an_error_under_the_name_that_the_line_has() {
    for (line, message) in [
        (
            r#"{"event_kind":"spawn_session_start","child_session_id":"c"}"#,
            "spawn_session_start: field `parent_session_id`: missing",
        ),
        (
            r#"{"event_kind":"subagent","source_name":"n","source_type":"agent","child_session_id":null,"event":{}}"#,
            "subagent: field `child_session_id`: invalid type: null, expected a string",
        ),
        (
            r#"{"event_kind":"stream_complete","cancelled":"no"}"#,
            "stream_complete: field `cancelled`: invalid type: string \"no\", expected a boolean",
        ),
        (r#"{"event_kind":"run_error"}"#, "run_error: field `message`: missing"),
        (r#"{"event_kind":7}"#, "the line: field `event_kind`: invalid type: integer `7`, expected a string"),
        (r#"{"event":{}}"#, "the line: field `type`: missing"),
    ] {
        assert_eq!(reader().read(line).unwrap_err().to_string(), message);
    }
}
