//! The tools by which a model deals with its background tasks.

mod check;
mod list;
mod message;
mod stop;

pub use check::CheckTask;
pub use list::ListTasks;
pub use message::MessageTask;
pub use stop::StopTask;

use std::{future::Future, sync::Arc};

use anabranch_pipeline::{ToolContext, ToolStream, ToolYield};
use anabranch_proto::{ContentBlock, TextBlock, ToolCallId, ToolChunk};
use futures::{StreamExt, stream};

use super::{TaskInfo, TaskStatus};
use crate::run::Host;

/// A call that comes to one chunk.
fn once(chunk: impl Future<Output = ToolChunk> + Send + 'static) -> ToolStream {
    stream::once(chunk).map(|chunk| ToolYield::Chunk(chunk.last())).boxed()
}

fn error(text: impl Into<String>) -> ToolStream {
    let chunk = ToolChunk::error(text.into());
    once(std::future::ready(chunk))
}

/// The run that calls, and its task of that name.
fn find(context: &ToolContext, id: &str) -> Result<(Arc<Host>, usize, TaskInfo), String> {
    let host = host(context)?;
    let identity = &host.identity;
    if let Some((number, info)) = identity.shared.tasks.find(&identity.session_id, id) {
        return Ok((host, number, info));
    }
    let known = identity.shared.tasks.list(Some(&identity.session_id));
    let known: Vec<_> = known.iter().map(|task| format!("`{}`", task.task_id)).collect();
    let known = if known.is_empty() {
        "you have started none".to_owned()
    } else {
        format!("yours are: {}", known.join(", "))
    };
    Err(format!("there is no background task `{id}`; {known}"))
}

fn host(context: &ToolContext) -> Result<Arc<Host>, String> {
    context.host::<Host>().ok_or_else(|| "background tasks exist only in an anabranch session".to_owned())
}

/// A result under a line that says whose it is.
pub(crate) fn titled(info: &TaskInfo, mut result: ToolChunk) -> ToolChunk {
    let title =
        format!("The background task `{}` ({}) has ended: {}.\n\n", info.task_id, info.name, info.status);
    let mut content: Vec<ContentBlock> = vec![TextBlock::new(title).into()];
    content.append(&mut result.content);
    result.content = content;
    result
}

/// How a task is, in a line.
fn line(info: &TaskInfo) -> String {
    let TaskInfo { task_id, name, description, status, elapsed, .. } = info;
    let seconds = elapsed.as_secs();
    match status {
        TaskStatus::Running => format!("`{task_id}` ({name}): running for {seconds} s. {description}"),
        TaskStatus::Ended(outcome) => {
            format!("`{task_id}` ({name}): {outcome} after {seconds} s. {description}")
        }
    }
}

/// What there is to say of a task that has ended: its results where the model was not told them.
fn ended(host: &Host, call: &ToolCallId, number: usize, id: &str) -> ToolChunk {
    let Host { identity, .. } = host;
    let Some((_, info)) = identity.shared.tasks.find(&identity.session_id, id) else {
        return ToolChunk::error(format!("there is no background task `{id}` any more"));
    };
    let given = identity.shared.tasks.give(number, &identity.session_id, call);
    let told = given.into_iter().map(|(info, result)| titled(&info, result)).reduce(|mut all, mut last| {
        all.content.push(TextBlock::new("\n\n").into());
        all.content.append(&mut last.content);
        all.state = last.state;
        all.metadata = last.metadata;
        all
    });
    told.unwrap_or_else(|| ToolChunk::text(format!("{}\nIts result was given to you before.", line(&info))))
}
