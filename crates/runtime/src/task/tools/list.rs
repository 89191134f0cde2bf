//! `list_tasks`.

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream};
use anabranch_proto::ToolChunk;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{error, host, line, once};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

/// The tool `list_tasks`: every background task that the agent has started, and how it is doing.
#[derive(Debug)]
pub struct ListTasks(ToolDefinition);

impl ListTasks {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        let text = "Lists the background tasks that you have started, and how each is doing.";
        Self(ToolDefinition::typed::<Arguments>("list_tasks", text))
    }
}

impl Default for ListTasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for ListTasks {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        if let Err(invalid) = invocation.arguments.to::<Arguments>() {
            return error(invalid.to_string());
        }
        let host = match host(&context) {
            Ok(host) => host,
            Err(text) => return error(text),
        };
        once(async move {
            let tasks = host.identity.shared.tasks.list(Some(&host.identity.session_id));
            let lines: Vec<_> = tasks.iter().map(line).collect();
            let text = if lines.is_empty() {
                "You have started no background task.".to_owned()
            } else {
                lines.join("\n")
            };
            ToolChunk::text(text)
        })
    }
}
