//! The tools `act` and `alone`: what they do is the plan's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield};
use anabranch_proto::{
    DataBlock, DataSource, Event, EventKind, Json, Metadata, Outcome, Scope, ToolChunk, ToolResultState,
    event::{Custom, StreamComplete, TextBlockDelta},
};
use anabranch_runtime::{Fork, OnCancel, Spawn, SpawnError, Team};
use futures::StreamExt as _;

use super::{
    FORGED, agent_name, foreign,
    script::{Script, Step, planned_panic},
};
use crate::{
    plan::{Behaviour, CallPlan, CancelHow, Child, REPORTS, SpawnPlan, Way, Work},
    world::World,
};

/// How many bytes of output a call may give.
pub(crate) const OUTPUT: usize = 16_384;

/// A tool that does what the plan says of its call.
pub(crate) struct FakeTool {
    definition: ToolDefinition,
    is_exclusive: bool,
    world: Arc<World>,
}

impl FakeTool {
    /// The tool `act`, which runs beside others.
    pub(crate) fn act(world: &Arc<World>) -> Self {
        Self::new("act", false, world)
    }

    /// The tool `alone`, which does not.
    pub(crate) fn alone(world: &Arc<World>) -> Self {
        Self::new("alone", true, world)
    }

    fn new(name: &'static str, is_exclusive: bool, world: &Arc<World>) -> Self {
        let schema = Json::from(serde_json::json!({ "type": "object" }));
        let definition = ToolDefinition::new(name, "Does what the plan says.", schema);
        Self { definition, is_exclusive, world: Arc::clone(world) }
    }

    fn spawn(&self, plan: &SpawnPlan, context: &ToolContext) -> Result<ToolStream, SpawnError> {
        let timed = |spawn: Spawn| match plan.timeout {
            Some(millis) => spawn.timeout(Duration::from_millis(millis)),
            None => Ok(spawn),
        };
        match &plan.child {
            Child::Agent(agent) => {
                let name = agent_name(agent.number);
                let spawn = timed(Spawn::new(context, name.clone(), name)?)?;
                let spawn = if plan.fork { spawn.fork(Fork::Full) } else { spawn };
                let template = self.world.template().ok_or(SpawnError::NoSession)?;
                Ok(match plan.way {
                    Way::InTask => spawn.run(&template),
                    Way::OwnTask => spawn.on_own_task().run(&template),
                    Way::Background => spawn.background(&template, OnCancel::Stop),
                    Way::Kept => spawn.background(&template, OnCancel::Keep),
                })
            }
            Child::Team(team) => {
                let name = super::team_name(team.number);
                let spawn = timed(Spawn::new(context, name.clone(), name.clone())?)?;
                let begin = if team.parallel { Team::parallel(name) } else { Team::sequential(name) };
                let members = team.members.iter().filter_map(|member| self.world.member(member.number));
                let team = members.fold(begin, Team::member);
                Ok(if plan.way == Way::OwnTask { spawn.on_own_task() } else { spawn }.team(&team))
            }
            Child::Foreign(plan) => {
                let spawn = timed(Spawn::new(context, super::foreign_name(plan.number), "Do it.")?)?;
                Ok(spawn.stream(foreign::stream(&self.world, plan)))
            }
        }
    }
}

impl Tool for FakeTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        let value: serde_json::Value = invocation.arguments.to().unwrap_or_default();
        let number = value["call"].as_u64().and_then(|number| u32::try_from(number).ok());
        let Some(plan) = number.and_then(|number| self.world.call(number)) else {
            self.world.fault(format!("a tool got arguments that nobody gave: {value}"));
            return Box::pin(Script::new(&self.world, []));
        };
        self.world.ran(plan.number);
        match &plan.work {
            Work::Spawn(spawn) => self.spawn(spawn, &context).unwrap_or_else(|error| {
                futures::stream::iter([ToolYield::Chunk(ToolChunk::error(error.to_string()))]).boxed()
            }),
            Work::Tool { behaviour, .. } => act(&self.world, plan, *behaviour, &context),
            Work::Refused(_) | Work::External(_) => {
                self.world.fault(format!("call {} reached a tool", plan.number));
                Box::pin(Script::new(&self.world, []))
            }
        }
    }
}

fn act(world: &Arc<World>, plan: &CallPlan, behaviour: Behaviour, context: &ToolContext) -> ToolStream {
    if behaviour == Behaviour::PanicAtCall {
        planned_panic();
    }
    let script = Script::new(world, steps(world, plan.number, behaviour, context));
    if behaviour == Behaviour::PanicInDrop {
        return Box::pin(script.in_drop(|_| planned_panic()));
    }
    // Whoever stops a run refuses spawns until it is stopped. What runs on a task of its own may be dropped at its deadline.
    let context = context.clone();
    Box::pin(script.in_drop(move |world| {
        if world.stops_in_drops() && !world.is_in_call() && Spawn::new(&context, "late", "late").is_ok() {
            world.fault("a child could be spawned while the run was being stopped".to_owned());
        }
    }))
}

fn text(text: impl Into<String>) -> Step<ToolYield> {
    Step::Item(ToolYield::Chunk(ToolChunk::text(text)))
}

fn state(number: u32, state: ToolResultState) -> Step<ToolYield> {
    Step::Item(ToolYield::Chunk(ToolChunk::text(format!("<{number}>")).state(state).last()))
}

