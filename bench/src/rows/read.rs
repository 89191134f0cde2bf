//! Reading the native spelling.

use std::collections::HashMap;

use anabranch_proto::native::{self, Reader};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::encode::Sample;
use crate::{
    measure::{Scale, in_turn, per_item},
    report::{Budget, Row, Unit},
};

/// A flat event as a hasty reader has it: strings and a map.
#[derive(Deserialize)]
#[expect(dead_code, reason = "it is read and freed, which is what costs")]
struct Plain {
    id: String,
    created_at: String,
    metadata: HashMap<String, Value>,
    r#type: String,
    reply_id: String,
    block_id: String,
    delta: String,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The same without the map that keeps what it does not know.
#[derive(Deserialize)]
#[expect(dead_code, reason = "it is read and freed, which is what costs")]
struct Strict {
    id: String,
    created_at: String,
    metadata: HashMap<String, Value>,
    r#type: String,
    reply_id: String,
    block_id: String,
    delta: String,
}

/// A child's line around either.
#[derive(Deserialize)]
#[expect(dead_code, reason = "it is read and freed, which is what costs")]
struct SubAgent<E> {
    seq: Option<u64>,
    r#type: String,
    child_session_id: String,
    run: u32,
    parent_session_id: String,
    subagent_id: String,
    tool_call_id: Option<String>,
    source_name: String,
    source_type: String,
    depth: u32,
    event: E,
}

/// A child's lines, and the root's.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let sample = Sample::new(scale.events.min(50_000));
    let childs: Vec<_> = (0..scale.events.min(50_000)).map(|_| line(&sample.piece())).collect();
    let roots: Vec<_> = (0..scale.events.min(50_000))
        .map(|_| {
            let mut event = (*sample.piece()).clone();
            event.scope = anabranch_proto::Scope::Root;
            line(&event)
        })
        .collect();
    vec![
        row::<SubAgent<Plain>, SubAgent<Strict>>(scale, "a child's lines", &childs, &sample),
        row::<Plain, Strict>(scale, "a root's lines", &roots, &sample),
    ]
}

fn line(event: &anabranch_proto::Event) -> String {
    native::to_string(event).expect("an event has a spelling")
}

fn row<'a, F: Deserialize<'a>, S: Deserialize<'a>>(
    scale: Scale,
    what: &str,
    lines: &'a [String],
    sample: &Sample,
) -> Row {
    let mut ours = || {
        let mut reader = Reader::new(std::sync::Arc::clone(&sample.stamp));
        per_item(lines.len(), || {
            for line in lines {
                std::hint::black_box(reader.read(line).expect("it was written by us"));
            }
        })
    };
    let mut floor = || read_all::<F>(lines);
    let mut strict = || read_all::<S>(lines);
    let series = in_turn(scale.rounds, &mut [&mut ours, &mut floor, &mut strict]);
    Row::new(
        "read",
        format!("reading native JSON, {what}"),
        series.ratio(0, 1),
        Unit::Times,
        Budget::AtMost(1.3),
    )
    .source(format!("lines of a text delta, {} bytes, unknown fields kept", lines[0].len()))
    .beside("ours", series.median(0), Unit::Nanos)
    .beside("strings and a map", series.median(1), Unit::Nanos)
    .beside("strings, unknown fields lost", series.median(2), Unit::Nanos)
}

fn read_all<'a, T: Deserialize<'a>>(lines: &'a [String]) -> f64 {
    per_item(lines.len(), || {
        for line in lines {
            std::hint::black_box(serde_json::from_str::<T>(line).expect("it has these fields"));
        }
    })
}
