//! A child that is about to begin.

use std::{sync::Arc, time::Duration};

use anabranch_pipeline::{ToolContext, ToolStream, ToolYield};
use anabranch_proto::{
    ChildScope, Event, Message, Metadata, Scope, SessionId, SourceType, SpawnMechanism, SubagentId,
    ToolCallId, ToolChunk,
    event::{MessageOrigin, SpawnSessionStart},
};
use futures::{Stream, StreamExt, stream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    Team,
    adopt::Adopt,
    child::{Birth, Child},
    foreign::Foreign,
    parallel::on_own_task,
    team::TeamRun,
};
use crate::{
    Agent, Prompt, SpawnError,
    limits::Slot,
    run::{AgentRun, Fork, Host, Loan, Manner, Memory, RunControl, RunIdentity, RunResult},
    task::{Kind, NewTask, OnCancel},
};

/// How much of a prompt the announcement shows, in characters (RFC-0014).
const PROMPT_SHOWN: usize = 200;

/// The longest time that a child may be given: a year.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 86_400);

/// A child that has everything but its work.
struct Newborn {
    birth: Birth,
    identity: RunIdentity,
    source_name: Arc<str>,
    prompt: Prompt,
    history: Vec<Message>,
}

/// A child that is a task.
struct Made {
    number: usize,
    id: Arc<str>,
    announcement: Arc<Event>,
    scope: Arc<ChildScope>,
}

impl Newborn {
    /// The child, with an agent's run as its work.
    fn work(self, agent: &Agent) -> Child<AgentRun> {
        let Self { birth, identity, source_name, prompt, history } = self;
        Child::new(birth, AgentRun::new(agent.clone(), source_name, identity, history, prompt))
    }
}

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
    host: Arc<Host>,
    slot: Slot,
    /// The session that goes on with a further run, where it is one: with its sub-agent and the number of the run.
    session: Option<(SessionId, SubagentId, u32)>,
    tool_call_id: Option<ToolCallId>,
    source_name: Arc<str>,
    source_type: SourceType,
    mechanism: SpawnMechanism,
    description: Option<String>,
    prompt: Prompt,
    /// What the child starts from.
    history: Vec<Message>,
    keys: Metadata,
    timeout: Option<Duration>,
    keep: Keep,
    /// What the session has from its last run, until this one begins.
    loan: Option<Loan>,
    place: Place,
}

/// Whether a run can go on after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    /// Nothing of it is kept.
    Ephemeral,
    /// Its conversation is, for a further run.
    Kept,
}

