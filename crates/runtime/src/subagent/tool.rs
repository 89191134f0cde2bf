//! `spawn_subagent`, the tool.

use std::{fmt, sync::Arc};

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield};
use anabranch_proto::{ContentBlock, Metadata, TextBlock, ToolChunk};
use futures::{StreamExt, stream};

use super::{Spawn, SpawnArguments};
use crate::{Agent, Prompt, SpawnError};

const DESCRIPTION: &str = "\
Spawns a sub-agent that works on one task by itself and returns its result. The sub-agent sees only the task and the \
context that you give, and cannot ask you anything. To work on several tasks in parallel, make several calls in one \
turn: they run side by side, and you get all their results, in the order of your calls. A sub-agent that fails returns \
an error and stops no other; you decide whether to try again.";

type Choose = dyn Fn(&SpawnArguments) -> Agent + Send + Sync;
type Name = dyn Fn(&SpawnArguments) -> Option<String> + Send + Sync;
type Description = dyn Fn(&SpawnArguments) -> String + Send + Sync;
type Keys = dyn Fn(&SpawnArguments) -> Metadata + Send + Sync;

/// The tool `spawn_subagent`: an agent that has it can hand a task to a sub-agent, and several tasks at once.
///
/// The sub-agent runs in process: it is ephemeral, has the tools of its template alone, a memory of task and context
/// alone, and nothing of it is kept after its end. It can spawn only where its own template has this tool too.
pub struct SpawnSubagent {
    definition: ToolDefinition,
    choose: Arc<Choose>,
    name: Arc<Name>,
    description: Option<Arc<Description>>,
    keys: Arc<Keys>,
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
        let definition = ToolDefinition::typed::<SpawnArguments>("spawn_subagent", DESCRIPTION);
        Self {
            definition,
            choose: Arc::new(choose),
            name: Arc::new(|_| None),
            description: None,
            keys: Arc::new(|_| Metadata::default()),
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
        let agent = (self.choose)(&arguments);
        let name = (self.name)(&arguments).map_or_else(|| Arc::clone(agent.name()), Arc::from);
        let keys = arguments.metadata.clone().unwrap_or_default().merged(&(self.keys)(&arguments));
        let mut spawn = Spawn::new(context, name, prompt(&arguments))?.metadata(keys).timeout(timeout)?;
        if let Some(description) = &self.description {
            spawn = spawn.description(description(&arguments));
        }
        Ok(spawn.run(&agent))
    }
}

/// Task and context, and nothing else.
fn prompt(arguments: &SpawnArguments) -> Prompt {
    let mut content: Vec<ContentBlock> = vec![TextBlock::new(&*arguments.task).into()];
    if let Some(context) = arguments.context.as_deref().filter(|context| !context.trim().is_empty()) {
        content.push(TextBlock::new(format!("Context:\n{context}")).into());
    }
    Prompt::from_content(content)
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