fn data(number: u32, piece: &str) -> Step<ToolYield> {
    let source = DataSource::Base64 { data: piece.to_owned(), media_type: "text/plain".into() };
    let block = DataBlock::new(source).id(format!("data-{number}"));
    Step::Item(ToolYield::Chunk(ToolChunk::new(vec![block.into()])))
}

/// What a tool does, step by step.
fn steps(
    world: &Arc<World>,
    number: u32,
    behaviour: Behaviour,
    context: &ToolContext,
) -> Vec<Step<ToolYield>> {
    let result = || text(format!("<{number}>"));
    match behaviour {
        Behaviour::Ok | Behaviour::PanicInDrop | Behaviour::Typed | Behaviour::PanicInFuture => {
            vec![result()]
        }
        Behaviour::Error => {
            vec![text("at first "), Step::Item(ToolYield::Chunk(ToolChunk::error(format!("<{number}>"))))]
        }
        Behaviour::Denied => vec![state(number, ToolResultState::Denied)],
        Behaviour::Stopped => vec![state(number, ToolResultState::Interrupted)],
        Behaviour::Nothing | Behaviour::PanicAtCall => vec![],
        Behaviour::PanicAtPoll => vec![text("at first "), Step::Yield, Step::Panic],
        Behaviour::Hang => vec![text("at first "), Step::Hang],
        Behaviour::Slow => vec![Step::Sleep(u64::from(number) % 40 + 1), result()],
        Behaviour::Chatter => {
            let words = (0..40).map(|word| text(format!("{word} ")));
            words.chain([result()]).collect()
        }
        Behaviour::Mixed => vec![
            text("at first "),
            Step::Yield,
            data(number, "YWJj"),
            Step::Sleep(2),
            text("then "),
            data(number, "ZGVm"),
            Step::Yield,
            result(),
        ],
        Behaviour::AfterLast => {
            vec![state(number, ToolResultState::Success), text("too late"), Step::Yield, text("too late")]
        }
        Behaviour::PanicAfterLast => vec![state(number, ToolResultState::Success), Step::Panic],
        Behaviour::Emits => {
            vec![Step::Wait(Box::pin(emit(Arc::clone(world), context.clone(), number))), result()]
        }
        Behaviour::Leaves => {
            let (emitting, pause) = (emit(Arc::clone(world), context.clone(), number), u64::from(number) % 3);
            let leave = Step::Do(Box::new(move || {
                tokio::spawn(emitting);
            }));
            if pause == 0 {
                vec![leave, Step::Yield, result()]
            } else {
                vec![leave, Step::Sleep(pause), result()]
            }
        }
        Behaviour::Yields => {
            let yields = (0..REPORTS).flat_map(|report| {
                let world = Arc::clone(world);
                let event = ToolYield::Event(Arc::new(self::report(context, number, report)));
                [Step::Do(Box::new(move || world.reported(number))), Step::Item(event)]
            });
            yields.chain([result()]).collect()
        }
        Behaviour::Forges => {
            let forged = forged(world, context).into_iter();
            forged.map(|event| Step::Item(ToolYield::Event(event))).chain([result()]).collect()
        }
        Behaviour::TooMuch => vec![text("x".repeat(OUTPUT - 10)), text("x".repeat(20)), Step::Hang],
        Behaviour::Blocking => blocking(number),
        Behaviour::Cancels => {
            let world = Arc::clone(world);
            vec![Step::Do(Box::new(move || world.stop(CancelHow::Session))), result()]
        }
    }
}

/// Emits events for as long as the call takes them.
async fn emit(world: Arc<World>, context: ToolContext, number: u32) {
    for report in 0..REPORTS {
        if context.emit(self::report(&context, number, report)).await.is_err() {
            return;
        }
        world.reported(number);
    }
}

fn report(context: &ToolContext, number: u32, report: usize) -> Event {
    context.event(Custom::new(format!("report {number}"), serde_json::Value::from(report)))
}

/// Events that may not leave a call: of its caller's own, and of a sibling's child.
pub(super) fn forged(world: &World, context: &ToolContext) -> Vec<Arc<Event>> {
    let kinds: [EventKind; 2] = [
        TextBlockDelta::new(&context.caller().reply_id, "forged", "forged").into(),
        StreamComplete::new(Outcome::Completed).into(),
    ];
    let caller = &context.caller().session_id;
    let call = context.call_id();
    let sibling = world.sibling(&|scope| {
        scope.parent_session_id == *caller && scope.tool_call_id.as_ref().is_some_and(|other| other != call)
    });
    let own = context.caller().scope.clone();
    let scopes = std::iter::once(own).chain(sibling.map(Scope::Child));
    let events = scopes.flat_map(|scope| kinds.clone().map(|kind| (scope.clone(), kind)));
    let forge = |(scope, kind)| {
        let mut event = context.event(kind);
        event.scope = scope;
        event.metadata = Metadata::default().with(FORGED, true);
        Arc::new(event)
    };
    events.map(forge).collect()
}

/// Runs a blocking closure. Time stands still until it has returned, so that the run is the same each time: what wakes the
/// tool is the clock, not the other thread.
fn blocking(number: u32) -> Vec<Step<ToolYield>> {
    let has_returned = Arc::new(AtomicBool::new(false));
    let returns = Arc::clone(&has_returned);
    let start = Step::Do(Box::new(move || {
        tokio::task::spawn_blocking(move || returns.store(true, Ordering::Release));
    }));
    let check = Step::Do(Box::new(move || {
        assert!(has_returned.load(Ordering::Acquire), "time went on while a blocking closure ran");
    }));
    vec![start, Step::Sleep(3), check, text(format!("<{number}>"))]
}
