//! What the strict reader of AG-UI refuses, and what it lets pass.

use anabranch_testkit::ag_ui::{Dialect, Reader};

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;
const CHILD: &str = r#"{"type":"SUBAGENT_STARTED","subagentRunId":"c","name":"n"}"#;
const CHILD_ENDED: &str = r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"c"}"#;

/// What is wrong with these frames, between the begin and the end of a run.
fn fault_of(dialect: Dialect, frames: &[&str]) -> Option<String> {
    let lines = [&[STARTED], frames, &[FINISHED]].concat().join("\n");
    Reader::new(dialect).stream(&lines).err().map(|fault| fault.what)
}

#[test]
fn a_stream_as_it_should_be_is_read() {
    let frames = [
        r#"{"type":"TOOL_CALL_START","toolCallId":"k","toolCallName":"spawn","timestamp":1}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"k"}"#,
        r#"{"type":"SUBAGENT_STARTED","subagentRunId":"c","name":"n","parentToolCallId":"k","metadata":{"a":null}}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"c:m","role":"assistant","subagentRunId":"c"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"c:m","delta":"he","subagentRunId":"c"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"c:m","delta":"llo","subagentRunId":"c"}"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"c:m","subagentRunId":"c"}"#,
        r#"{"type":"CUSTOM","name":"x","value":null,"subagentRunId":"c"}"#,
        r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"c","outcome":{"type":"suspended","interruptIds":["i"]}}"#,
        r#"{"type":"TOOL_CALL_RESULT","messageId":"k:result","toolCallId":"k","content":""}"#,
    ];
    let lines = [&[STARTED], &frames[..], &[FINISHED]].concat().join("\n");
    let reader = Reader::new(Dialect::Attributed).stream(&lines).unwrap();
    assert_eq!(reader.texts()[&("c".to_owned(), "c:m".to_owned())], "hello");
    assert_eq!(reader.ends()["c"], "suspended");
    assert_eq!(reader.frames(), 12);
}

