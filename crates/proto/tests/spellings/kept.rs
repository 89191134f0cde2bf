//! What is kept of a line that says more than its kind has, and what is read as absent.

use anabranch_proto::{Event, EventKind, Message, flat, native};

fn line(rest: &str) -> String {
    format!(r#"{{"id":"e","created_at":"2026-11-30T10:00:00","metadata":{{}},{rest}}}"#)
}

fn read(line: &str) -> Event {
    native::Reader::default().read(line).unwrap_or_else(|error| panic!("{error}: {line}")).event
}

const MORE: &str = r#""later":{"n":1e2,"big":12345678901234567890123},"none":null"#;

#[test]
fn unknown_fields_of_blocks_and_messages_are_kept() {
    let end = r#""finished_at":null"#;
    let blocks = [
        format!(r#"{{"type":"text","text":"x",{end},{MORE}}}"#),
        format!(r#"{{"type":"thinking","thinking":"x",{end},{MORE}}}"#),
        format!(r#"{{"type":"hint","hint":"x","source":null,{end},{MORE}}}"#),
        format!(
            r#"{{"type":"data","source":{{"type":"url","url":"u","media_type":"m"}},"name":null,{end},{MORE}}}"#
        ),
        tool_call(),
        tool_result(),
    ];
    for rest in [
        format!(r#""type":"USER_MESSAGE","message_id":"m","content":[{}],"origin":"user""#, blocks.join(",")),
        format!(
            r#""type":"STREAM_COMPLETE","outcome":"completed","message":{{"id":"m","name":"n","role":"user","content":[{}],{MORE}}}"#,
            blocks[0]
        ),
        format!(r#""type":"REQUIRE_USER_CONFIRM","reply_id":"r","tool_calls":[{}]"#, tool_call()),
        format!(
            r#""type":"EXTERNAL_EXECUTION_RESULT","reply_id":"r","execution_results":[{}]"#,
            tool_result()
        ),
    ] {
        let line = line(&rest);
        let event = read(&line);
        assert_eq!(native::to_string(&event).unwrap(), line);
        assert_eq!(flat::Reader::default().read(&flat::to_string(&event).unwrap()).unwrap().event, event);
    }
    let message: Message =
        serde_json::from_str(r#"{"z":1.50,"id":"m","name":"n","role":"user","content":[]}"#).unwrap();
    assert_eq!(message.extra.get("z").unwrap().as_str(), "1.50");
    let written = serde_json::to_string(&message).unwrap();
    assert_eq!(written, r#"{"id":"m","name":"n","role":"user","content":[],"z":1.50}"#);
}

fn tool_call() -> String {
    format!(
        r#"{{"type":"tool_call","id":"c","name":"t","input":"{{}}","state":"pending","suggested_rules":[],"finished_at":null,{MORE}}}"#
    )
}

fn tool_result() -> String {
    format!(
        r#"{{"type":"tool_result","id":"c","name":"t","output":[{{"type":"text","text":"x","finished_at":null,{MORE}}}],"state":"success","metadata":{{}},"finished_at":null,{MORE}}}"#
    )
}

#[test]
fn null_is_absence_in_our_own_optional_fields() {
    let spawn = r#""type":"SPAWN_SESSION_START","child_session_id":"c","parent_session_id":"p","spawn_mechanism":"sync","source_name":"n","source_type":"agent","description":"d""#;
    for (with, without) in [
        (format!(r#"{spawn},"run":null,"subagent_id":null"#), spawn.to_owned()),
        (
            r#""type":"STREAM_COMPLETE","outcome":"completed","error":null,"message":null"#.to_owned(),
            r#""type":"STREAM_COMPLETE","outcome":"completed""#.to_owned(),
        ),
        (
            r#""type":"TOOL_RESULT_END","reply_id":"r","tool_call_id":"c","state":"success","response":null"#
                .to_owned(),
            r#""type":"TOOL_RESULT_END","reply_id":"r","tool_call_id":"c","state":"success""#.to_owned(),
        ),
    ] {
        let event = read(&line(&with));
        assert_eq!(event, read(&line(&without)));
        assert!(!matches!(event.kind, EventKind::Unknown(_)));
    }
    let inner = line(r#""type":"USER_INTERRUPT","reply_id":"r""#);
    let wrapped = |run: &str| {
        read(&format!(
            r#"{{"type":"SUB_AGENT","child_session_id":"c",{run}"parent_session_id":"p","subagent_id":"s","tool_call_id":null,"source_name":"n","source_type":"agent","depth":1,"event":{inner}}}"#
        ))
    };
    assert_eq!(wrapped(r#""run":null,"#), wrapped(""));
}
