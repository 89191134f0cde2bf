//! Lines of other producers that look like ours.

use std::sync::Arc;

use anabranch_proto::{Event, EventKind, Scope, Stamp, Timestamp, flat, native};

fn line(rest: &str) -> String {
    format!(r#"{{"id":"e","created_at":"2026-11-30T10:00:00",{rest}}}"#)
}

fn read(line: &str) -> Event {
    flat::Reader::default().read(line).unwrap_or_else(|error| panic!("{error}: {line}")).event
}

#[test]
fn a_field_that_adds_nothing_stays_where_it_is() {
    for rest in [
        r#""metadata":{},"type":"USER_INTERRUPT","reply_id":"r","anabranch":{}"#,
        r#""metadata":{},"type":"USER_INTERRUPT","reply_id":"r","anabranch":7"#,
        r#""metadata":{},"type":"NEW","anabranch":{}"#,
        r#""metadata":{},"type":"CUSTOM","name":"mine","value":{},"anabranch":{"later":1}"#,
    ] {
        let line = line(rest);
        assert_eq!(flat::to_string(&read(&line)).unwrap(), line);
    }
    for rest in [
        r#""metadata":{},"type":"USER_INTERRUPT","reply_id":"r","anabranch":{"application":true}"#,
        r#""metadata":{},"type":"USER_INTERRUPT","reply_id":"r","anabranch":{},"anabranch":{}"#,
        r#""metadata":{},"type":"NEW","anabranch":{},"anabranch":{}"#,
    ] {
        let event = native::Reader::default().read(&line(rest)).unwrap().event;
        assert_eq!(read(&flat::to_string(&event).unwrap()), event, "{rest}");
    }
}

#[test]
fn a_key_that_is_no_text_hides_nobody() {
    for metadata in [
        r#"{"\ud800":1,"subagent_id":"sa_1"}"#,
        r#"{"subagent_id":"sa_1","k":{"\ud800":1},"\udc00x":"\ud800"}"#,
    ] {
        for kind in [
            r#""type":"USER_INTERRUPT","reply_id":"r""#,
            r#""type":"TOOL_RESULT_END","reply_id":"r","tool_call_id":"c","state":"success","response":{"n":1}"#,
        ] {
            let line = line(&format!(r#""metadata":{metadata},{kind}"#));
            let event = read(&line);
            assert_eq!(event.scope.child().unwrap().subagent_id.as_str(), "sa_1", "{line}");
            assert_eq!(event.metadata.to_string(), metadata);
            assert_eq!(read(&flat::to_string(&event).unwrap()), event, "{line}");

            // The root's, whatever it says; and the child's that it does not name.
            let mut of_root = event.clone();
            of_root.scope = Scope::Root;
            assert_eq!(read(&flat::to_string(&of_root).unwrap()), of_root, "{line}");
            let mut unnamed = event;
            unnamed.metadata = serde_json::from_str(r#"{"\ud800":1}"#).unwrap();
            assert_eq!(read(&flat::to_string(&unnamed).unwrap()), unnamed, "{line}");
            unnamed.scope = Scope::Root;
            assert_eq!(read(&flat::to_string(&unnamed).unwrap()), unnamed, "{line}");
        }
    }
}

#[test]
fn scopes_are_told_apart_whatever_is_in_a_key() {
    let head = r#"{"type":"SUB_AGENT","child_session_id":"c","parent_session_id":"p","tool_call_id":null,"source_type":"agent","depth":1,"subagent_id":"s""#;
    let event = line(r#""type":"USER_INTERRUPT","reply_id":"r""#);
    let mut reader = native::Reader::default();
    let mut read = |fields: &str| reader.read(&format!("{head},{fields},\"event\":{event}}}"));
    for name in ["a", "b"] {
        let read = read(&format!(r#""x":1,"source_name":"{name}""#)).unwrap().event;
        assert_eq!(&*read.scope.child().unwrap().source_name, name);
    }
    // One key that spells two with a value between them.
    let error = read(r#""x\u00001\u0000source_name":"a""#).unwrap_err();
    assert_eq!(error.to_string(), "SUB_AGENT: field `source_name`: missing");
}

/// Always the same.
struct Still;

impl Stamp for Still {
    fn unique(&self) -> [u8; 16] {
        [7; 16]
    }

    fn ascending(&self) -> [u8; 16] {
        [7; 16]
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(1_796_032_800, 0)
    }
}

#[test]
fn what_the_rfc_maps_is_read_back_natively() {
    let mut reader = native::Reader::new(Arc::new(Still));
    for line in [
        r#"{"event_kind":"stream_complete","metadata":{"k":1},"outcome":"no","extra":1}"#,
        r#"{"event_kind":"stream_complete","metadata":null,"message":{"content":"x","metadata":{"k":1}}}"#,
        r#"{"event_kind":"run_error","message":"m","metadata":{"k":1},"error":7,"agent_name":null}"#,
        r#"{"event_kind":"custom","event_type":"t","event_data":1,"metadata":{"k":1},"name":"n","value":2}"#,
    ] {
        let event = reader.read(line).unwrap().event;
        let written = native::to_string(&event).unwrap();
        assert_eq!(written.matches("\"outcome\"").count() + written.matches("\"name\":\"t\"").count(), 1);
        assert_eq!(native::Reader::default().read(&written).unwrap().event, event, "{written}");
        if line.contains(r#","metadata":{"k":1}"#) && !line.contains("\"content\"") {
            assert_eq!(event.metadata.to_string(), r#"{"k":1}"#);
        }
    }
    for tag in EventKind::TAGS.iter().chain(&["SUB_AGENT"]) {
        let error = reader.read(&format!(r#"{{"event_kind":"{tag}"}}"#)).unwrap_err();
        assert_eq!(error.to_string(), format!("{tag}: is of the native spelling; name it by `type`"));
    }
}