/// Where a child runs that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
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
    /// As for [`new`](Self::new), and when nothing is kept of that session: it is unknown, it runs, it was stopped in
    /// mid-work, it was spawned without [`keep`](Self::keep), or others that ended later took its place.
    pub fn again(
        context: &ToolContext,
        session: &SessionId,
        prompt: impl Into<Prompt>,
    ) -> Result<(Self, Agent), SpawnError> {
        let host = context.host::<Host>().ok_or(SpawnError::NoSession)?;
        let memories = &host.identity.shared.memories;
        let (memory, loan) = memories.lend(session).ok_or_else(|| {
            SpawnError::Argument(format!("nothing is kept of the session `{session}`, so it cannot go on"))
        })?;
        let call = Some(context.call_id().clone());
        let mut spawn = Self::under(&host, call, Arc::clone(&memory.source_name), prompt.into())?;
        spawn.loan = Some(loan);
        let Memory { agent, subagent_id, messages, run, manner, .. } = memory;
        spawn.session = Some((session.clone(), subagent_id, run.saturating_add(1)));
        spawn.history = messages;
        spawn.description.clone_from(&manner.description);
        spawn.keys = manner.keys.clone();
        spawn.timeout = manner.timeout;
        spawn.keep = Keep::Kept;
        Ok((spawn, agent))
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
        if timeout.is_zero() || timeout > MAX_TIMEOUT {
            let text = format!(
                "a sub-agent's time-out must be more than nought and at most {} s, not {} s",
                MAX_TIMEOUT.as_secs(),
                timeout.as_secs_f64()
            );
            return Err(SpawnError::Argument(text));
        }
        self.timeout = Some(timeout);
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
        let (place, tasks) = (self.place, self.host.identity.control.own_tasks());
        let child: ToolStream = Box::pin(self.born(Some(agent)).work(agent));
        match place {
            Place::WithParent => child,
            Place::OwnTask => on_own_task(child, tasks),
        }
    }

    /// Runs a team as the child. Its members are children of that one, each one deeper.
    #[must_use = "nothing runs unless the stream is polled"]
    pub fn team(mut self, team: &Team) -> ToolStream {
        self.source_type = team.source_type();
        let (place, tasks) = (self.place, self.host.identity.control.own_tasks());
        let Newborn { birth, identity, prompt, .. } = self.born(None);
        let child: ToolStream = Box::pin(Child::new(birth, TeamRun::new(team.clone(), identity, prompt)));
        match place {
            Place::WithParent => child,
            Place::OwnTask => on_own_task(child, tasks),
        }
    }

    /// Runs an agent as a child that the call does not wait for: its result is that the child has begun.
    ///
    /// The child's events join the session's stream, and its result reaches the caller's model before one of its next
    /// calls, once. A background child of the root can outlive the reply, but not the session; one of a sub-agent is
    /// waited for when that has nothing else to do. Its conversation is kept, as by [`keep`](Self::keep).
    #[must_use = "nothing runs unless the stream is polled"]
    pub fn background(self, agent: &Agent, on_cancel: OnCancel) -> ToolStream {
        self.start(agent, on_cancel, None)
    }

    /// A further run of a background task's child, under the name of the task.
    pub(crate) fn further_task(self, agent: &Agent, task: usize) -> ToolStream {
        self.start(agent, OnCancel::default(), Some(task))
    }

    fn start(mut self, agent: &Agent, on_cancel: OnCancel, again: Option<usize>) -> ToolStream {
        self.mechanism = SpawnMechanism::AsyncWorker;
        self.keep = Keep::Kept;
        let keys = self.keys.clone();
        let Made { id, announcement, scope, .. } =
            self.make_task(agent, Kind::Background(on_cancel), again, None);
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
        agent: &Agent,
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
        let mut newborn = self.born_as(Arc::clone(&scope), control, Some(agent));
        newborn.birth.report = report;
        tasks.ready(number, Box::pin(newborn.work(agent)));
        Made { number, id, announcement, scope }
    }

    /// A child that code spawns: its task, its announcement, its session, and what it comes to.
    pub(crate) fn manual(
        mut self,
        agent: &Agent,
    ) -> (usize, Arc<Event>, SessionId, oneshot::Receiver<RunResult>) {
        self.mechanism = SpawnMechanism::Manual;
        let (report, result) = oneshot::channel();
        let Made { number, announcement, scope, .. } =
            self.make_task(agent, Kind::Manual, None, Some(report));
        (number, announcement, scope.child_session_id.clone(), result)
    }

    /// Runs a stream of events as the child (RFC-0014's `_stream_task`).
    ///
    /// Events in [`Scope::Root`] are the child's own: they get its scope and metadata. Events of children of the stream's
    /// own root become those of children of the child, as many levels deeper. The prompt is put before the first event
    /// unless the stream begins with one. The stream ends with its own
    /// [`StreamComplete`](anabranch_proto::event::StreamComplete); without one the outcome is that of its last
    /// `REPLY_END`, and without that the child has failed.
    pub fn stream<S>(self, events: S) -> ToolStream
    where
        S: Stream + Send + 'static,
        S::Item: Into<Arc<Event>>,
    {
        let Newborn { birth, identity, prompt, .. } = self.born(None);
        let stamp = Arc::clone(&identity.shared.stamp);
        identity.control.inbox.deafen();
        let run =
            Foreign::new(events, Adopt::new(Arc::clone(&birth.scope), identity.metadata), stamp, prompt);
        Box::pin(Child::new(birth, run))
    }

    /// The child with its ids, and its announcement made.
    fn born(self, agent: Option<&Agent>) -> Newborn {
        let scope = self.scope();
        let control = self.host.identity.control.child(scope.child_session_id.clone());
        let announcement = self.announcement(&scope, None);
        let mut newborn = self.born_as(scope, control, agent);
        newborn.birth.announcement = Some(announcement);
        newborn
    }

    /// The child with these ids; its announcement is somebody else's.
    fn born_as(self, scope: Arc<ChildScope>, control: Arc<RunControl>, agent: Option<&Agent>) -> Newborn {
        let shared = Arc::clone(&self.host.identity.shared);
        let agent = agent.map(Agent::inner);
        let metadata = self.child_metadata(&scope, agent.map(|agent| &agent.metadata));
        let own = agent.and_then(|agent| agent.permissions.as_ref());
        let permissions = self.host.identity.permissions.iter().chain(own).cloned().collect();
        let open = shared.runs.open(&control);
        let identity = RunIdentity {
            session_id: scope.child_session_id.clone(),
            scope: Scope::Child(Arc::clone(&scope)),
            metadata,
            control: Arc::clone(&control),
            permissions,
            kept: (self.keep == Keep::Kept).then(|| Arc::new(self.manner())),
            shared,
        };
        let Self { keys, slot, timeout, loan, .. } = self;
        if let Some(loan) = loan {
            loan.spend();
        }
        let birth = Birth { announcement: None, scope, keys, slot, timeout, control, open, report: None };
        let prompt = self.prompt.origin(MessageOrigin::Parent);
        Newborn { birth, identity, source_name: self.source_name, prompt, history: self.history }
    }

    fn manner(&self) -> Manner {
        Manner { description: self.description.clone(), keys: self.keys.clone(), timeout: self.timeout }
    }

    fn scope(&self) -> Arc<ChildScope> {
        let RunIdentity { session_id, shared, .. } = &self.host.identity;
        let (child_session_id, subagent_id, run) = self.session.clone().unwrap_or_else(|| {
            let (child_session_id, subagent_id) = shared.stamp.session_ids();
            (child_session_id, subagent_id, 1)
        });
        let scope = ChildScope::new(child_session_id, session_id, subagent_id, Arc::clone(&self.source_name))
            .run(run)
            .tool_call_id(self.tool_call_id.clone())
            .source_type(self.source_type)
            .depth(self.host.child_depth());
        Arc::new(scope)
    }

    /// What it will do, for people (RFC-0014).
    fn described(&self, task: Option<&str>) -> String {
        let default = || match task {
            Some(task) => format!("Run {} task (async: {task})", self.source_name),
            None => format!("Run {} task", self.source_name),
        };
        self.description.clone().unwrap_or_else(default)
    }

    /// The event that announces the child, in the caller's scope.
    fn announcement(&self, scope: &ChildScope, task: Option<&str>) -> Arc<Event> {
        let identity = &self.host.identity;
        let mut metadata = Metadata::default().with("prompt", shown(&self.prompt.text()));
        if let Some(task) = task {
            metadata = metadata.with("task_id", task);
        }
        if let Some(message) = &self.host.user_message_id {
            metadata = metadata.with("user_message_id", message.as_str());
        }
        let metadata = metadata
            .with("max_depth", identity.shared.limits.max_depth)
            .merged(&identity.metadata)
            .merged(&self.keys);
        let spawn = SpawnSessionStart::new(scope, self.mechanism, self.described(task));
        Arc::new(Event::stamped(&*identity.shared.stamp, identity.scope.clone(), metadata, spawn))
    }

    /// What is on each of the child's events: whose it is, what it inherits, its agent's own keys above that, and the
    /// caller's above all.
    fn child_metadata(&self, scope: &ChildScope, agent: Option<&Metadata>) -> Metadata {
        let inherited = Metadata::default()
            .with("subagent_id", scope.subagent_id.as_str())
            .merged(&self.host.inherited());
        agent.map_or(inherited.clone(), |agent| inherited.merged(agent)).merged(&self.keys)
    }
}

/// The beginning of a prompt, with `...` where it was cut.
fn shown(prompt: &str) -> String {
    match prompt.char_indices().nth(PROMPT_SHOWN) {
        Some((end, _)) => format!("{}...", prompt.get(..end).unwrap_or_default()),
        None => prompt.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_cut_on_a_character_boundary_and_only_when_longer() {
        let exact = "ü".repeat(200);
        assert_eq!(shown(&exact), exact);
        assert_eq!(shown(&format!("{exact}x")), format!("{exact}..."));
        assert_eq!(shown(""), "");
    }
}
