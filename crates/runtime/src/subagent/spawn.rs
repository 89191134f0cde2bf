//! A child that is about to begin.

use std::{sync::Arc, time::Duration};

use anabranch_pipeline::{ToolContext, ToolStream};
use anabranch_proto::{
    Event, Message, Metadata, SessionId, SourceType, SpawnMechanism, SubagentId, ToolCallId,
};
use futures::Stream;

use super::{
    Team, adopt::Adopt, born::Newborn, child::Child, foreign::Foreign, parallel::on_own_task, team::TeamRun,
};
use crate::{
    Agent, Prompt, Runner, SpawnError,
    elsewhere::{Elsewhere, Template},
    limits::Slot,
    run::{Fork, Host, Loan, Memory, Shared},
    timeout::checked,
};

/// A child of the session in which a tool runs: reserved, not yet announced.
///
/// [`run`](Self::run) runs an agent as the child; [`stream`](Self::stream) runs any stream of events as one, such as that
/// of an agent under somebody else's loop. Both give the stream that the tool returns: the announcement, the child's
/// events, and the result for the caller's model.
///
/// ```
/// use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield};
/// use anabranch_proto::{Event, Metadata, Scope, ToolChunk, event::{ReplyStart, TextBlockDelta}};
/// use anabranch_runtime::Spawn;
/// use futures::{StreamExt, stream};
///
/// /// A tool that runs another framework's agent as a child.
/// struct Research(ToolDefinition);
///
/// impl Tool for Research {
///     fn definition(&self) -> &ToolDefinition {
///         &self.0
///     }
///
///     fn call(&self, _: ToolInvocation, context: ToolContext) -> ToolStream {
///         match Spawn::new(&context, "researcher", "Find three sources.") {
///             Ok(spawn) => spawn.stream(stream::empty::<Event>()),
///             Err(error) => stream::iter([ToolYield::Chunk(ToolChunk::error(error.to_string()))]).boxed(),
///         }
///     }
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is spawned until the child is run"]
pub struct Spawn {
    pub(super) host: Arc<Host>,
    pub(super) slot: Slot,
    /// The session that goes on with a further run, where it is one: with its sub-agent and the number of the run.
    pub(crate) session: Option<(SessionId, SubagentId, u32)>,
    pub(super) tool_call_id: Option<ToolCallId>,
    pub(super) source_name: Arc<str>,
    pub(super) source_type: SourceType,
    pub(super) mechanism: SpawnMechanism,
    pub(super) description: Option<String>,
    pub(super) prompt: Prompt,
    /// What the child starts from.
    pub(crate) history: Vec<Message>,
    pub(super) keys: Metadata,
    pub(super) timeout: Option<Duration>,
    pub(super) keep: Keep,
    /// How often somebody has begun to run it.
    pub(crate) attempt: u32,
    /// What the session has from its last run, until this one begins.
    pub(super) loan: Option<Loan>,
    pub(super) place: Place,
}

/// Whether a run can go on after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Nothing of it is kept.
    Ephemeral,
    /// Its conversation is, for a further run.
    Kept,
}

/// Where a child runs that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where its parent does.
    WithParent,
    OwnTask,
}

impl Spawn {
    /// Reserves a place for a child that waits for nobody but the call in which the tool runs.
    ///
    /// # Errors
    /// When a limit refuses the child, when the session is being stopped, or when the tool runs in no session of this
    /// runtime. Nothing was announced then.
    pub fn new(
        context: &ToolContext,
        source_name: impl Into<Arc<str>>,
        prompt: impl Into<Prompt>,
    ) -> Result<Self, SpawnError> {
        let host = context.host::<Host>().ok_or(SpawnError::NoSession)?;
        Self::under(&host, Some(context.call_id().clone()), source_name.into(), prompt.into())
    }

    /// Reserves a place for a further run of a child that has ended, and gives its agent. The child goes on from where it
    /// was, with its ids, and with the description, the keys and the time-out of its last run.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and when nothing is kept of that session: it is unknown, it runs, it was spawned without [`keep`](Self::keep), others that ended later
    /// took its place, or it runs elsewhere.
    pub fn again(
        context: &ToolContext,
        session: &SessionId,
        prompt: impl Into<Prompt>,
    ) -> Result<(Self, Agent), SpawnError> {
        match Self::again_in(context, session, prompt.into())? {
            (spawn, Template::Agent(agent)) => Ok((spawn, agent)),
            (_, Template::Elsewhere(_)) => Err(SpawnError::Argument(format!(
                "the session `{session}` does not run here, so it has no agent here to go on with"
            ))),
        }
    }

    /// Reserves a place for a further run of a child that has ended, wherever it runs.
    pub(crate) fn again_in(
        context: &ToolContext,
        session: &SessionId,
        prompt: Prompt,
    ) -> Result<(Self, Template), SpawnError> {
        let host = context.host::<Host>().ok_or(SpawnError::NoSession)?;
        Self::again_under(&host, Some(context.call_id().clone()), session, prompt)
    }

    /// Reserves a place for a further run of a child that has ended.
    pub(crate) fn again_under(
        host: &Arc<Host>,
        tool_call_id: Option<ToolCallId>,
        session: &SessionId,
        prompt: Prompt,
    ) -> Result<(Self, Template), SpawnError> {
        let Shared { memories, tasks, .. } = &*host.identity.shared;
        if tasks.open_task_of(session).is_some() {
            return Err(SpawnError::Argument(format!(
                "the session `{session}` has not ended, so it cannot go on"
            )));
        }
        let (memory, loan) = memories.lend(session).ok_or_else(|| {
            SpawnError::Argument(format!("nothing is kept of the session `{session}`, so it cannot go on"))
        })?;
        let mut spawn = Self::under(host, tool_call_id, Arc::clone(&memory.source_name), prompt)?;
        spawn.loan = Some(loan);
        let Memory { template, subagent_id, messages, run, manner, .. } = memory;
        spawn.session = Some((session.clone(), subagent_id, run.saturating_add(1)));
        spawn.history = messages;
        spawn.description.clone_from(&manner.description);
        spawn.keys = manner.keys.clone();
        spawn.timeout = manner.timeout;
        spawn.keep = Keep::Kept;
        Ok((spawn, template))
    }

