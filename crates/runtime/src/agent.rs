//! Agents.

use std::{fmt, sync::Arc};

use anabranch_pipeline::{Acting, ActingLayer, Tool, ToolDefinition, Toolkit};
use anabranch_proto::Metadata;

use crate::{
    CheckTask, Limits, ListTasks, MessageTask, Model, Permissions, Prompt, Reply, Session, SessionBuilder,
    StopTask,
};

/// A model with a system prompt, tools and limits. Cloning shares it; it holds no conversation.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) name: Arc<str>,
    pub(crate) system_prompt: Arc<str>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) model_name: Arc<str>,
    pub(crate) acting: Acting,
    pub(crate) tools: Arc<[ToolDefinition]>,
    pub(crate) limits: Limits,
    pub(crate) metadata: Metadata,
    pub(crate) permissions: Option<Permissions>,
}

impl Agent {
    /// Begins an agent with a name and a model.
    pub fn builder(name: impl Into<Arc<str>>, model: impl Model + 'static) -> AgentBuilder {
        AgentBuilder {
            name: name.into(),
            system_prompt: Arc::from(""),
            model: Arc::new(model),
            toolkit: Toolkit::new(),
            layers: Vec::new(),
            limits: Limits::default(),
            metadata: Metadata::default(),
            permissions: None,
        }
    }

    /// The agent's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Starts a conversation: a task that ends with [`Session::close`] or when the session's last handle is dropped and
    /// its prompts are answered.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn session(&self) -> Session {
        self.session_builder().start_anew()
    }

    /// Starts a conversation with its own log, id or stamp.
    pub fn session_builder(&self) -> SessionBuilder {
        SessionBuilder::new(self.clone())
    }

    /// Asks once, in a session of its own. Dropping the reply cancels it and ends the session.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn reply_stream(&self, prompt: impl Into<Prompt>) -> Reply {
        self.session().into_reply(prompt.into())
    }

    pub(crate) fn of(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.0.name)
            .field("model", &self.0.model_name)
            .field("tools", self.0.acting.toolkit())
            .finish_non_exhaustive()
    }
}

/// Builds an [`Agent`].
#[must_use]
pub struct AgentBuilder {
    name: Arc<str>,
    system_prompt: Arc<str>,
    model: Arc<dyn Model>,
    toolkit: Toolkit,
    layers: Vec<Arc<dyn ActingLayer>>,
    limits: Limits,
    metadata: Metadata,
    permissions: Option<Permissions>,
}

impl AgentBuilder {
    /// What the model is told first. Empty by default.
    pub fn system_prompt(mut self, system_prompt: impl Into<Arc<str>>) -> Self {
        self.system_prompt = system_prompt.into();
        self
    }

    /// With a tool; it takes the place of one with the same name.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.toolkit = self.toolkit.with(tool);
        self
    }

    /// With a tool that others share; it takes the place of one with the same name.
    pub fn shared_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.toolkit = self.toolkit.with_shared(tool);
        self
    }

    /// With the tools by which a model deals with its background tasks: `check_task`, `stop_task`, `list_tasks` and
    /// `message_task`.
    pub fn task_tools(self) -> Self {
        self.tool(CheckTask::new()).tool(StopTask::new()).tool(ListTasks::new()).tool(MessageTask::new())
    }

    /// With a layer around all tool calls, within those that were added before.
    pub fn layer(mut self, layer: impl ActingLayer + 'static) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// The limits of sessions with this agent as root. Those of a sub-agent's own template do not count, but for
    /// `max_iterations`, `tool_output`, `model_output` and `model_call`, which are each template's own.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What the agent's tools, and those of all its descendants, may do without asking. All by default.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// Metadata for every event of the agent and of its descendants. A prompt's stands above it; reserved keys are left
    /// out.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata.without_reserved();
        self
    }

    /// The agent.
    #[must_use]
    pub fn build(self) -> Agent {
        let tools = self.toolkit.definitions().into();
        let acting = Acting::new(self.toolkit).layers(self.layers).output_limit(self.limits.tool_output);
        Agent(Arc::new(Inner {
            name: self.name,
            system_prompt: self.system_prompt,
            model_name: Arc::from(self.model.name()),
            model: self.model,
            acting,
            tools,
            limits: self.limits,
            metadata: self.metadata,
            permissions: self.permissions,
        }))
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("name", &self.name)
            .field("toolkit", &self.toolkit)
            .finish_non_exhaustive()
    }
}
