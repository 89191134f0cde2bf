//! Tool to bytes.

use std::sync::{Arc, Mutex};

use anabranch_adapters::{
    Adapter as _, Encode,
    acp::Acp,
    ag_ui::{AgUi, RunIds},
    agentscope::AgentScope,
    encode::{JsonLines, NativeLines, Plain, Sse},
    text::Text,
};
use anabranch_pipeline::{Caller, ExecuteToolCalls, Executed, ToolStream};
use anabranch_proto::{
    Event, EventKind, Metadata, Scope, Stamp, TextBlock, ToolCallId,
    event::{MessageOrigin, ReplyStart, ToolCallEnd, ToolCallStart, UserMessage},
    flat::Flat,
    native::Native,
};
use anabranch_session::{EventProcessor, Limits};
use futures::StreamExt as _;
use serde::Serialize;

use crate::{
    deltas::{Prebuilt, Speaker, Yields},
    measure::{Scale, in_turn, per_item, runtime},
    report::{Budget, Row, Unit},
    tools::{StreamTool, acting, caller, calls, stamp},
};

/// When a reused buffer is emptied: what a session's bytes are gathered to.
const CHUNK: usize = 16 * 1024;

/// Each encoder, over the same events of one child.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let sample = Sample::new(1_000);
    let piece = sample.piece();
    let mut ag_ui = AgUi::new(sample.caller.session_id.clone(), RunIds::new("thread", "run"));
    let frame = TextMessageContent::of(&sample, &mut ag_ui);
    let mut acp = Acp::sessions("editor");
    let message = sample.frame(&mut acp);
    let session = sample.caller.session_id.clone();
    vec![
        row(scale, "Sse<AgentScope>", 2.0, &mut || Box::new(Sse::new(AgentScope)), &mut |buffer| {
            write(buffer, &Flat::new(&piece));
        }),
        row(
            scale,
            "Sse<AgUi>",
            2.0,
            &mut || Box::new(Sse::new(AgUi::new(session.clone(), RunIds::new("thread", "run")))),
            &mut |buffer| write(buffer, &frame),
        ),
        row(scale, "NativeLines", 2.0, &mut || Box::new(NativeLines), &mut |buffer| {
            write(buffer, &Native::new(Some(7), &piece));
        }),
        row(
            scale,
            "JsonLines<Acp>",
            3.0,
            &mut || Box::new(JsonLines::new(Acp::sessions("editor"))),
            &mut |buffer| write(buffer, &message),
        ),
        row(scale, "Plain<Text>", f64::INFINITY, &mut || Box::new(Plain::new(Text::new())), &mut |buffer| {
            write(buffer, &Flat::new(&piece));
        }),
    ]
}

fn row(
    scale: Scale,
    name: &str,
    budget: f64,
    encoder: &mut dyn FnMut() -> Box<dyn Encode>,
    floor: &mut dyn FnMut(&mut Vec<u8>),
) -> Row {
    let pieces = scale.events;
    let mut ours = || through(pieces, encoder());
    let mut floor = || {
        let mut buffer = Vec::with_capacity(2 * CHUNK);
        per_item(pieces, || {
            for _ in 0..pieces {
                floor(&mut buffer);
                if buffer.len() >= CHUNK {
                    std::hint::black_box(&buffer);
                    buffer.clear();
                }
            }
        })
    };
    let series = in_turn(scale.rounds, &mut [&mut ours, &mut floor]);
    let (what, budget, against) = if budget.is_finite() {
        (format!("tool to processor to bytes, {name}"), Budget::AtMost(budget), "serde_json of its frame")
    } else {
        (format!("tool to processor to bytes, {name}"), Budget::Shown, "serde_json of the flat line")
    };
    Row::new("encode", what, series.ratio(0, 1), Unit::Times, budget)
        .source("Arc<Event> of a child's text delta, made before; the buffer is reused in both")
        .beside("ours", series.median(0), Unit::Nanos)
        .beside(against, series.median(1), Unit::Nanos)
}

fn write(buffer: &mut Vec<u8>, frame: &impl Serialize) {
    serde_json::to_writer(buffer, frame).expect("a frame has a spelling");
}

