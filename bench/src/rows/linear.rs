//! Text of many deltas, through the accumulator and through each adapter.

use anabranch_adapters::{
    Encode,
    acp::Acp,
    ag_ui::{AgUi, RunIds},
    agentscope::AgentScope,
    encode::{JsonLines, NativeLines, Plain, Sse},
    text::Text,
    tool_calls::ToolCalls,
};
use anabranch_proto::{
    Event, Metadata, Scope, Timestamp,
    event::{ReplyStart, TextBlockDelta, TextBlockStart},
};
use anabranch_session::MessageAccumulator;

use super::encode::Sample;
use crate::{
    deltas::PIECE,
    measure::{Scale, in_turn, per_item},
    report::{Budget, Row, Unit},
};

/// How much more a delta may cost among many: caches are finite and buffers grow.
const MOST: f64 = 1.5;

/// A delta's cost at the most against that at a few.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let most = if scale.events >= Scale::FULL.events { 1_000_000 } else { 100_000 };
    CASES
        .iter()
        .map(|(name, cost)| {
            let mut few = || (0..10).map(|_| cost(1_000)).sum::<f64>() / 10.0;
            let mut many = || cost(most);
            let series = in_turn(scale.rounds.min(5), &mut [&mut many, &mut few]);
            Row::new(
                "linear",
                format!("a delta among {most} against one among 1,000, {name}"),
                series.ratio(0, 1),
                Unit::Times,
                Budget::AtMost(MOST),
            )
            .source("12 bytes each, of one block")
            .beside("among 1,000", series.median(1), Unit::Nanos)
            .beside("among the most", series.median(0), Unit::Nanos)
        })
        .collect()
}

/// What a delta costs among so many, in nanoseconds.
pub type Cost = fn(usize) -> f64;

/// What can be measured at a number of deltas, and how: nanoseconds for each.
pub const CASES: &[(&str, Cost)] = &[
    ("accumulator", accumulated),
    ("NativeLines", |count| encoded(count, &mut NativeLines)),
    ("Sse<AgentScope>", |count| encoded(count, &mut Sse::new(AgentScope))),
    ("Sse<AgUi>", |count| encoded(count, &mut Sse::new(AgUi::new("session", RunIds::new("thread", "run"))))),
    ("JsonLines<ToolCalls>", |count| encoded(count, &mut JsonLines::new(ToolCalls::new()))),
    ("JsonLines<Acp>", |count| encoded(count, &mut JsonLines::new(Acp::sessions("editor")))),
    ("Plain<Text>", |count| encoded(count, &mut Plain::new(Text::new()))),
];

fn accumulated(count: usize) -> f64 {
    let event = |kind: anabranch_proto::EventKind| {
        Event::new("id", Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), kind)
    };
    let delta = event(TextBlockDelta::new("r", "b", PIECE).into());
    let mut messages = MessageAccumulator::new();
    messages.apply(&event(ReplyStart::new("s", "r", "agent").into()));
    messages.apply(&event(TextBlockStart::new("r", "b").into()));
    let cost = per_item(count, || (0..count).for_each(|_| messages.apply(&delta)));
    let text: usize = messages.messages().iter().map(|message| message.text().len()).sum();
    assert_eq!(text, count * PIECE.len(), "all text is there");
    cost
}

fn encoded(count: usize, encoder: &mut dyn Encode) -> f64 {
    let sample = Sample::new(0);
    let mut out = Vec::with_capacity(64 * 1024);
    let mut seq = 0;
    for event in sample.opening() {
        seq += 1;
        encoder.event(Some(seq), &event, &mut out).expect("an event has frames");
    }
    let piece = sample.piece();
    per_item(count, || {
        for _ in 0..count {
            seq += 1;
            encoder.event(Some(seq), &piece, &mut out).expect("an event has frames");
            if out.len() > 32 * 1024 {
                std::hint::black_box(&out);
                out.clear();
            }
        }
    })
}
