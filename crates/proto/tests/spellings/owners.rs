//! Whose the events of a flat stream are where agentscope's own lines do not say it plainly.

use std::time::Instant;

use anabranch_proto::{
    ChildScope, Event, Metadata, Scope, SpawnMechanism,
    event::{ExceedMaxIters, SpawnSessionStart},
    flat,
};

use crate::generated::at;

/// A line with this metadata.
fn line(metadata: &str, tag: &str, rest: &str) -> String {
    format!(r#"{{"id":"e","created_at":"2026-11-30T10:00:00","metadata":{metadata},"type":"{tag}",{rest}}}"#)
}

fn named(subagent: &str) -> String {
    format!(r#"{{"subagent_id":"{subagent}"}}"#)
}

fn start(subagent: &str, session: &str, reply: &str) -> String {
    let rest = format!(r#""session_id":"{session}","reply_id":"{reply}","name":"n""#);
    line(&if subagent.is_empty() { "{}".to_owned() } else { named(subagent) }, "REPLY_START", &rest)
}

fn read(reader: &mut flat::Reader, line: &str) -> Event {
    reader.read(line).unwrap_or_else(|error| panic!("{error}: {line}")).event
}

const RESULT_END: &str = r#""reply_id":"r","tool_call_id":"c","state":"success""#;

#[test]
fn a_resumed_replys_result_is_not_of_the_child_that_it_names() {
    let before = [
        line("{}", "TOOL_RESULT_START", r#""reply_id":"r","tool_call_id":"c","tool_call_name":"t""#),
        line("{}", "TOOL_RESULT_TEXT_DELTA", r#""reply_id":"r","tool_call_id":"c","delta":"x""#),
        line("{}", "USER_CONFIRM_RESULT", r#""reply_id":"r","confirm_results":[]"#),
        line("{}", "EXTERNAL_EXECUTION_RESULT", r#""reply_id":"r","execution_results":[]"#),
    ];
    for first in &before {
        let mut reader = flat::Reader::default();
        read(&mut reader, first);
        let end = reader.read(&line(&named("sa_1"), "TOOL_RESULT_END", RESULT_END)).unwrap();
        assert_eq!((&end.event.scope, end.provisional), (&Scope::Root, false), "{first}");
        assert_eq!(end.event.metadata.get_str("subagent_id").as_deref(), Some("sa_1"));
    }
}

#[test]
fn a_result_is_of_whom_it_began_for_though_the_named_child_has_a_reply_of_that_id() {
    let mut reader = flat::Reader::default();
    let result_start = r#""reply_id":"r","tool_call_id":"c","tool_call_name":"t""#;
    read(&mut reader, &start("", "s", "r"));
    read(&mut reader, &line("{}", "TOOL_RESULT_START", result_start));
    read(&mut reader, &start("sa_1", "s1", "r"));
    let end = line(&named("sa_1"), "TOOL_RESULT_END", RESULT_END);
    assert_eq!(read(&mut reader, &end).scope, Scope::Root);

    // Now it is the child's own.
    read(&mut reader, &line(&named("sa_1"), "TOOL_RESULT_START", result_start));
    assert!(read(&mut reader, &end).scope.child().is_some());
}

#[test]
fn who_answers_a_childs_question_does_not_own_its_reply() {
    let mut reader = flat::Reader::default();
    read(&mut reader, &start("sa_1", "s1", "r"));
    read(&mut reader, &line("{}", "USER_CONFIRM_RESULT", r#""reply_id":"r","confirm_results":[]"#));
    let end = read(&mut reader, &line(&named("sa_2"), "TOOL_RESULT_END", RESULT_END));
    assert_eq!(end.scope.child().unwrap().subagent_id.as_str(), "sa_1");
}

#[test]
fn spawns_without_a_run_are_counted() {
    let mut reader = flat::Reader::default();
    let scope = |run| ChildScope::new("ses", "root", "sa_1", "n1").run(run);
    for (given, run) in [(None, 1), (None, 2), (Some(7), 7), (None, 8)] {
        let mut spawn = SpawnSessionStart::new(&scope(1), SpawnMechanism::Sync, "d");
        spawn.run = given;
        let spawn = Event::new("e", at(), Scope::Root, Metadata::default(), spawn);
        assert_eq!(read(&mut reader, &flat::to_string(&spawn).unwrap()), spawn);
        let metadata = Metadata::default().with("subagent_id", "sa_1");
        let event = Event::new("e", at(), scope(run).into(), metadata, ExceedMaxIters::new("r", "n"));
        assert_eq!(read(&mut reader, &flat::to_string(&event).unwrap()), event);
    }
}

#[test]
fn unannounced_children_with_one_session_stay_apart() {
    let mut reader = flat::Reader::default();
    read(&mut reader, &start("", "s", "r"));
    let sessions = ["a", "b", "t", "c", "d"].map(|subagent| {
        let session = if subagent < "c" { "s" } else { "t" };
        let event = read(&mut reader, &start(subagent, session, &format!("r{subagent}")));
        event.scope.child().unwrap().child_session_id.to_string()
    });
    assert_eq!(sessions, ["a", "b", "t", "c", "d"]);
    let taken = read(&mut reader, &start("e", "f", "re"));
    let other = read(&mut reader, &line(&named("f"), "USER_INTERRUPT", r#""reply_id":"rf""#));
    assert_eq!(taken.scope.child().unwrap().child_session_id.as_str(), "f");
    assert_eq!(other.scope.child().unwrap().child_session_id.as_str(), "f#2");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "only the wall clock tells linear from quadratic here")]
fn children_with_one_reply_id_are_linear() {
    let takes = |children: u32| {
        let mut reader = flat::Reader::default();
        let began = Instant::now();
        for child in 0..children {
            read(&mut reader, &start(&format!("a{child}"), &format!("s{child}"), "r"));
        }
        for child in 0..children {
            read(&mut reader, &line(&named(&format!("a{child}")), "TOOL_RESULT_END", RESULT_END));
        }
        began.elapsed()
    };
    // Eight times as much, and a machine that may be at something else. Where each owner was looked at it was 64 times.
    let (few, many) = (takes(5_000), takes(40_000));
    assert!(many < few * 24, "{few:?}, {many:?}");
}
