//! `stop_task`.

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ended, error, find, once};
use crate::task::TaskStatus;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The task, by the id that you were given.
    task_id: String,
}

/// The tool `stop_task`: stops a background task, and gives what it has done so far.
#[derive(Debug)]
pub struct StopTask(ToolDefinition);

impl StopTask {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        let text = "Stops a background task of yours, and gives what it has done so far.";
        Self(ToolDefinition::typed::<Arguments>("stop_task", text))
    }
}

impl Default for StopTask {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for StopTask {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        let Arguments { task_id } = match invocation.arguments.to() {
            Ok(arguments) => arguments,
            Err(invalid) => return error(invalid.to_string()),
        };
        let (host, number, info) = match find(&context, &task_id) {
            Ok(found) => found,
            Err(text) => return error(text),
        };
        let was_running = info.status == TaskStatus::Running;
        once(async move {
            let tasks = &host.identity.shared.tasks;
            if was_running {
                tasks.cancel(number);
                tasks.has_ended(number).await;
            }
            let mut chunk = ended(&host, &invocation.id, number, &task_id);
            if was_running {
                // It was to be stopped, so that it was is no failure of this call.
                chunk.state = anabranch_proto::ToolResultState::Success;
            }
            chunk
        })
    }
}