#[test]
fn frames_of_the_wrong_shape_are_refused() {
    for (frame, what) in [
        ("[]", "a frame is an object"),
        ("{}", "a frame has a `type`"),
        (r#"{"type":"TEXT_MESSAGE_CHUNK"}"#, "`TEXT_MESSAGE_CHUNK` is no event"),
        (r#"{"type":"STEP_STARTED"}"#, "STEP_STARTED lacks `stepName`"),
        (r#"{"type":"STEP_STARTED","stepName":"s","step_name":"s"}"#, "STEP_STARTED has no `step_name`"),
        (r#"{"type":"STEP_STARTED","stepName":null}"#, "STEP_STARTED: `stepName` is null"),
        (
            r#"{"type":"STEP_STARTED","stepName":"s","subagentRunId":null}"#,
            "STEP_STARTED: `subagentRunId` is null",
        ),
        (r#"{"type":"STEP_STARTED","stepName":"s","metadata":null}"#, "STEP_STARTED: `metadata` is null"),
        (
            r#"{"type":"STEP_STARTED","stepName":"s","timestamp":1.5}"#,
            "STEP_STARTED: `timestamp` is no safe integer",
        ),
        (
            r#"{"type":"STEP_STARTED","stepName":"s","timestamp":9007199254740992}"#,
            "STEP_STARTED: `timestamp` is no safe integer",
        ),
        (
            r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","subagentRunId":"c"}"#,
            "RUN_FINISHED has no `subagentRunId`",
        ),
        (
            r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[]}}"#,
            "RUN_FINISHED: `outcome` has no interrupts",
        ),
        (
            r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"c","outcome":{"type":"cancelled"}}"#,
            r#"SUBAGENT_FINISHED: `outcome` is {"type":"cancelled"}"#,
        ),
    ] {
        assert_eq!(fault_of(Dialect::Attributed, &[frame]).as_deref(), Some(what));
    }
}

#[test]
fn what_the_client_refuses_is_refused() {
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#;
    let piece = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#;
    let end = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"k","toolCallName":"t"}"#;
    let step = r#"{"type":"STEP_STARTED","stepName":"s"}"#;
    let of_child = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"c"}"#;
    let cases: &[(&[&str], &str)] = &[
        (&[STARTED], "a run begins within a run"),
        (&[FINISHED], "RUN_FINISHED comes outside a run"),
        (&[piece], "the message `m` is not open"),
        (&[text, text], "the message `m` is open already"),
        (&[text, end, end], "the message `m` is not open"),
        (&[call, call], "the call `k` is open already"),
        (&[step, step], "the step `s` is open already"),
        (&[r#"{"type":"STEP_FINISHED","stepName":"s"}"#], "the step `s` is not open"),
        (&[CHILD, CHILD], "`c` begins twice in a run"),
        (&[CHILD, CHILD_ENDED, CHILD], "`c` has ended and begins again"),
        (&[CHILD_ENDED], "`c` ends and is not at work"),
        (&[CHILD, text, end, of_child], "the message `m` is another's"),
        (
            &[r#"{"type":"SUBAGENT_STARTED","subagentRunId":"c","name":"n","parentSubagentRunId":"p"}"#],
            "the parent `p` has not begun in this run",
        ),
        (&[CHILD], r#"the run ends and {"c"} are at work"#),
    ];
    for (frames, what) in cases {
        assert_eq!(fault_of(Dialect::Attributed, frames).as_deref(), Some(*what));
    }
    let open = fault_of(Dialect::Attributed, &[text]).unwrap();
    assert!(open.starts_with("the run ends and has "), "{open}");
}

#[test]
fn what_the_client_forgives_and_the_protocol_forbids_is_refused() {
    let of_child = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"c"}"#;
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#;
    let end = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"k","toolCallName":"t"}"#;
    let call_end = r#"{"type":"TOOL_CALL_END","toolCallId":"k"}"#;
    let text_of_call = r#"{"type":"TEXT_MESSAGE_START","messageId":"k"}"#;
    let thought = r#"{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}"#;
    let result = r#"{"type":"TOOL_CALL_RESULT","messageId":"k:r","toolCallId":"k","content":""}"#;
    let cases: &[(&[&str], &str)] = &[
        (&[of_child, CHILD], "TEXT_MESSAGE_START is of `c`, which is not at work"),
        (&[CHILD, CHILD_ENDED, of_child], "TEXT_MESSAGE_START is of `c`, which is not at work"),
        (&[text, end, text], "the message `m` has ended in this run"),
        (&[result], "the call `k` has not begun"),
        (&[call, result], "the call `k` has a result and its arguments are open"),
        (&[call, call_end, result, result], "the call `k` has two results"),
        (&[text, end, thought], "the reasoning message `m` has the id of a message"),
        (&[call, call_end, text_of_call], "the message `k` has the id of a call"),
    ];
    for (frames, what) in cases {
        assert_eq!(fault_of(Dialect::Attributed, frames).as_deref(), Some(*what));
    }
    let left = fault_of(Dialect::Attributed, &[CHILD, of_child, CHILD_ENDED]).unwrap();
    assert!(left.starts_with("`c` ends and has "), "{left}");
}

#[test]
fn a_stream_that_stops_within_a_run_is_refused() {
    for (lines, what) in [("", "the stream is empty"), (STARTED, "the stream ends within a run")] {
        let fault = Reader::new(Dialect::Attributed).stream(lines).unwrap_err();
        assert_eq!(fault.what, what);
    }
}

#[test]
fn what_older_clients_do_not_know_is_refused_in_their_dialects() {
    let named = r#"{"type":"CUSTOM","name":"x","value":1,"subagentRunId":"c"}"#;
    assert_eq!(fault_of(Dialect::AttributionOnly, &[named]), None);
    assert_eq!(
        fault_of(Dialect::AttributionOnly, &[CHILD]).as_deref(),
        Some("a client that speaks this does not know SUBAGENT_STARTED")
    );
    assert_eq!(fault_of(Dialect::Inline, &[named]).as_deref(), Some("CUSTOM bears the name of `c`"));
    let cancelled = FINISHED.replace('}', r#","outcome":{"type":"cancelled"}}"#);
    let lines = [STARTED, &cancelled].join("\n");
    assert!(Reader::new(Dialect::AttributionOnly).stream(&lines).is_err());
    assert!(Reader::new(Dialect::Inline).stream(&lines).is_ok());
}
