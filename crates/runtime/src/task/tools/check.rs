//! `check_task`.

use std::time::Duration;

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream};
use anabranch_proto::ToolChunk;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ended, error, find, line, once};
use crate::task::TaskStatus;

/// The longest that a check waits, in seconds.
const MAX_WAIT: u64 = 600;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The task, by the id that you were given.
    task_id: String,
    /// For how many seconds to wait for its end where it runs. Not at all by default.
    #[serde(default)]
    #[schemars(range(max = MAX_WAIT))]
    wait: u64,
}

/// The tool `check_task`: how a background task is doing, and its result where it has ended.
///
/// A result is given once: by this tool, or as a hint before the next model call.
#[derive(Debug)]
pub struct CheckTask(ToolDefinition);

impl CheckTask {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        let text = "Says how a background task of yours is doing, and gives its result when it has ended. You need not \
                    ask again and again: you are told of each task's end.";
        Self(ToolDefinition::typed::<Arguments>("check_task", text))
    }
}

impl Default for CheckTask {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for CheckTask {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        let Arguments { task_id, wait } = match invocation.arguments.to() {
            Ok(arguments) => arguments,
            Err(invalid) => return error(invalid.to_string()),
        };
        if wait > MAX_WAIT {
            return error(format!("`wait` must be at most {MAX_WAIT} seconds, not {wait}"));
        }
        let (host, number, _) = match find(&context, &task_id) {
            Ok(found) => found,
            Err(text) => return error(text),
        };
        once(async move {
            let tasks = &host.identity.shared.tasks;
            if wait > 0 {
                let end = tasks.has_ended(number);
                // Whether it ended is looked at below.
                tokio::time::timeout(Duration::from_secs(wait), end).await.ok();
            }
            match tasks.find(&host.identity.session_id, &task_id) {
                Some((_, info)) if info.status == TaskStatus::Running => ToolChunk::text(line(&info)),
                _ => ended(&host, &invocation.id, number, &task_id),
            }
        })
    }
}
