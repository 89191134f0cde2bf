//! Children that no call waits for.

use std::sync::Arc;

use anabranch_pipeline::{ToolStream, ToolYield};
use anabranch_proto::{ChildScope, Event, Metadata, SessionId, SpawnMechanism, ToolChunk};
use futures::{StreamExt, stream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Spawn, spawn::Keep};
use crate::{
    Agent, Runner,
    elsewhere::{Elsewhere, Template},
    run::{RunControl, RunResult},
    task::{Kind, NewTask, OnCancel},
};

/// A child that is a task.
struct Made {
    number: usize,
    id: Arc<str>,
    announcement: Arc<Event>,
    scope: Arc<ChildScope>,
}

impl Spawn {
    /// Runs an agent as a child that the call does not wait for: its result is that the child has begun.
    ///
    /// The child's events join the session's stream, and its result reaches the caller's model before one of its next
    /// calls, once. A background child of the root can outlive the reply, but not the session; one of a sub-agent is
    /// waited for when that has nothing else to do. Its conversation is kept, as by [`keep`](Self::keep).
    #[must_use = "nothing runs unless the stream is polled"]
    pub fn background(self, agent: &Agent, on_cancel: OnCancel) -> ToolStream {
        self.start(&Template::Agent(agent.clone()), on_cancel, None)
    }

    /// Has an agent that is elsewhere run as a child that the call does not wait for, as [`background`](Self::background)
    /// otherwise.
    ///
    /// The child keeps its place here: its slot, its time, its questions, its end. What it may do goes with the
    /// [`Order`](crate::Order), and what it says is held to the rules of a stream. What is not sent to the other side are
    /// tools, models and layers, and permissions that code decides, which asks back instead.
    #[must_use = "nothing runs unless the stream is polled"]
    pub fn background_on(
        self,
        runner: Arc<dyn Runner>,
        agent: impl Into<Arc<str>>,
        on_cancel: OnCancel,
    ) -> ToolStream {
        let template = Template::Elsewhere(Elsewhere { runner, agent: agent.into() });
        self.background_template(&template, on_cancel)
    }

    pub(super) fn background_template(self, template: &Template, on_cancel: OnCancel) -> ToolStream {
        self.start(template, on_cancel, None)
    }

    /// A further run of a background task's child, under the name of the task.
    pub(crate) fn further_task(self, template: &Template, task: usize) -> ToolStream {
        self.start(template, OnCancel::default(), Some(task))
    }

    fn start(mut self, template: &Template, on_cancel: OnCancel, again: Option<usize>) -> ToolStream {
        self.mechanism = SpawnMechanism::AsyncWorker;
        self.keep = Keep::Kept;
        let keys = self.keys.clone();
        let Made { id, announcement, scope, .. } =
            self.make_task(template, Kind::Background(on_cancel), again, None);
        let text = format!(
            "`{id}` ({}) works in the background. Go on; you will be told what it came to.",
            scope.source_name
        );
        let metadata = Metadata::default()
            .with("subagent_id", scope.subagent_id.as_str())
            .with("child_session_id", scope.child_session_id.as_str())
            .with("task_id", &*id)
            .merged(&keys);
        let chunk = ToolChunk::text(text).metadata(metadata).last();
        stream::iter([ToolYield::Event(announcement), ToolYield::Chunk(chunk)]).boxed()
    }

    /// Makes a task of the child: it starts when its announcement, which is given here, has entered the session's stream.
    fn make_task(
        mut self,
        template: &Template,
        kind: Kind,
        again: Option<usize>,
        report: Option<oneshot::Sender<RunResult>>,
    ) -> Made {
        let tasks = Arc::clone(&self.host.identity.shared.tasks);
        let scope = self.scope();
        let session = scope.child_session_id.clone();
        // Where nobody waits for it neither its end nor its questions are anybody else's.
        let control = if scope.depth > 1 {
            self.host.identity.control.awaited(session)
        } else {
            RunControl::top(session, CancellationToken::new())
        };
        let (number, id) = tasks.make(NewTask {
            again,
            kind,
            session: scope.child_session_id.clone(),
            run: scope.run,
            parent: scope.parent_session_id.clone(),
            call: self.tool_call_id.clone(),
            name: Arc::clone(&self.source_name),
            description: self.described(None),
            control: Arc::clone(&control),
            within: Arc::clone(&self.host.identity.control),
            // A sub-agent may have nothing else to do before its announcement has come to where it counts.
            is_waited_for: scope.depth > 1,
            loan: self.loan.take(),
        });
        let named = Some(&*id).filter(|id| !id.is_empty());
        let announcement = self.announcement(&scope, named);
        let mut newborn = self.born_as(Arc::clone(&scope), control, template.agent());
        newborn.birth.report = report;
        tasks.ready(number, newborn.work(template));
        Made { number, id, announcement, scope }
    }

    /// A child that code spawns: its task, its announcement, its session, and what it comes to.
    pub(crate) fn manual(
        mut self,
        template: &Template,
    ) -> (usize, Arc<Event>, SessionId, oneshot::Receiver<RunResult>) {
        self.mechanism = SpawnMechanism::Manual;
        self.keep = Keep::Kept;
        let (report, result) = oneshot::channel();
        let Made { number, announcement, scope, .. } =
            self.make_task(template, Kind::Manual, None, Some(report));
        (number, announcement, scope.child_session_id.clone(), result)
    }
}
