//! What a piece of text allocates on its way: one event. A program of its own, since its allocator counts.

use std::sync::Arc;

use anabranch_adapters::{
    Encode,
    ag_ui::{AgUi, RunIds},
    agentscope::AgentScope,
    encode::{JsonLines, NativeLines, Plain, Sse},
    text::Text,
    tool_calls::ToolCalls,
};
use anabranch_pipeline::{ToolCall, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield};
use anabranch_proto::{EventKind, ToolChunk};
use anabranch_runtime::{Agent, Model, ModelItem, ModelRequest, ModelStream, Read, ScriptedModel, Turn};
use futures::{StreamExt, stream};

const PIECES: usize = 20_000;

/// What else may be allocated while all pieces pass: buffers that double, batches of readers and of the log.
const SPREAD: f64 = 0.15;

/// Texts that were made before, so that they are no part of what is counted.
struct Talker;

impl Model for Talker {
    fn name(&self) -> &'static str {
        "talker"
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        let pieces: Vec<_> = (0..PIECES).map(|_| Ok(ModelItem::Text("a few words ".to_owned()))).collect();
        stream::iter(pieces).boxed()
    }
}

/// A tool that gives its result in pieces, all made before.
struct Reader(ToolDefinition);

impl anabranch_pipeline::Tool for Reader {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, _: ToolInvocation, _: ToolContext) -> ToolStream {
        let pieces: Vec<_> = (0..PIECES).map(|_| ToolYield::Chunk(ToolChunk::text("a few words "))).collect();
        Box::pin(stream::iter(pieces))
    }
}

fn encoders() -> Vec<(&'static str, Box<dyn Encode>)> {
    vec![
        ("native", Box::new(NativeLines)),
        ("agentscope", Box::new(Sse::new(AgentScope))),
        ("AG-UI", Box::new(JsonLines::new(AgUi::new("session", RunIds::new("thread", "run"))))),
        ("tool calls", Box::new(JsonLines::new(ToolCalls::new()))),
        ("text", Box::new(Plain::new(Text::new()))),
    ]
}

/// What a session with this agent allocates for each piece of `is_piece`, from the first to the last, its frame in a
/// buffer that is reused included.
fn allocations(agent: &Agent, mut encoder: Box<dyn Encode>, is_piece: fn(&EventKind) -> bool) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut reply = runtime.block_on(async { agent.reply_stream("go") });
    let mut frames = Vec::with_capacity(64 * 1024);
    let mut next = || {
        let Some(Read::Event(admitted)) = runtime.block_on(reply.next()) else { panic!("the reply ended") };
        frames.clear();
        encoder.event(Some(admitted.seq), &admitted.event, &mut frames).unwrap();
        is_piece(&admitted.event.kind)
    };
    while !next() {}
    let info = allocation_counter::measure(|| {
        for _ in 1..PIECES {
            assert!(next());
        }
    });
    f64::from(u32::try_from(info.count_total).unwrap()) / f64::from(u32::try_from(PIECES).unwrap())
}

#[test]
fn a_piece_of_a_models_text_allocates_its_event_and_nothing_else() {
    let agent = Agent::builder("talker", Talker).build();
    for (name, encoder) in encoders() {
        let each = allocations(&agent, encoder, |kind| matches!(kind, EventKind::TextBlockDelta(_)));
        assert!(each <= 1.0 + SPREAD, "{name}: {each}");
    }
}

#[test]
fn a_piece_of_a_tools_text_allocates_its_event_and_nothing_else() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().item(ModelItem::ToolCall(ToolCall::new("call", "read", "{}"))))
        .turn(|_| Turn::new().text("done"));
    for (name, encoder) in encoders() {
        let definition =
            ToolDefinition::new(Arc::from("read"), "", serde_json::json!({ "type": "object" }).into());
        let agent = Agent::builder("reader", model.clone()).tool(Reader(definition)).build();
        let each = allocations(&agent, encoder, |kind| matches!(kind, EventKind::ToolResultTextDelta(_)));
        assert!(each <= 1.0 + SPREAD, "{name}: {each}");
    }
}
