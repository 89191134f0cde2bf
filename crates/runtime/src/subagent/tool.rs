//! `spawn_subagent`, the tool.

use std::{fmt, sync::Arc};

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield};
use anabranch_proto::{ContentBlock, Metadata, TextBlock, ToolChunk};
use futures::{StreamExt, stream};

use super::{
    Spawn, SpawnArguments, Team,
    spawn::{Keep, Place},
};
use crate::{
    Agent, Fork, OnCancel, Order, Prompt, Runner, SpawnError,
    elsewhere::{Elsewhere, Template},
};

const DESCRIPTION: &str = "\
Spawns a sub-agent that works on one task by itself and returns its result. The sub-agent sees only the task and the \
context that you give (with `fork` all of this conversation), and cannot ask you anything. To work on several tasks in parallel, make several calls in one \
turn: they run side by side, and you get all their results, in the order of your calls. In the background it works \
while you go on, and you are told its result when it has ended. A sub-agent that fails returns \
an error and stops no other; you decide whether to try again.";

type Choose = dyn Fn(&SpawnArguments) -> Agent + Send + Sync;

/// What runs in the child.
#[derive(Clone)]
enum Source {
    Agent(Arc<Choose>),
    Team(Team),
    Elsewhere(Elsewhere),
}

type Name = dyn Fn(&SpawnArguments) -> Option<String> + Send + Sync;
type Description = dyn Fn(&SpawnArguments) -> String + Send + Sync;
type Keys = dyn Fn(&SpawnArguments) -> Metadata + Send + Sync;

/// The tool `spawn_subagent`: an agent that has it can hand a task to a sub-agent, and several tasks at once.
///
/// The sub-agent runs in process: it is ephemeral, has the tools of its template alone, a memory of task and context
/// alone, and nothing of it is kept after its end. It can spawn only where its own template has this tool too. With
/// `fork` it starts from the caller's conversation; with `background` the call does not wait for it, and
/// [`AgentBuilder::task_tools`](crate::AgentBuilder::task_tools) are for the model to deal with it.
pub struct SpawnSubagent {
    definition: ToolDefinition,
    source: Source,
    name: Arc<Name>,
    description: Option<Arc<Description>>,
    keys: Arc<Keys>,
    fork: Fork,
    on_cancel: OnCancel,
    /// Where background children run that have an agent here too.
    background: Option<Arc<dyn Runner>>,
    place: Place,
    keep: Keep,
}

impl SpawnSubagent {
    /// Every sub-agent is made from one template.
    #[must_use]
    pub fn new(agent: Agent) -> Self {
        Self::choosing(move |_| agent.clone())
    }

    /// The template depends on the call.
    #[must_use]
    pub fn choosing(choose: impl Fn(&SpawnArguments) -> Agent + Send + Sync + 'static) -> Self {
        Self::of(Source::Agent(Arc::new(choose)))
    }

    /// Each call has a team work on its task.
    #[must_use]
    pub fn team(team: Team) -> Self {
        Self::of(Source::Team(team))
    }

    /// Every sub-agent runs elsewhere, from the template of this name there, whether or not the call waits for it (see
    /// [`Spawn::background_on`]).
    #[must_use]
    pub fn on(runner: Arc<dyn Runner>, agent: impl Into<Arc<str>>) -> Self {
        Self::of(Source::Elsewhere(Elsewhere { runner, agent: agent.into() }))
    }

    fn of(source: Source) -> Self {
        let definition = ToolDefinition::typed::<SpawnArguments>("spawn_subagent", DESCRIPTION);
        Self {
            definition,
            source,
            name: Arc::new(|_| None),
            description: None,
            keys: Arc::new(|_| Metadata::default()),
            fork: Fork::Full,
            on_cancel: OnCancel::default(),
            background: None,
            place: Place::WithParent,
            keep: Keep::Ephemeral,
        }
    }

    /// The tool under another name, with another text for the model: an agent can have several, each for sub-agents of
    /// another kind.
    #[must_use]
    pub fn as_tool(mut self, name: impl Into<Arc<str>>, description: impl Into<String>) -> Self {
        self.definition.name = name.into();
        self.definition.description = description.into();
        self
    }

    /// The name of each sub-agent, where the call tells one; its template's name by default.
    #[must_use]
    pub fn named_by(
        mut self,
        name: impl Fn(&SpawnArguments) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.name = Arc::new(name);
        self
    }

    /// What each sub-agent will do, for people; `Run {name} task` by default.
    #[must_use]
    pub fn described_by(
        mut self,
        description: impl Fn(&SpawnArguments) -> String + Send + Sync + 'static,
    ) -> Self {
        self.description = Some(Arc::new(description));
        self
    }

    /// How much of the conversation a sub-agent starts from that is spawned with `fork`. All by default.
    #[must_use]
    pub fn forking(mut self, fork: Fork) -> Self {
        self.fork = fork;
        self
    }

    /// What becomes of background children when the reply is cancelled. They are stopped by default.
    #[must_use]
    pub fn on_cancel(mut self, on_cancel: OnCancel) -> Self {
        self.on_cancel = on_cancel;
        self
    }

