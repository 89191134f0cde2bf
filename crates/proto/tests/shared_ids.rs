//! The ids that successive events repeat are held once, whoever reads them.

use anabranch_proto::{Event, EventKind, flat, native};

const DEMO: [&str; 2] = [include_str!("data/demo/nested.jsonl"), include_str!("data/demo/fan.jsonl")];

/// The reply and the block, or the reply and the call, of a delta.
fn ids(event: &Event) -> Option<[&str; 2]> {
    if let EventKind::TextBlockDelta(delta) = &event.kind {
        Some([delta.reply_id.as_str(), delta.block_id.as_str()])
    } else if let EventKind::ToolCallDelta(delta) = &event.kind {
        Some([delta.reply_id.as_str(), delta.tool_call_id.as_str()])
    } else {
        None
    }
}

/// Counts events that repeat the ids of the last delta before them in the same session, each with the same memory.
fn repetitions(events: &[Event]) -> usize {
    let deltas: Vec<_> = events.iter().filter_map(|event| Some((&event.scope, ids(event)?))).collect();
    let mut repeated = 0;
    for (index, (scope, ids)) in deltas.iter().enumerate() {
        let before = deltas[..index].iter().rev().find(|(other, _)| scope.same_run(other));
        let Some((_, before)) = before.filter(|(_, before)| before == ids) else { continue };
        for (id, before) in ids.iter().zip(before) {
            assert_eq!(id.as_ptr(), before.as_ptr(), "{id} is held twice");
        }
        repeated += 1;
    }
    repeated
}

#[test]
fn events_of_one_reply_share_its_id_and_those_of_its_blocks_and_calls() {
    for stream in DEMO {
        let mut native = native::Reader::default();
        let events: Vec<Event> = stream.lines().map(|line| native.read(line).unwrap().event).collect();
        let repeated = repetitions(&events);
        assert!(repeated > 50, "{repeated}");

        let mut flat = flat::Reader::default();
        let lines = events.iter().map(|event| flat::to_string(event).unwrap());
        let read: Vec<Event> = lines.map(|line| flat.read(&line).unwrap().event).collect();
        assert_eq!(read, events);
        assert_eq!(repetitions(&read), repeated);
    }
}

#[test]
fn a_childs_scope_and_its_replies_share_the_sessions_id() {
    let mut reader = native::Reader::default();
    let events: Vec<Event> = DEMO[0].lines().map(|line| reader.read(line).unwrap().event).collect();
    let mut shared = 0;
    for event in &events {
        if let (Some(child), EventKind::ReplyStart(start)) = (event.scope.child(), &event.kind) {
            assert_eq!(child.child_session_id.as_str().as_ptr(), start.session_id.as_str().as_ptr());
            shared += 1;
        }
    }
    assert!(shared > 1, "{shared}");
}
