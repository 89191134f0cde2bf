//! Tools, models and agents that are measured.

use std::sync::Arc;

use anabranch_pipeline::{
    Acting, Caller, Tool, ToolCall, ToolContext, ToolDefinition, ToolInvocation, ToolStream, Toolkit,
};
use anabranch_proto::Stamp;
use anabranch_runtime::{
    Agent, AgentBuilder, Limits, Model, ModelItem, ModelRequest, ModelStream, ScriptedModel, SpawnSubagent,
    SystemStamp, Turn,
};
use futures::{StreamExt as _, stream};
use serde_json::json;

/// A tool made of a function that gives its stream.
pub struct StreamTool<F> {
    definition: ToolDefinition,
    call: F,
}

impl<F: Fn(ToolContext) -> ToolStream + Send + Sync> StreamTool<F> {
    /// A tool that takes no arguments.
    pub fn new(name: &str, call: F) -> Self {
        let parameters = json!({ "type": "object", "properties": {} });
        Self { definition: ToolDefinition::new(name, "Says a few words.", parameters.into()), call }
    }
}

impl<F: Fn(ToolContext) -> ToolStream + Send + Sync> Tool for StreamTool<F> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(&self, _: ToolInvocation, context: ToolContext) -> ToolStream {
        (self.call)(context)
    }
}

/// This machine's ids and times, as sessions have them.
#[must_use]
pub fn stamp() -> Arc<dyn Stamp> {
    Arc::new(SystemStamp::new())
}

/// A root agent that calls, without a session.
#[must_use]
pub fn caller(stamp: &Arc<dyn Stamp>) -> Arc<Caller> {
    Arc::new(Caller::new(stamp.session_ids().0, stamp.reply_id(), Arc::clone(stamp)))
}

/// So many calls of one tool.
#[must_use]
pub fn calls(tool: &str, count: usize) -> Vec<ToolCall> {
    (0..count).map(|number| ToolCall::new(format!("call_{number}"), tool, "{}")).collect()
}

/// What a toolkit with one tool is called by.
pub fn acting(tool: impl Tool + 'static) -> Acting {
    Acting::new(Toolkit::new().with(tool))
}

/// Limits that let so many children run at once.
#[must_use]
pub fn limits(children: usize) -> Limits {
    let defaults = Limits::default();
    defaults.max_running(children.max(defaults.max_running)).max_spawned(children.max(defaults.max_spawned))
}

/// An agent that calls one tool so often in one turn, and then says one word. Where it calls none it says that at once.
pub fn master(tool: &'static str, count: usize) -> AgentBuilder {
    let arguments = if tool == "spawn_subagent" { json!({ "task": "Say a few words." }) } else { json!({}) };
    if count == 0 {
        return Agent::builder("master", ScriptedModel::new("scripted").turn(|_| Turn::new().text("done")));
    }
    let model = ScriptedModel::new("scripted")
        .turn(move |_| (0..count).fold(Turn::new(), |turn, _| turn.call(tool, &arguments)))
        .turn(|_| Turn::new().text("done"));
    Agent::builder("master", model).limits(limits(count))
}

/// An agent that answers with one word.
#[must_use]
pub fn worker() -> Agent {
    Agent::builder("worker", ScriptedModel::new("scripted").turn(|_| Turn::new().text("done"))).build()
}

/// An agent that spawns so many workers in one turn.
#[must_use]
pub fn spawning(children: usize) -> Agent {
    master("spawn_subagent", children).tool(SpawnSubagent::new(worker())).build()
}

/// An agent whose model never answers.
#[must_use]
pub fn hung() -> Agent {
    Agent::builder("worker", ScriptedModel::new("scripted").turn(|_| Turn::new().hang())).build()
}

/// A model that says so many pieces, each made when it is asked for.
pub struct Talker {
    /// How many.
    pub pieces: usize,
}

impl Model for Talker {
    fn name(&self) -> &'static str {
        "talker"
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        let pieces = (0..self.pieces).map(|_| Ok(ModelItem::Text(crate::deltas::PIECE.to_owned())));
        stream::iter(pieces).boxed()
    }
}

/// A chain of agents, each of which spawns the next; the last, at this depth, says so many pieces.
#[must_use]
pub fn chain(depth: usize, pieces: usize) -> Agent {
    let talker = Agent::builder("talker", Talker { pieces }).build();
    (0..depth).fold(talker, |below, _| master("spawn_subagent", 1).tool(SpawnSubagent::new(below)).build())
}