    /// Runs background sub-agents elsewhere, from the template that has the same name there (see
    /// [`Spawn::background_on`]). Those that the call waits for run here.
    #[must_use]
    pub fn background_on(mut self, runner: Arc<dyn Runner>) -> Self {
        self.background = Some(runner);
        self
    }

    /// Runs each sub-agent on a task of its own, so that it can use another thread (see [`Spawn::on_own_task`]).
    #[must_use]
    pub fn on_own_tasks(mut self) -> Self {
        self.place = Place::OwnTask;
        self
    }

    /// Keeps what each sub-agent said, and tells the model its id, so that [`ResumeSubagent`](crate::ResumeSubagent) can go
    /// on with it (see [`Spawn::keep`]).
    #[must_use]
    pub fn resumable(mut self) -> Self {
        self.keep = Keep::Kept;
        self
    }

    /// Keys that the application derives from the call, above those that the model gave. Reserved keys are left out.
    #[must_use]
    pub fn with_keys(mut self, keys: impl Fn(&SpawnArguments) -> Metadata + Send + Sync + 'static) -> Self {
        self.keys = Arc::new(keys);
        self
    }

    fn spawn(&self, invocation: &ToolInvocation, context: &ToolContext) -> Result<ToolStream, SpawnError> {
        let arguments: SpawnArguments =
            invocation.arguments.to().map_err(|error| SpawnError::Argument(error.to_string()))?;
        let timeout = arguments.check()?;
        let work = match &self.source {
            Source::Team(team) => Work::Team(team),
            Source::Elsewhere(elsewhere) => Work::Template(Template::Elsewhere(elsewhere.clone())),
            Source::Agent(choose) => Work::Template(Template::Agent(choose(&arguments))),
        };
        let default = match &work {
            Work::Team(team) => team.name(),
            Work::Template(Template::Agent(agent)) => agent.name(),
            Work::Template(Template::Elsewhere(elsewhere)) => &elsewhere.agent,
        };
        let name = (self.name)(&arguments).map_or_else(|| Arc::clone(default), Arc::from);
        let keys = arguments.metadata.clone().unwrap_or_default().merged(&(self.keys)(&arguments));
        let mut spawn = Spawn::new(context, name, prompt(&arguments))?.metadata(keys).timeout(timeout)?;
        if arguments.fork {
            spawn = spawn.fork(self.fork);
        }
        if let Some(description) = &self.description {
            spawn = spawn.description(description(&arguments));
        }
        if self.keep == Keep::Kept {
            spawn = spawn.keep();
        }
        if self.place == Place::OwnTask {
            spawn = spawn.on_own_task();
        }
        match work {
            Work::Template(template) if arguments.background => {
                let template = match (template, &self.background) {
                    (Template::Agent(agent), Some(runner)) => {
                        let (runner, agent) = (Arc::clone(runner), Arc::clone(agent.name()));
                        Template::Elsewhere(Elsewhere { runner, agent })
                    }
                    (template @ (Template::Agent(_) | Template::Elsewhere(_)), _) => template,
                };
                Ok(spawn.background_template(&template, self.on_cancel))
            }
            Work::Template(template) => Ok(spawn.run_template(&template)),
            Work::Team(_) if arguments.background || arguments.fork => Err(SpawnError::Argument(
                "a team works neither in the background nor from this conversation; leave `background` and `fork` out"
                    .to_owned(),
            )),
            Work::Team(team) => Ok(spawn.team(team)),
        }
    }
}

/// What a call runs.
enum Work<'a> {
    Template(Template),
    Team(&'a Team),
}

/// Task and context, and nothing else.
fn prompt(arguments: &SpawnArguments) -> Prompt {
    let mut content: Vec<ContentBlock> = vec![TextBlock::new(&*arguments.task).into()];
    if let Some(context) = arguments.context.as_deref().filter(|context| !context.trim().is_empty()) {
        content.push(TextBlock::new(format!("{CONTEXT}{context}")).into());
    }
    Prompt::from_content(content)
}

/// What stands before the context in a prompt.
const CONTEXT: &str = "Context:\n";

impl Order {
    /// What [`SpawnSubagent`] was called with that made this order, as far as the order says: task, context, keys. For whoever
    /// chooses an agent by the call.
    #[must_use]
    pub fn arguments(&self) -> SpawnArguments {
        let mut texts = self.prompt.iter().filter_map(ContentBlock::as_text);
        let mut arguments = SpawnArguments::new(texts.next().unwrap_or_default());
        arguments.context = texts.next().and_then(|text| text.strip_prefix(CONTEXT)).map(str::to_owned);
        arguments.metadata = (!self.metadata.is_empty()).then(|| self.metadata.clone());
        arguments
    }
}

impl Tool for SpawnSubagent {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        match self.spawn(&invocation, &context) {
            Ok(stream) => stream,
            Err(error) => stream::iter([ToolYield::Chunk(ToolChunk::error(error.to_string()))]).boxed(),
        }
    }
}

impl fmt::Debug for SpawnSubagent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnSubagent").finish_non_exhaustive()
    }
}
