//! `resume_subagent`, the tool.

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield};
use anabranch_proto::{SubagentId, ToolChunk};
use futures::{StreamExt, stream};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Spawn,
    arguments::{MAX_TIMEOUT, default_timeout, seconds},
};
use crate::{SpawnError, run::Host};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The sub-agent, by the id that came with its result.
    subagent_id: String,
    /// What it is to do next. It remembers what it did.
    #[schemars(length(min = 1))]
    message: String,
    /// After how many seconds it is stopped.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT))]
    timeout: u64,
}

/// The tool `resume_subagent`: goes on with a sub-agent that has ended, from where it was, and waits for what it comes to.
///
/// For sub-agents of a [`SpawnSubagent`](crate::SpawnSubagent) that is
/// [resumable](crate::SpawnSubagent::resumable), and for background ones that have ended.
#[derive(Debug)]
pub struct ResumeSubagent(ToolDefinition);

impl ResumeSubagent {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        let text = "Goes on with a sub-agent that has ended: it remembers what it did, does what you say next, and you \
                    get its result.";
        Self(ToolDefinition::typed::<Arguments>("resume_subagent", text))
    }

    fn resume(invocation: &ToolInvocation, context: &ToolContext) -> Result<ToolStream, SpawnError> {
        let arguments: Result<Arguments, _> = invocation.arguments.to();
        let Arguments { subagent_id, message, timeout } =
            arguments.map_err(|error| SpawnError::Argument(error.to_string()))?;
        if message.trim().is_empty() {
            return Err(SpawnError::Argument("`message` is empty; say what it is to do next".to_owned()));
        }
        let timeout = seconds(timeout)?;
        let host = context.host::<Host>().ok_or(SpawnError::NoSession)?;
        let session = host.identity.shared.memories.session_of(&SubagentId::new(&*subagent_id));
        let session = session.ok_or_else(|| {
            SpawnError::Argument(format!(
                "there is no sub-agent `{subagent_id}` that could go on: it runs, or nothing is kept of it"
            ))
        })?;
        let (spawn, template) = Spawn::again_in(context, &session, message.into())?;
        Ok(spawn.timeout(timeout)?.run_template(&template))
    }
}

impl Default for ResumeSubagent {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for ResumeSubagent {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        match Self::resume(&invocation, &context) {
            Ok(stream) => stream,
            Err(error) => stream::iter([ToolYield::Chunk(ToolChunk::error(error.to_string()))]).boxed(),
        }
    }
}