    /// Reserves a place for a child of a run.
    pub(crate) fn under(
        host: &Arc<Host>,
        tool_call_id: Option<ToolCallId>,
        source_name: Arc<str>,
        prompt: Prompt,
    ) -> Result<Self, SpawnError> {
        let slot = host.reserve()?;
        Ok(Self {
            host: Arc::clone(host),
            slot,
            session: None,
            tool_call_id,
            source_name,
            source_type: SourceType::Agent,
            mechanism: SpawnMechanism::Sync,
            description: None,
            prompt,
            history: Vec::new(),
            keys: Metadata::default(),
            timeout: None,
            keep: Keep::Ephemeral,
            attempt: 1,
            loan: None,
            place: Place::WithParent,
        })
    }

    /// What the child will do, for people. `Run {source_name} task` by default.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The caller's own keys, on the announcement, on each of the child's events and on the result. Reserved keys are
    /// left out.
    pub fn metadata(mut self, keys: Metadata) -> Self {
        self.keys = keys.without_reserved();
        self
    }

    /// After what time the child is stopped; it then ends as timed out, keeping what it has done. None by default.
    ///
    /// The time runs from the moment of the call, and stands still while the child, or one beneath it, waits for a
    /// person.
    ///
    /// # Errors
    /// When it is nought or more than a year, which is a mistake and overflows clocks.
    pub fn timeout(mut self, timeout: Duration) -> Result<Self, SpawnError> {
        self.timeout = Some(checked(timeout)?);
        Ok(self)
    }

    /// Starts the child from the caller's conversation as it is now; calls that have no result are left out.
    pub fn fork(mut self, fork: Fork) -> Self {
        self.history = fork.filter(self.host.conversation.settled());
        self
    }

    /// Keeps the child's conversation after its end, so that [`again`](Self::again) can go on with it. Nothing is kept by
    /// default. The session remembers 256 such children and 16 MiB of what they said, the last that ended.
    pub fn keep(mut self) -> Self {
        self.keep = Keep::Kept;
        self
    }

    /// Runs the child on a task of its own, so that it can use another thread; its events come in batches. By default it
    /// runs where its parent does, which costs less.
    pub fn on_own_task(mut self) -> Self {
        self.place = Place::OwnTask;
        self
    }

    /// What runs in the child's session.
    pub fn source_type(mut self, source_type: SourceType) -> Self {
        self.source_type = source_type;
        self
    }

    /// Runs an agent as the child: ephemeral, and with nothing of the caller's conversation unless it was
    /// [forked](Self::fork) from it.
    #[must_use = "nothing runs unless the stream is polled"]
    pub fn run(self, agent: &Agent) -> ToolStream {
        self.run_template(&Template::Agent(agent.clone()))
    }

    /// Has an agent that is elsewhere run as the child, as [`background_on`](Self::background_on) does; the call waits for
    /// it.
    #[must_use = "nothing runs unless the stream is polled"]
    pub fn run_on(self, runner: Arc<dyn Runner>, agent: impl Into<Arc<str>>) -> ToolStream {
        self.run_template(&Template::Elsewhere(Elsewhere { runner, agent: agent.into() }))
    }

    pub(super) fn run_template(self, template: &Template) -> ToolStream {
        self.placed(|spawn| spawn.born(template.agent()).work(template))
    }

    /// Runs a team as the child. Its members are children of that one, each one deeper.
    #[must_use = "nothing runs unless the stream is polled"]
    pub fn team(mut self, team: &Team) -> ToolStream {
        self.source_type = team.source_type();
        self.placed(|spawn| {
            let Newborn { birth, identity, prompt, .. } = spawn.born(None);
            Box::pin(Child::new(birth, TeamRun::new(team.clone(), identity, prompt)))
        })
    }

    /// Runs a stream of events as the child (RFC-0014's `_stream_task`).
    ///
    /// Events in [`Scope::Root`](anabranch_proto::Scope::Root) are the child's own: they get its scope and metadata. Events of children of the stream's
    /// own root become those of children of the child, as many levels deeper. The prompt is put before the first event
    /// unless the stream begins with one. The stream ends with its own
    /// [`StreamComplete`](anabranch_proto::event::StreamComplete); without one the outcome is that of its last
    /// `REPLY_END`, and without that the child has failed.
    pub fn stream<S>(self, events: S) -> ToolStream
    where
        S: Stream + Send + 'static,
        S::Item: Into<Arc<Event>>,
    {
        self.placed(|spawn| {
            let Newborn { birth, identity, prompt, .. } = spawn.born(None);
            let stamp = Arc::clone(&identity.shared.stamp);
            identity.control.inbox.deafen();
            let adopt = Adopt::new(Arc::clone(&birth.scope), identity.metadata);
            Box::pin(Child::new(birth, Foreign::new(events, adopt, stamp, prompt)))
        })
    }

    /// The child where it is to run.
    fn placed(self, child: impl FnOnce(Self) -> ToolStream) -> ToolStream {
        let (place, tasks) = (self.place, self.host.identity.control.own_tasks());
        let patience = self.host.identity.shared.patience.clone();
        let child = child(self);
        match place {
            Place::WithParent => child,
            Place::OwnTask => on_own_task(child, tasks, patience),
        }
    }
}
