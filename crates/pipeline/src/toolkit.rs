//! The tools of one agent.

use std::{fmt, sync::Arc};

use crate::{Tool, ToolDefinition};

/// The tools of one agent, in the order in which the model is told of them.
#[derive(Clone, Default)]
pub struct Toolkit {
    tools: Vec<Arc<dyn Tool>>,
}

impl Toolkit {
    /// No tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a tool; it takes the place of one with the same name.
    #[must_use]
    pub fn with(self, tool: impl Tool + 'static) -> Self {
        self.with_shared(Arc::new(tool))
    }

    /// With a tool that others share; it takes the place of one with the same name.
    #[must_use]
    pub fn with_shared(mut self, tool: Arc<dyn Tool>) -> Self {
        match self.tools.iter_mut().find(|known| known.definition().name == tool.definition().name) {
            Some(known) => *known = tool,
            None => self.tools.push(tool),
        }
        self
    }

    /// Without the tool of that name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.tools.retain(|tool| &*tool.definition().name != name);
        self
    }

    /// The tool of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| &*tool.definition().name == name)
    }

    /// What the model is told, in order.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| &*tool.definition().name)
    }
}

impl fmt::Debug for Toolkit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
