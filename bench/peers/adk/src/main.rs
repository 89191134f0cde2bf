//! adk-rust 2.3: an agent as another agent's tool, under its runner, on one thread.

use std::{collections::HashMap, sync::Arc};

use adk_rust::{
    Content, Event, Llm, LlmRequest, LlmResponse, LlmResponseStream, Part, Result as AdkResult, Tool,
    ToolContext, ToolExecutionStrategy,
    agent::{LlmAgent, LlmAgentBuilder},
    runner::Runner,
    session::{CreateRequest, InMemorySessionService, SessionService},
    tool::AgentTool,
};
use anabranch_bench_asked::{PIECE, Question, cpu, serve};
use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    serve(|question| {
        let done = match question {
            Question::Spawn { children, times } => spawn(&runtime, children, times),
            Question::Pass { tools, each } => pass(&runtime, tools, each),
            Question::Stream { pieces } => pieces_read(&runtime, pieces),
        };
        done.map_err(|error| error.to_string())
    })
}

type Done = Result<f64, Box<dyn std::error::Error>>;

/// A model that calls a tool so often in its first turn, and otherwise says so many pieces.
struct Scripted {
    tool: &'static str,
    calls: usize,
    pieces: usize,
}

#[async_trait]
impl Llm for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn generate_content(&self, request: LlmRequest, _: bool) -> AdkResult<LlmResponseStream> {
        let results = request.contents.iter().flat_map(|content| &content.parts);
        let has_results = results.into_iter().any(|part| matches!(part, Part::FunctionResponse { .. }));
        if self.calls > 0 && !has_results {
            let mut content = Content::new("model");
            content.parts = (0..self.calls)
                .map(|number| Part::FunctionCall {
                    name: self.tool.to_owned(),
                    args: json!({ "request": "Say a few words." }),
                    id: Some(format!("call_{number}")),
                    thought_signature: None,
                })
                .collect();
            return Ok(stream::iter([Ok(LlmResponse::new(content))]).boxed());
        }
        let last = self.pieces - 1;
        let pieces = (0..self.pieces).map(move |number| {
            let mut response = LlmResponse::new(Content::new("model").with_text(PIECE));
            response.partial = number < last;
            response.turn_complete = number == last;
            Ok(response)
        });
        Ok(stream::iter(pieces).boxed())
    }
}

fn agent(name: &str, model: Scripted, tool: Option<Arc<dyn Tool>>) -> AdkResult<LlmAgent> {
    let builder = LlmAgentBuilder::new(name).description("Says a few words.").model(Arc::new(model));
    let builder = builder.tool_execution_strategy(ToolExecutionStrategy::Parallel);
    tool.into_iter().fold(builder, LlmAgentBuilder::tool).build()
}

fn spawn(runtime: &Runtime, children: usize, times: usize) -> Done {
    let worker = agent("worker", Scripted { tool: "", calls: 0, pieces: 1 }, None)?;
    let worker = AgentTool::new(Arc::new(worker));
    let master =
        agent("master", Scripted { tool: "worker", calls: children, pieces: 1 }, Some(Arc::new(worker)))?;
    let master = Arc::new(master);
    let before = cpu();
    for _ in 0..times {
        let is_result = |part: &&Part| matches!(part, Part::FunctionResponse { .. });
        let results = runtime.block_on(count(&master, |event| parts(event).filter(is_result).count()))?;
        if results != children {
            return Err(format!("{results} of {children} children had a result").into());
        }
    }
    Ok(cpu() - before)
}

/// Puts so many events on the agent's stream.
struct Talk {
    each: usize,
}

#[async_trait]
impl Tool for Talk {
    fn name(&self) -> &str {
        "talk"
    }

    fn description(&self) -> &str {
        "Says a few words."
    }

    async fn execute(&self, context: Arc<dyn ToolContext>, _: Value) -> AdkResult<Value> {
        for _ in 0..self.each {
            let mut event = Event::new(context.invocation_id());
            event.author = "talk".to_owned();
            event.llm_response = LlmResponse::new(Content::new("model").with_text(PIECE));
            event.llm_response.partial = true;
            context.emit_event(event).await;
        }
        Ok(json!({ "result": "done" }))
    }
}

fn pass(runtime: &Runtime, tools: usize, each: usize) -> Done {
    let master =
        agent("master", Scripted { tool: "talk", calls: tools, pieces: 1 }, Some(Arc::new(Talk { each })))?;
    let master = Arc::new(master);
    let before = cpu();
    let passed = runtime.block_on(count(&master, |event| usize::from(event.author == "talk")))?;
    if passed != tools * each {
        return Err(format!("{passed} of {} items arrived", tools * each).into());
    }
    Ok(cpu() - before)
}

fn pieces_read(runtime: &Runtime, pieces: usize) -> Done {
    let agent = Arc::new(agent("talker", Scripted { tool: "", calls: 0, pieces }, None)?);
    let before = cpu();
    let read = runtime.block_on(count(&agent, |event| usize::from(parts(event).next().is_some())))?;
    if read < pieces {
        return Err(format!("{read} of {pieces} pieces were read").into());
    }
    Ok(cpu() - before)
}

fn parts(event: &Event) -> impl Iterator<Item = &Part> {
    event.llm_response.content.iter().flat_map(|content| &content.parts)
}

/// Reads a reply to its end, in a session of its own; the sum of what its events count.
async fn count(agent: &Arc<LlmAgent>, each: impl Fn(&Event) -> usize) -> AdkResult<usize> {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let session = CreateRequest {
        app_name: "bench".to_owned(),
        user_id: "user".to_owned(),
        session_id: Some("session".to_owned()),
        state: HashMap::new(),
    };
    sessions.create(session).await?;
    let runner = Runner::builder().app_name("bench").agent(Arc::clone(agent) as Arc<dyn adk_rust::Agent>);
    let runner = runner.session_service(sessions).build()?;
    let mut events = runner.run_str("user", "session", Content::new("user").with_text("go")).await?;
    let mut sum = 0;
    while let Some(event) = events.next().await {
        sum += each(&event?);
    }
    Ok(sum)
}
