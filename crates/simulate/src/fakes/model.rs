//! The model of every agent.

use std::sync::Arc;

use anabranch_pipeline::ToolCall;
use anabranch_proto::{ErrorType, ToolCallId, Usage};
use anabranch_runtime::{Model, ModelError, ModelItem, ModelRequest, ModelStream};
use serde_json::json;

use super::{
    agent_name,
    script::{Script, Step, planned_panic},
};
use crate::{
    plan::{Behaviour, CallPlan, Child, Part, Refusal, TurnEnd, Work},
    seen::Request,
    world::World,
};

/// The model of every agent: it knows by the prompt whose it is, unless it is told, and answers as the plan says.
pub(crate) struct FakeModel {
    pub(crate) world: Arc<World>,
    /// Whose it is, where it is a team's member's.
    pub(crate) member: Option<u32>,
}

/// What a model says that fails.
pub(crate) const MODEL_ERROR: &str = "planned error";

/// What an agent says in the end that has no turn left.
pub(crate) const DONE: &str = "done";

type Answer = Step<Result<ModelItem, ModelError>>;

impl Model for FakeModel {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let Self { world, member } = self;
        let number =
            member.unwrap_or_else(|| request.prompt_text().trim_start_matches('a').parse().unwrap_or(0));
        let turn = request.turn;
        world.asked(Request { agent: number, turn, messages: request.messages });
        let Some(agent) = world.agent(number) else {
            world.fault(format!("the model of no agent was asked: {number}"));
            return Box::pin(Script::new(world, []));
        };
        let Some(turn) = usize::try_from(turn).ok().and_then(|turn| agent.turns.get(turn)) else {
            return Box::pin(Script::new(world, [text(DONE.to_owned())]));
        };
        let mut steps: Vec<Answer> = turn.parts.iter().flat_map(part).collect();
        match turn.end {
            TurnEnd::Done | TurnEnd::PanicInDrop => {}
            TurnEnd::Error => {
                steps.push(Step::Item(Err(ModelError::new(ErrorType::UPSTREAM, MODEL_ERROR))));
            }
            TurnEnd::Panic => steps.push(Step::Panic),
            TurnEnd::Silent => steps.push(Step::Hang),
            TurnEnd::Endless => steps.push(Step::Repeat(Ok(ModelItem::Text("x".repeat(100))))),
        }
        let script = Script::new(world, steps);
        if turn.end == TurnEnd::PanicInDrop {
            return Box::pin(script.in_drop(|_| planned_panic()));
        }
        Box::pin(script)
    }
}

fn item(item: ModelItem) -> Answer {
    Step::Item(Ok(item))
}

fn text(text: String) -> Answer {
    item(ModelItem::Text(text))
}

fn part(part: &Part) -> Vec<Answer> {
    match part {
        Part::Text(words) => (0..*words).map(|word| text(format!("word {word} "))).collect(),
        Part::Thinking(words) => {
            (0..*words).map(|word| item(ModelItem::Thinking(format!("thought {word} ")))).collect()
        }
        Part::Usage(tokens) => vec![item(ModelItem::Usage(Usage::new(*tokens, *tokens)))],
        Part::Pause(millis) => vec![Step::Sleep(*millis)],
        Part::Yield => vec![Step::Yield],
        Part::Call(plan) => call(plan),
    }
}

fn call(plan: &CallPlan) -> Vec<Answer> {
    let id = ToolCallId::from(if plan.repeated { "call_0".to_owned() } else { format!("c{}", plan.number) });
    let (name, arguments) = (tool(&plan.work), arguments(plan));
    if !plan.in_parts {
        return vec![item(ModelItem::ToolCall(ToolCall::new(id, name, arguments)))];
    }
    let mut steps = vec![item(ModelItem::ToolCallStart { id: id.clone(), name: name.into() })];
    let characters: Vec<char> = arguments.chars().collect();
    for piece in characters.chunks(9) {
        let delta = piece.iter().collect();
        steps.push(item(ModelItem::ToolCallDelta { id: id.clone(), delta }));
    }
    steps
}

fn tool(work: &Work) -> &'static str {
    match work {
        Work::Tool { behaviour: Behaviour::Typed | Behaviour::PanicInFuture, .. }
        | Work::Refused(Refusal::WrongType) => "typed",
        Work::Tool { exclusive: true, .. } => "alone",
        Work::Spawn(spawn) if spawn.by_tool => "spawn_subagent",
        Work::Tool { .. } | Work::Spawn(_) | Work::Refused(Refusal::Malformed | Refusal::NoObject) => "act",
        Work::Refused(Refusal::UnknownTool) => "nowhere",
        Work::External(_) => "outside",
    }
}

fn arguments(plan: &CallPlan) -> String {
    let number = plan.number;
    let value = match &plan.work {
        Work::Refused(Refusal::Malformed) => return format!("{{\"call\": {number}, \"and\": [1, "),
        Work::Refused(Refusal::NoObject) => json!([number]),
        Work::Refused(Refusal::WrongType) => json!({ "call": number, "count": "many" }),
        Work::Refused(Refusal::UnknownTool) | Work::Tool { .. } | Work::External(_) => {
            json!({ "call": number })
        }
        Work::Spawn(spawn) => match &spawn.child {
            Child::Agent(agent) if spawn.by_tool => {
                let mut value = json!({ "task": agent_name(agent.number), "metadata": { "call": number } });
                if let (Some(timeout), Some(object)) = (spawn.timeout, value.as_object_mut()) {
                    object.insert("timeout".to_owned(), json!(timeout / 1_000));
                }
                if let Some(object) = value.as_object_mut() {
                    object.insert("fork".to_owned(), json!(spawn.fork));
                    object.insert("background".to_owned(), json!(spawn.way.is_background()));
                }
                value
            }
            Child::Agent(_) | Child::Foreign(_) | Child::Team(_) => json!({ "call": number }),
        },
    };
    value.to_string()
}
