//! agentscope's own lines survive both spellings. Where they come from is said in `tests/data/agentscope/README.md`.

use anabranch_proto::{EventKind, Json, flat, native};

const SAMPLES: &str = include_str!("../data/agentscope/samples.jsonl");
const STREAMS: &[&str] = &[
    include_str!("../data/agentscope/streams/01_text_only.jsonl"),
    include_str!("../data/agentscope/streams/02_two_concurrent_tools.jsonl"),
    include_str!("../data/agentscope/streams/03_one_tool_raises.jsonl"),
    include_str!("../data/agentscope/streams/04_invalid_args_unknown_tool.jsonl"),
    include_str!("../data/agentscope/streams/05_cancelled.jsonl"),
    include_str!("../data/agentscope/streams/06a_user_confirm_parked.jsonl"),
    include_str!("../data/agentscope/streams/06b_user_confirm_input.jsonl"),
    include_str!("../data/agentscope/streams/06c_user_confirm_resumed.jsonl"),
];

/// The captured events, a list for each stream; the last line of most streams is a message.
fn streams() -> Vec<Vec<&'static str>> {
    let is_event = |line: &&str| line.starts_with("{\"id\"");
    let mut streams: Vec<Vec<_>> =
        STREAMS.iter().map(|stream| stream.lines().filter(is_event).collect()).collect();
    streams.push(SAMPLES.lines().collect());
    assert_eq!(streams.iter().map(Vec::len).sum::<usize>(), 28 + 111, "every line of the captures is read");
    streams
}

fn compact(line: &str) -> String {
    Json::parse(line).unwrap().to_string()
}

#[test]
fn each_captured_line_is_written_flat_as_it_was_read() {
    for stream in streams() {
        let mut reader = flat::Reader::default();
        for line in stream {
            let read = reader.read(line).unwrap();
            assert!(!matches!(read.event.kind, EventKind::Unknown(_)), "{line}");
            assert_eq!(flat::to_string(&read.event).unwrap(), compact(line));
        }
    }
}

#[test]
fn each_captured_line_is_the_event_of_its_native_spelling() {
    for stream in streams() {
        let (mut flat_reader, mut native_reader) = (flat::Reader::default(), native::Reader::default());
        for line in stream {
            let read = flat_reader.read(line).unwrap().event;
            let written = native::to_string(&read).unwrap();
            let inner = match written.split_once("\"event\":") {
                Some((_, event)) if read.scope.child().is_some() => event.strip_suffix('}').unwrap(),
                _ => &written,
            };
            assert_eq!(inner, compact(line));
            let again = native_reader.read(&written).unwrap().event;
            assert_eq!(again, read);
            assert_eq!(flat::to_string(&again).unwrap(), compact(line));
        }
    }
}

#[test]
fn only_the_events_that_name_a_sub_agent_are_provisional() {
    for stream in streams() {
        let mut reader = flat::Reader::default();
        for line in stream {
            let read = reader.read(line).unwrap();
            assert_eq!(read.provisional, line.contains("subagent_id"));
            assert_eq!(read.provisional, read.event.scope.child().is_some());
        }
    }
}
