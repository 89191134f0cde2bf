//! A session that goes on from its log.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anabranch_proto::{
    Admitted, ErrorInfo, ErrorType, EventKind, Metadata, PermissionRule, SessionId, SpawnMechanism,
    SubagentId, Timestamp, ToolCallId, event::StreamComplete,
};
use anabranch_session::{EventProcessor, SessionRecord, Status, recover};

use super::{Session, SessionBuilder};
use crate::{
    ResumeError, SystemStamp, TaskInfo, TaskStatus, run::RunResult, subagent::result_chunk, task::Restored,
};

/// Why what ran under another program has ended.
const REASON: &str = "the program that ran this has ended";

impl SessionBuilder {
    /// Goes on with the session that a log has: after the program that ran it has ended, in order or by a crash, or after
    /// the session was closed. A log that is empty begins a session.
    ///
    /// What the log left open is closed in it first, once: runs, calls and replies end as interrupted, the deepest first,
    /// with an error of type `restart`; a call that waited for a person's answer is denied with a text that says that
    /// nobody refused it. Then the conversation goes on with the next prompt; the number behind the log's last is the next
    /// event's. The rules that people gave with their answers hold; what background tasks came to of which the model was
    /// not told, those that were cut off among it, is told with the next prompt. Of sub-agents that had ended nothing is
    /// remembered: they cannot go on.
    ///
    /// Nothing else may write to the log. The id is that of the session before.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    ///
    /// use anabranch_runtime::{Agent, ScriptedModel, Turn};
    /// use anabranch_session::MemoryLog;
    ///
    /// let model = ScriptedModel::from_fn("scripted", |request| {
    ///     Turn::new().text(format!("I have read {} messages.", request.messages.len()))
    /// });
    /// let agent = Agent::builder("assistant", model).build();
    /// // A log that outlives its process is in `anabranch-store`.
    /// let log = Arc::new(MemoryLog::new());
    /// let first = agent.session_builder().id("ses_1").log(log.clone()).start()?;
    /// first.prompt("Hello.").await?.finished().await?;
    /// first.close().await;
    ///
    /// let again = agent.session_builder().id("ses_1").log(log).resume().await?;
    /// let run = again.prompt("And now?").await?.finished().await?;
    /// assert_eq!(run.text(), "I have read 3 messages.");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the id or the log is not stated; when the log cannot be read or written, has other events than a session's, or
    /// has forgotten events without having kept their conversation.
    ///
    /// # Cancel safety
    /// Where the future is dropped there is no session, and what was left open may have been closed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn resume(mut self) -> Result<Session, ResumeError> {
        let id = self.id.clone().ok_or(ResumeError::NoId)?;
        let log = self.log.clone().ok_or(ResumeError::NoLog)?;
        let stamp = Arc::clone(self.stamp.get_or_insert_with(|| Arc::new(SystemStamp::new())));
        let why = ErrorInfo::new(ErrorType::other("restart"), REASON);
        let mut before = Before { root: Some(id.clone()), ..Before::default() };
        let look = &mut |admitted: &Admitted| before.look(admitted);
        let recovered = recover(&*log, id, self.bounds(), &*stamp, &why, look).await?;
        Ok(self.start_with(recovered.processor, &before))
    }
}

/// What a session's log says beyond what its processor keeps.
#[derive(Debug, Default)]
pub(super) struct Before {
    root: Option<SessionId>,
    /// The rules that people gave with their answers.
    pub(super) rules: Vec<PermissionRule>,
    /// The background children by their parents and the names that the models know them by.
    by_task: HashMap<(SessionId, String), SessionId>,
    background: HashMap<SessionId, Background>,
}

#[derive(Debug)]
struct Background {
    task_id: Arc<str>,
    /// The call that started it: its result says which child that is, and nothing of what it came to.
    call: Option<ToolCallId>,
    /// What its last run came to, where the parent's model was not told.
    untold: Option<StreamComplete>,
}

impl Before {
    fn look(&mut self, admitted: &Admitted) {
        let event = &admitted.event;
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            if spawn.spawn_mechanism != SpawnMechanism::AsyncWorker {
                return;
            }
            let Some(task_id) = event.metadata.get_str("task_id") else { return };
            let child = spawn.child_session_id.clone();
            self.by_task.insert((spawn.parent_session_id.clone(), task_id.clone()), child.clone());
            self.background.insert(
                child,
                Background { task_id: task_id.into(), call: spawn.tool_call_id.clone(), untold: None },
            );
        } else if let EventKind::StreamComplete(end) = &event.kind {
            let child =
                event.scope.child().and_then(|child| self.background.get_mut(&child.child_session_id));
            if let Some(child) = child {
                child.untold = Some(StreamComplete::clone(end));
            }
        } else if let EventKind::HintBlock(hint) = &event.kind {
            let Some(root) = &self.root else { return };
            let Some(source) = &hint.source else { return };
            let task = (event.scope.session(root).clone(), source.clone());
            if let Some(child) = self.by_task.get(&task).cloned() {
                self.told(&child);
            }
        } else if let EventKind::ToolResultEnd(end) = &event.kind {
            let child = end.response.get_str("child_session_id").map(SessionId::from);
            if let Some(child) = child
                && self
                    .background
                    .get(&child)
                    .is_some_and(|child| child.call.as_ref() != Some(&end.tool_call_id))
            {
                self.told(&child);
            }
        } else if let EventKind::UserConfirmResult(result) = &event.kind {
            for answer in result.confirm_results.iter().filter(|answer| answer.confirmed) {
                self.rules.extend(answer.rules.iter().flatten().cloned());
            }
        }
    }

    fn told(&mut self, child: &SessionId) {
        if let Some(child) = self.background.get_mut(child) {
            child.untold = None;
        }
    }

    /// The background tasks there were, all of which have ended.
    pub(super) fn tasks(&self, processor: &EventProcessor) -> Vec<Restored> {
        let tree = processor.tree();
        let task = |record: &SessionRecord| {
            let background = self.background.get(&record.id)?;
            let parent = record.parent.clone()?;
            let Status::Ended(outcome) = record.status else { return None };
            let info = TaskInfo {
                task_id: Arc::clone(&background.task_id),
                session_id: record.id.clone(),
                name: Arc::clone(&record.source_name),
                description: record.description.clone(),
                status: TaskStatus::Ended(outcome),
                elapsed: elapsed(record.started_at, record.ended_at),
                parent_session_id: parent,
            };
            // The others' models run no more.
            let untold = background.untold.as_ref().filter(|_| record.depth == 1);
            let result = untold.map(|end| {
                let mut result = RunResult::new(end.outcome);
                result.error.clone_from(&end.error);
                result.message.clone_from(&end.message);
                let subagent =
                    record.subagent_id.clone().unwrap_or_else(|| SubagentId::new(record.id.as_str()));
                let keys = Metadata::clone(&record.metadata).without_reserved();
                result_chunk(&result, (&subagent, &record.id), &keys)
            });
            Some(Restored { info, run: record.runs, result })
        };
        tree.iter().filter_map(task).collect()
    }
}

fn elapsed(from: Option<Timestamp>, to: Option<Timestamp>) -> Duration {
    let millis = from.zip(to).map_or(0, |(from, to)| to.unix_millis().saturating_sub(from.unix_millis()));
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
