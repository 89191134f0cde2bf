//! `message_task`.

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream};
use anabranch_proto::ToolChunk;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{error, find, once};
use crate::{Spawn, SteerError, task::TaskStatus};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The task, by the id that you were given.
    task_id: String,
    /// What to tell it.
    #[schemars(length(min = 1))]
    message: String,
}

/// The tool `message_task`: says something to a background task.
///
/// One that runs reads it before its next model call. One that has ended goes on with a further run, from where it was, and
/// its result comes as the first one's did.
#[derive(Debug)]
pub struct MessageTask(ToolDefinition);

impl MessageTask {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        let text = "Tells a background task of yours something: more instructions while it works, or what to do next \
                    when it has ended. It remembers what it did.";
        Self(ToolDefinition::typed::<Arguments>("message_task", text))
    }
}

impl Default for MessageTask {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for MessageTask {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        let Arguments { task_id, message } = match invocation.arguments.to() {
            Ok(arguments) => arguments,
            Err(invalid) => return error(invalid.to_string()),
        };
        if message.trim().is_empty() {
            return error("`message` is empty; say what the task is to be told");
        }
        let (host, number, info) = match find(&context, &task_id) {
            Ok(found) => found,
            Err(text) => return error(text),
        };
        if info.status == TaskStatus::Running {
            let run = host.identity.shared.runs.get(&info.session_id);
            let said = run.map_or(Err(SteerError::Ended), |run| run.inbox.push(message.into()));
            return match said {
                Ok(()) => {
                    once(std::future::ready(ToolChunk::text(format!("`{task_id}` will read it next."))))
                }
                Err(SteerError::Ended) => {
                    error(format!("`{task_id}` is just ending; tell it again when it has ended"))
                }
                Err(full) => error(format!("`{task_id}` was not told: {full}")),
            };
        }
        match Spawn::again_in(&context, &info.session_id, message.into()) {
            Ok((spawn, template)) => spawn.further_task(&template, number),
            Err(text) => error(text.to_string()),
        }
    }
}