/// One call's events through pipeline, processor and encoder.
fn through(pieces: usize, mut encoder: Box<dyn Encode>) -> f64 {
    let sample = Sample::new(pieces);
    let Sample { stamp, caller, prelude, events, .. } = sample;
    let events = Mutex::new(Some(events));
    let talk = StreamTool::new("talk", move |_| -> ToolStream {
        let events: Prebuilt = events.lock().expect("nothing panics").take().expect("it is called once");
        Box::pin(Yields(events))
    });
    let mut processor = EventProcessor::new(caller.session_id.clone(), Limits::default());
    let mut admitted = Vec::new();
    let mut buffer = Vec::with_capacity(2 * CHUNK);
    let mut pieces_out = 0_usize;
    let mut take = |event: Arc<Event>| {
        processor.process(event, &*stamp, &mut admitted);
        for admitted in admitted.drain(..) {
            pieces_out += usize::from(matches!(admitted.event.kind, EventKind::TextBlockDelta(_)));
            encoder.event(Some(admitted.seq), &admitted.event, &mut buffer).expect("an event has frames");
        }
        if buffer.len() >= CHUNK {
            std::hint::black_box(&buffer);
            buffer.clear();
        }
    };
    prelude.into_iter().for_each(&mut take);
    let mut merged = ExecuteToolCalls::new(calls("talk", 1), caller, &acting(talk));
    let cost = per_item(pieces, || {
        runtime().block_on(async {
            while let Some(item) = merged.next().await {
                if let Executed::Event(event) = item {
                    take(event);
                }
            }
        });
    });
    assert_eq!(pieces_out, pieces, "every event is encoded");
    cost
}

/// A root that has called a tool, and the tool's child.
pub struct Sample {
    /// Brings ids and times.
    pub stamp: Arc<dyn Stamp>,
    /// The root.
    pub caller: Arc<Caller>,
    /// What the root said before.
    pub prelude: Vec<Arc<Event>>,
    /// The child's events.
    pub events: Prebuilt,
    speaker: Speaker,
}

impl Sample {
    /// With so many pieces of text.
    #[must_use]
    pub fn new(pieces: usize) -> Self {
        let stamp = stamp();
        let caller = caller(&stamp);
        let call = ToolCallId::new("call_0");
        let prompt = vec![TextBlock::new("go").into()];
        let event =
            |kind: EventKind| Arc::new(Event::stamped(&*stamp, Scope::Root, Metadata::default(), kind));
        let prelude = vec![
            event(UserMessage::new(stamp.message_id(), prompt, MessageOrigin::User).into()),
            event(ReplyStart::new(&caller.session_id, &caller.reply_id, "master").into()),
            event(ToolCallStart::new(&caller.reply_id, &call, "talk").into()),
            event(ToolCallEnd::new(&caller.reply_id, &call).into()),
        ];
        let speaker = Speaker::new(&stamp, &Scope::Root, &caller.session_id, &call);
        let events = speaker.prebuilt(pieces);
        Self { stamp, caller, prelude, events, speaker }
    }

    /// One piece of the child's text.
    #[must_use]
    pub fn piece(&self) -> Arc<Event> {
        self.speaker.piece()
    }

    /// One piece as a line of the native spelling.
    #[must_use]
    pub fn piece_line(&self) -> String {
        anabranch_proto::native::to_string(&self.piece()).expect("an event has a spelling")
    }

    /// All events before the child's first piece, in their order.
    #[must_use]
    pub fn opening(&self) -> Vec<Arc<Event>> {
        self.prelude.iter().cloned().chain(self.speaker.open()).collect()
    }

    /// The frame of a piece, where it is one that lives without the event.
    fn frame(&self, acp: &mut Acp) -> <Acp as anabranch_adapters::Adapter>::Frame<'static> {
        for event in self.opening() {
            acp.event(&event, &mut |_| {});
        }
        let mut frames = Vec::new();
        acp.event(&self.piece(), &mut |frame| frames.push(frame));
        assert_eq!(frames.len(), 1, "a piece is one frame");
        frames.remove(0)
    }
}

/// AG-UI's frame of a piece, by hand: the adapter's own borrow from the adapter too, and cannot be kept.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TextMessageContent {
    r#type: &'static str,
    message_id: String,
    delta: String,
    subagent_run_id: String,
    timestamp: i64,
}

impl TextMessageContent {
    /// The frame of a piece; it is written as the adapter writes its own, or the bench ends here.
    fn of(sample: &Sample, adapter: &mut AgUi) -> Self {
        let mut lines = JsonLines::new(adapter.clone());
        let mut out = Vec::new();
        for event in sample.opening() {
            lines.event(None, &event, &mut out).expect("an event has frames");
        }
        out.clear();
        lines.event(None, &sample.piece(), &mut out).expect("an event has frames");
        let line = String::from_utf8(out).expect("JSON is text");
        let fields: serde_json::Value = serde_json::from_str(&line).expect("a frame is JSON");
        let text = |name: &str| fields[name].as_str().expect("it is text").to_owned();
        let frame = Self {
            r#type: "TEXT_MESSAGE_CONTENT",
            message_id: text("messageId"),
            delta: text("delta"),
            subagent_run_id: text("subagentRunId"),
            timestamp: fields["timestamp"].as_i64().expect("it is a number"),
        };
        assert_eq!(
            serde_json::to_string(&frame).expect("it has a spelling"),
            line.trim_end(),
            "the same frame"
        );
        frame
    }
}
