//! A child that is about to begin.

use std::{sync::Arc, time::Duration};

use anabranch_pipeline::{ToolContext, ToolStream};
use anabranch_proto::{
    ChildScope, Event, Metadata, Scope, SourceType, SpawnMechanism, ToolCallId,
    event::{MessageOrigin, SpawnSessionStart},
};
use futures::Stream;

use super::{
    adopt::Adopt,
    child::{Birth, Child},
    foreign::Foreign,
};
use crate::{
    Agent, Prompt, SpawnError,
    limits::Slot,
    run::{AgentRun, Host, RunIdentity},
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
    tool_call_id: ToolCallId,
    source_name: Arc<str>,
    source_type: SourceType,
    mechanism: SpawnMechanism,
    description: Option<String>,
    prompt: Prompt,
    keys: Metadata,
    timeout: Option<Duration>,
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
        let slot = host.reserve()?;
        Ok(Self {
            host,
            slot,
            tool_call_id: context.call_id().clone(),
            source_name: source_name.into(),
            source_type: SourceType::Agent,
            mechanism: SpawnMechanism::Sync,
            description: None,
            prompt: prompt.into(),
            keys: Metadata::default(),
            timeout: None,
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

    /// What runs in the child's session.
    pub fn source_type(mut self, source_type: SourceType) -> Self {
        self.source_type = source_type;
        self
    }

    /// Runs an agent as the child: ephemeral, with nothing of the caller's conversation.
    #[must_use = "nothing runs unless the stream is polled"]
    pub fn run(self, agent: &Agent) -> ToolStream {
        let Newborn { birth, identity, source_name, prompt } = self.born(Some(agent));
        let run = AgentRun::new(agent.clone(), source_name, identity, Vec::new(), prompt);
        Box::pin(Child::new(birth, run))
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
        let run =
            Foreign::new(events, Adopt::new(Arc::clone(&birth.scope), identity.metadata), stamp, prompt);
        Box::pin(Child::new(birth, run))
    }

    /// The child with its ids, and its announcement made.
    fn born(self, agent: Option<&Agent>) -> Newborn {
        let shared = Arc::clone(&self.host.identity.shared);
        let scope = self.scope();
        let announcement = self.announcement(&scope);
        let agent = agent.map(Agent::inner);
        let metadata = self.child_metadata(&scope, agent.map(|agent| &agent.metadata));
        let own = agent.and_then(|agent| agent.permissions.as_ref());
        let permissions = self.host.identity.permissions.iter().chain(own).cloned().collect();
        let control = self.host.identity.control.child(scope.child_session_id.clone());
        let open = shared.runs.open(&control);
        let identity = RunIdentity {
            session_id: scope.child_session_id.clone(),
            scope: Scope::Child(Arc::clone(&scope)),
            metadata,
            control: Arc::clone(&control),
            permissions,
            shared,
        };
        let Self { keys, slot, timeout, .. } = self;
        let birth = Birth { announcement, scope, keys, slot, timeout, control, open };
        let prompt = self.prompt.origin(MessageOrigin::Parent);
        Newborn { birth, identity, source_name: self.source_name, prompt }
    }

    fn scope(&self) -> Arc<ChildScope> {
        let RunIdentity { session_id, shared, .. } = &self.host.identity;
        let (child_session_id, subagent_id) = shared.stamp.session_ids();
        let scope = ChildScope::new(child_session_id, session_id, subagent_id, Arc::clone(&self.source_name))
            .tool_call_id(Some(self.tool_call_id.clone()))
            .source_type(self.source_type)
            .depth(self.host.child_depth());
        Arc::new(scope)
    }

    /// The event that announces the child, in the caller's scope.
    fn announcement(&self, scope: &ChildScope) -> Arc<Event> {
        let identity = &self.host.identity;
        let description =
            self.description.clone().unwrap_or_else(|| format!("Run {} task", self.source_name));
        let metadata = Metadata::default()
            .with("prompt", shown(&self.prompt.text()))
            .with("user_message_id", self.host.user_message_id.as_str())
            .with("max_depth", identity.shared.limits.max_depth)
            .merged(&identity.metadata)
            .merged(&self.keys);
        let spawn = SpawnSessionStart::new(scope, self.mechanism, description);
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
