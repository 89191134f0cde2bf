//! The binary `anabranch-check`.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use anabranch_proto::{Outcome, flat, grammar::Rule, native};
use anabranch_testkit::{Broken, Stage};

fn check(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-check"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may have seen enough before all is written.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn stage() -> Stage {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let child = root.spawn("n1");
    child.begin("Look");
    child.say_in(&["It ", "rains."]);
    child.use_tool("read", "{}", "a");
    child.end(Outcome::Completed);
    root.end(Outcome::Completed);
    stage
}

fn native_lines() -> String {
    stage().events().iter().map(|event| native::to_string(event).unwrap() + "\n").collect()
}

#[test]
fn a_well_formed_stream_is_counted_in_either_spelling() {
    let flat: String = stage().events().iter().map(|event| flat::to_string(event).unwrap() + "\n").collect();
    let counted = [native_lines(), flat].map(|lines| {
        let (code, out, err) = said(&check(&["-"], lines.as_bytes()));
        assert_eq!((code, err.as_str()), (Some(0), ""));
        out
    });
    assert_eq!(counted[0], counted[1]);
    insta::assert_snapshot!(counted[0], @r#"
    REPLY_START             2
    REPLY_END               2
    TEXT_BLOCK_START        1
    TEXT_BLOCK_DELTA        2
    TEXT_BLOCK_END          1
    TOOL_CALL_START         1
    TOOL_CALL_DELTA         1
    TOOL_CALL_END           1
    TOOL_RESULT_START       1
    TOOL_RESULT_TEXT_DELTA  1
    TOOL_RESULT_END         1
    USER_MESSAGE            2
    SPAWN_SESSION_START     1
    STREAM_COMPLETE         2
    events: 19, sessions: 2, runs: 2, replies: 2, model calls: 0, blocks: 1, tool calls: 1, depth: 1
    well-formed
    "#);
}

#[test]
fn a_violation_is_told_with_its_line() {
    let broken = Broken::of(Rule::Announced);
    let mut lines = String::new();
    for admitted in &broken.events {
        let mut line = Vec::new();
        native::write(Some(admitted.seq), &admitted.event, &mut line).unwrap();
        lines += std::str::from_utf8(&line).unwrap();
        lines += "\n";
    }
    let (code, out, err) = said(&check(&["-"], lines.as_bytes()));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    insta::assert_snapshot!(err, @r#"
    error: line 6: USER_MESSAGE 01KDVDNA000000000000000007 of ses_1 breaks `announced`: expected a spawn of run 1 of `ses_1` before it
      rule: A child's run is announced by a spawn before its first event.
    "#);
}

#[test]
fn a_stream_that_ends_too_early_is_told_with_its_last_line() {
    let lines = native_lines();
    let cut = lines.trim_end().rsplit_once('\n').unwrap().0;
    let (code, _, err) = said(&check(&["-"], cut.as_bytes()));
    assert_eq!(code, Some(1));
    insta::assert_snapshot!(err, @r#"
    error: after line 18: the end of the stream of root breaks `terminal`: expected STREAM_COMPLETE of run 1
      rule: Every run ends with a terminal before the stream does.
    "#);
}

#[test]
fn an_unreadable_line_is_told_with_its_number_and_what_is_wrong() {
    let good = native_lines();
    let first = good.lines().next().unwrap();
    let reply = |id: &str| {
        format!(r#"{{"id":"e","created_at":"2026-01-01T00:00:00Z","type":"USER_INTERRUPT","reply_id":{id}}}"#)
    };
    let deep = reply(&("[".repeat(10_000) + &"]".repeat(10_000)));
    let cases: [(Vec<u8>, &str); 6] = [
        (first[..40].into(), "cut short"),
        (reply("null").into(), "USER_INTERRUPT: field `reply_id`: invalid type: null, expected a string"),
        (reply("7").into(), "USER_INTERRUPT: field `reply_id`: invalid type: integer `7`, expected a string"),
        (deep.into(), "nested"),
        (b"{\"id\":\"\xFF\"}".to_vec(), "not UTF-8"),
        (b"[]".to_vec(), "not a JSON object"),
    ];
    for (bad, problem) in cases {
        let input = [first.as_bytes(), b"\n", &bad, b"\n", first.as_bytes()].concat();
        let (code, out, err) = said(&check(&["-"], &input));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{problem}");
        assert!(err.starts_with("error: line 2 ") && err.contains(problem), "{problem}: {err}");
        assert!(err.ends_with("\n  events before it, well-formed so far: 1\n"), "{err}");
    }
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    let (code, _, err) = said(&check(&["--max-line", "100", "-"], native_lines().as_bytes()));
    assert_eq!(code, Some(1));
    assert!(err.starts_with("error: line 1 is longer than 100 bytes"), "{err}");
}

#[test]
fn nothing_is_no_stream_and_bad_arguments_are_told() {
    assert_eq!(said(&check(&["-"], b"\n")).0, Some(1));
    assert_eq!(said(&check(&["no/such/file"], b"")).0, Some(1));
    assert_eq!(said(&check(&[], b"")).0, Some(2));
    assert_eq!(said(&check(&["--profile", "other", "-"], b"")).0, Some(2));
}

#[test]
fn agentscopes_own_streams_have_a_profile() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/tests/data/agentscope/streams/");
    let text = std::fs::read_to_string(format!("{folder}02_two_concurrent_tools.jsonl")).unwrap();
    // The last line is the message that the events add up to.
    let events = text.trim_end().rsplit_once('\n').unwrap().0;
    let (code, out, err) = said(&check(&["--profile", "agentscope", "-"], events.as_bytes()));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.ends_with("well-formed\n"), "{out}");
    assert_eq!(said(&check(&["-"], events.as_bytes())).0, Some(1));
}
