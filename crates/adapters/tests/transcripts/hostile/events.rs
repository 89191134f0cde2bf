//! Events of all kinds, made from numbers.

use std::{fmt, sync::Arc};

use anabranch_proto::{ChildScope, Event, EventKind, Scope, native};
use proptest::prelude::*;
use serde_json::{Value, json};

const SESSIONS: [&str; 7] = ["ses_1", "ses_2", "ses_1#2", "ses_1/result", "ses_0", "", "ses_1/r"];
const REPLIES: [&str; 4] = ["r", "s", "ses_1/r", "r/b"];
const BLOCKS: [&str; 7] = ["b", "c", "call", "call:result", "ses_1:b", "", "b/c"];
const CALLS: [&str; 9] = [
    "call",
    "b",
    "spawn:ses_1",
    "ses_1/call",
    "ses_1:call",
    "ses_1:call:result",
    "",
    "call#2",
    "spawn:ses_1/result",
];
const NAMES: [&str; 4] = ["n1", "", "a\nb\u{1b}[2J", "n1 │ "];
const ARGUMENTS: [&str; 8] =
    ["{}", "null", "", "[", "1e999", r#"{"a":null}"#, r#""text""#, "{\"a\":1,\"a\":2}"];
const RUNS: [Option<u32>; 6] = [None, Some(0), Some(1), Some(2), Some(3), Some(u32::MAX)];

/// Numbers from which an event is made.
type Dice = (usize, [usize; 12]);

fn dice() -> impl Strategy<Value = Dice> {
    // Half of them begin or end somebody, or say something.
    let common = [
        "SPAWN_SESSION_START",
        "STREAM_COMPLETE",
        "TEXT_BLOCK_DELTA",
        "THINKING_BLOCK_DELTA",
        "TEXT_BLOCK_END",
        "THINKING_BLOCK_END",
    ];
    let common = common.map(|tag| EventKind::TAGS.iter().position(|known| *known == tag).unwrap());
    let kind = prop_oneof![0..=EventKind::TAGS.len(), proptest::sample::select(common.to_vec())];
    (kind, proptest::array::uniform12(0..5040_usize))
}

fn pick<T: Clone, const N: usize>(from: &[T; N], dice: usize) -> T {
    // The first few are as likely as all others.
    from[if dice.is_multiple_of(2) { dice / 2 % N.min(2) } else { dice / 2 % N }].clone()
}

/// The event that the dice give; `number` is in all that it says.
fn event(number: usize, (kind, dice): &Dice) -> Event {
    let tag = EventKind::TAGS.get(*kind).copied().unwrap_or("FROM_THE_FUTURE");
    let [d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11] = *dice;
    let said = pick(&["", "!"], d11 / 7);
    let said = if said.is_empty() { format!("<{number}>") } else { String::new() };
    let call = json!({ "id": pick(&CALLS, d3), "name": pick(&NAMES, d4), "input": pick(&ARGUMENTS, d5) });
    let whole = pick(&[Value::Null, json!(format!("<{number}>")), json!("")], d6);
    let mut fields = json!({
        "id": format!("e{}", number - d10 % 3 % (number + 1)), "created_at": "2026-01-01T00:00:00Z", "type": tag,
        "session_id": pick(&SESSIONS, d0), "reply_id": pick(&REPLIES, d1), "block_id": pick(&BLOCKS, d2),
        "tool_call_id": pick(&CALLS, d3), "tool_call_name": pick(&NAMES, d4), "name": pick(&NAMES, d4), "delta": said,
        "finished_reason": "completed", "model_name": pick(&NAMES, d5), "input_tokens": u64::MAX, "output_tokens": 1,
        "media_type": "text/plain", "data": "", "hint": "h", "value": pick(&[Value::Null, json!(1)], d7),
        "state": pick(&["success", "error", "interrupted", "denied", "running"], d6),
        "message_id": pick(&BLOCKS, d2), "content": [{ "type": "text", "text": "x" }],
        "origin": pick(&["user", "parent", "steering"], d7),
        "child_session_id": pick(&SESSIONS, d6), "parent_session_id": pick(&SESSIONS, d7),
        "spawn_mechanism": pick(&["sync", "async_worker", "manual"], d8),
        "source_name": pick(&NAMES, d4), "source_type": "agent", "description": pick(&NAMES, d5), "depth": d9 % 4,
        "outcome": pick(&["completed", "failed", "interrupted", "timed_out", "exceed_max_iters"], d8),
        "tool_calls": [call, call], "confirm_results": [{ "confirmed": d9 % 2 == 0, "tool_call": call }],
        "execution_results": [{ "id": pick(&CALLS, d3), "name": "t", "output": "o" }],
        "metadata": pick(&[json!({}), json!({ "prompt": "secret", "k": null }), json!({ "traceparent": "00-0" })], d10),
    });
    let fields = fields.as_object_mut().unwrap();
    // Only a spawn may leave it out.
    if let Some(run) = pick(&RUNS, d9).or((tag != "SPAWN_SESSION_START").then_some(1)) {
        fields.insert("run".to_owned(), run.into());
    }
    if !whole.is_null() {
        fields.insert("text".to_owned(), whole);
    }
    if tag == "SPAWN_SESSION_START" && d3 % 3 == 0 {
        fields.remove("tool_call_id");
    }
    let mut event = native::Reader::default()
        .read(&Value::Object(fields.clone()).to_string())
        .unwrap_or_else(|error| panic!("{error:?} {tag}"))
        .event;
    event.extra = None;
    event.scope = match pick(&[0, 1, 2], d0 / 3) {
        0 => {
            let session = pick(&SESSIONS, d0);
            let mut scope = ChildScope::new(session, pick(&SESSIONS, d1), "sa", pick(&NAMES, d4));
            scope.run = pick(&RUNS, d8).unwrap_or(1);
            Scope::from(scope)
        }
        _ => Scope::Root,
    };
    event
}

/// A stream, which is shown as its lines where it fails.
pub(super) struct Hostile(pub(super) Vec<Arc<Event>>);

impl fmt::Debug for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|event| {
            let mut line = Vec::new();
            native::write(None, event, &mut line).unwrap();
            writeln!(f, "\n{}", String::from_utf8_lossy(&line))
        })
    }
}

pub(super) fn hostile() -> impl Strategy<Value = Hostile> {
    proptest::collection::vec(dice(), 0..60).prop_map(|all| {
        Hostile(all.iter().enumerate().map(|(number, dice)| Arc::new(event(number, dice))).collect())
    })
}
