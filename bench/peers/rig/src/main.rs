//! rig-agent 0.44: an agent as another agent's tool, on one thread.

use anabranch_bench_asked::{PIECE, Question, cpu, serve};
use futures::{StreamExt as _, stream};
use rig_agent::{Agent, AgentBuilder, agent::MultiTurnStreamItem};
use rig_core::{
    completion::{CompletionRequest, Usage},
    driver::{Exchange, Model, Opened, Opening, Transport},
    message::{Message, UserContent},
    test_utils::{MockFrame, MockScript, MockStreamEvent, mock_final},
};
use serde_json::json;
use tokio::runtime::Runtime;

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    serve(|question| match question {
        Question::Spawn { children, times } => spawn(&runtime, children, times),
        Question::Pass { .. } => Err("a tool puts nothing on the agent's stream while it runs".to_owned()),
        Question::Stream { pieces } => pieces_read(&runtime, pieces),
    })
}

/// A model that calls a tool so often in its first turn, and otherwise says so many pieces.
#[derive(Clone)]
struct Scripted {
    calls: usize,
    pieces: usize,
}

impl Transport<MockScript> for Scripted {
    fn send(&self, request: CompletionRequest, _: Exchange) -> Opening<MockFrame> {
        let has_results = request.chat_history.iter().any(|message| {
            matches!(message, Message::User { content }
                if content.iter().any(|item| matches!(item, UserContent::ToolResult(_))))
        });
        let end = MockStreamEvent::FinalResponse(mock_final(Usage::new()));
        let frame = |event| Ok(MockFrame::Event(event));
        if self.calls > 0 && !has_results {
            let call = |number| {
                MockStreamEvent::tool_call(
                    format!("call_{number}"),
                    "worker",
                    json!({ "prompt": "Say a few words." }),
                )
            };
            let calls: Vec<_> = (0..self.calls).map(call).chain([end]).map(frame).collect();
            return Opening::ready(Opened::new(stream::iter(calls)));
        }
        let text = (0..self.pieces).map(|_| MockStreamEvent::text(PIECE));
        Opening::ready(Opened::new(stream::iter(text.chain([end]).map(frame))))
    }
}

fn model(calls: usize, pieces: usize) -> Model<MockScript, Scripted> {
    Model::new(MockScript::new("scripted"), Scripted { calls, pieces })
}

fn spawn(runtime: &Runtime, children: usize, times: usize) -> Result<f64, String> {
    let worker = AgentBuilder::new(model(0, 1)).name("worker").build();
    let worker = worker.into_tool().map_err(|error| error.to_string())?;
    let master = AgentBuilder::new(model(children, 1)).name("master").dynamic_tool(worker).build();
    let before = cpu();
    for _ in 0..times {
        let results = runtime.block_on(count(&master, children, |item| {
            matches!(item, MultiTurnStreamItem::ToolResult { .. })
        }))?;
        if results != children {
            return Err(format!("{results} of {children} children had a result"));
        }
    }
    Ok(cpu() - before)
}

fn pieces_read(runtime: &Runtime, pieces: usize) -> Result<f64, String> {
    let agent = AgentBuilder::new(model(0, pieces)).name("talker").build();
    let before = cpu();
    let read = runtime
        .block_on(count(&agent, 1, |item| matches!(item, MultiTurnStreamItem::StreamAssistantItem(_))))?;
    if read < pieces {
        return Err(format!("{read} of {pieces} pieces were read"));
    }
    Ok(cpu() - before)
}

/// Reads a reply to its end; how many items were such.
async fn count(
    agent: &Agent,
    concurrency: usize,
    is_one: impl Fn(&MultiTurnStreamItem) -> bool,
) -> Result<usize, String> {
    let mut items = agent.prompt("go").max_turns(2).tool_concurrency(concurrency).stream();
    let mut count = 0;
    while let Some(item) = items.next().await {
        count += usize::from(is_one(&item.map_err(|error| error.to_string())?));
    }
    Ok(count)
}
