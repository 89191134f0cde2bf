//! What is wrong is named with its line, and what came before is already there.

use std::error::Error as _;

use anabranch_proto::{
    ChildScope, Event, Metadata, Scope,
    event::TextBlockDelta,
    flat,
    lines::{EventLines, EventReader, LineError, LineSplitter},
    native,
};

use crate::generated::at;

const HEAD: &str = r#"{"id":"e","created_at":"2026-11-30T10:00:00Z","metadata":{},"type":"#;

fn good() -> String {
    let event = Event::new("e", at(), Scope::Root, Metadata::default(), TextBlockDelta::new("r", "b", "x"));
    native::to_string(&event).unwrap()
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// The numbers of the lines that were read, and the errors with what lies behind them.
fn read<R: EventReader>(mut lines: EventLines<R>, bytes: &[u8]) -> (Vec<u64>, Vec<String>) {
    let (mut read, mut errors) = (Vec::new(), Vec::new());
    let mut take = |line: Result<_, LineError>| match line {
        Ok(anabranch_proto::lines::Numbered { line, .. }) => read.push(line),
        Err(error) => {
            let cause = error.source().map(|cause| format!(": {cause}"));
            errors.push(format!("{error}{}", cause.unwrap_or_default()));
        }
    };
    for mut chunk in bytes.chunks(4_096) {
        while let Some(line) = lines.next_event(&mut chunk) {
            take(line);
        }
    }
    if let Some(line) = lines.finish() {
        take(line);
    }
    (read, errors)
}

#[test]
fn each_bad_line_is_named_and_the_others_are_read() {
    let result = r#"{"type":"tool_result","id":"i","name":"n","output":["#;
    let results = format!("{}{}", result.repeat(10_000), "]}".repeat(10_000));
    let long = format!(
        r#"{HEAD}"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"{}"}}"#,
        "x".repeat(9_000_000)
    );
    for (bad, expected) in [
        (
            r#"{"id":"e","crea"#.to_owned(),
            "line 2 is no event; correct or remove it: not a JSON object: it is cut short at column 15",
        ),
        (
            format!(r#"{HEAD}"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":null}}"#),
            "line 2 is no event; correct or remove it: TEXT_BLOCK_DELTA: field `delta`: invalid type: null, expected a string",
        ),
        (
            format!(r#"{HEAD}"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":["x"]}}"#),
            "line 2 is no event; correct or remove it: TEXT_BLOCK_DELTA: field `delta`: invalid type: sequence, expected a string",
        ),
        (
            format!("{HEAD}null}}"),
            "line 2 is no event; correct or remove it: the line: field `type`: invalid type: null, expected a string",
        ),
        (
            format!(r#"{HEAD}"NEW","deep":{}}}"#, nested(10_000)),
            "line 2 is no event; correct or remove it: nested more than 128 deep",
        ),
        (
            format!(r#"{HEAD}"EXTERNAL_EXECUTION_RESULT","reply_id":"r","execution_results":[{results}]}}"#),
            "line 2 is no event; correct or remove it: nested more than 128 deep",
        ),
        (
            "[1]".to_owned(),
            "line 2 is no event; correct or remove it: not a JSON object: invalid type: sequence, expected a JSON object at line 1 column 0",
        ),
        (long, "line 2 is longer than 8388608 bytes; raise `max_line`, or have its producer split the event"),
    ] {
        let text = format!("{}\n{bad}\n\n{}", good(), good());
        let splitter = || LineSplitter::new().max_line(8 << 20);
        for (numbers, errors) in [
            read(EventLines::with_splitter(splitter(), native::Reader::default()), text.as_bytes()),
            read(EventLines::with_splitter(splitter(), flat::Reader::default()), text.as_bytes()),
        ] {
            assert_eq!(errors, [expected]);
            assert_eq!(numbers, [1, 4]);
        }
    }
}

#[test]
fn what_is_not_utf8_is_named_with_its_place() {
    let bytes = [good().as_bytes(), b"\n{\"id\":\"\xFF\"}\n", good().as_bytes()].concat();
    let (numbers, errors) = read(EventLines::new(native::Reader::default()), &bytes);
    assert_eq!(errors, ["line 2 is not UTF-8 from byte 7 on; its producer has to write UTF-8"]);
    assert_eq!(numbers, [1, 3]);
}

#[test]
fn a_stream_that_is_cut_gives_what_is_whole() {
    let text = format!("{}\n{}\n", good(), good());
    for length in 0..text.len() {
        let (numbers, errors) = read(EventLines::new(flat::Reader::default()), &text.as_bytes()[..length]);
        let first = good().len();
        assert_eq!(numbers.len() + errors.len(), length.div_ceil(first + 1).min(2));
        assert!(errors.iter().all(|error| error.contains("cut short")), "{errors:?}");
        assert_eq!(numbers.len(), usize::from(length >= first) + usize::from(length > 2 * first));
    }
}

#[test]
fn as_deep_as_allowed_is_read_and_written() {
    let line = format!(r#"{HEAD}"NEW","deep":{}}}"#, nested(127));
    assert_eq!(native::to_string(&native::Reader::default().read(&line).unwrap().event).unwrap(), line);
    assert_eq!(flat::to_string(&flat::Reader::default().read(&line).unwrap().event).unwrap(), line);
    let blocks = format!(
        r#"{HEAD}"EXTERNAL_EXECUTION_RESULT","reply_id":"r","execution_results":[{}{}]}}"#,
        r#"{"type":"tool_result","id":"i","name":"n","output":["#.repeat(63),
        r#"],"state":"success","metadata":{},"finished_at":null}"#.repeat(63)
    );
    assert_eq!(native::to_string(&native::Reader::default().read(&blocks).unwrap().event).unwrap(), blocks);
}

#[test]
fn a_native_line_of_a_child_is_refused_by_the_flat_reader_with_a_hint() {
    let scope = ChildScope::new("ses_1", "ses_0", "sa_1", "n1");
    let event = Event::new("e", at(), scope.into(), Metadata::default(), TextBlockDelta::new("r", "b", "x"));
    let error = flat::Reader::default().read(&native::to_string(&event).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "SUB_AGENT: is of the native spelling; read it with `native::Reader`");
}
