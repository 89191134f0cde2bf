//! A layer that bounds how long tools take.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anabranch_pipeline::{ActingLayer, ActingStream, Next, ToolCall, ToolContext};

use crate::InvalidTimeout;

/// The longest time that a call may be given: a year. More is a mistake, and overflows clocks.
const MAX: Duration = Duration::from_secs(365 * 86_400);

/// A layer that bounds how long calls take: a call that takes longer is stopped and fails, keeping what it gave.
///
/// The time runs from the call. What a person is asked before the call runs takes none of it; what a tool or a sub-agent
/// asks within does, so give tools that spawn sub-agents more time than these have, or [none to keep](Self::except).
///
/// ```
/// use std::time::Duration;
///
/// use anabranch_runtime::{Agent, ScriptedModel, ToolTimeout};
///
/// # fn main() -> Result<(), anabranch_runtime::InvalidTimeout> {
/// let timeout = ToolTimeout::new(Duration::from_secs(30))?
///     .tool("browse", Duration::from_secs(120))?
///     .except("spawn_subagent");
/// let agent = Agent::builder("agent", ScriptedModel::new("scripted")).layer(timeout).build();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ToolTimeout {
    all: Duration,
    /// None for those that have no bound.
    by_name: HashMap<String, Option<Duration>>,
}

impl ToolTimeout {
    /// No call takes longer than this.
    ///
    /// # Errors
    /// When the time is nought or more than a year.
    pub fn new(all: Duration) -> Result<Self, InvalidTimeout> {
        Ok(Self { all: checked(all)?, by_name: HashMap::new() })
    }

    /// A tool has a time of its own.
    ///
    /// # Errors
    /// When the time is nought or more than a year.
    pub fn tool(mut self, name: impl Into<String>, time: Duration) -> Result<Self, InvalidTimeout> {
        self.by_name.insert(name.into(), Some(checked(time)?));
        Ok(self)
    }

    /// A tool may take as long as it does.
    #[must_use]
    pub fn except(mut self, name: impl Into<String>) -> Self {
        self.by_name.insert(name.into(), None);
        self
    }
}

/// A time that a run or a call can have.
pub(crate) fn checked(time: Duration) -> Result<Duration, InvalidTimeout> {
    if time.is_zero() || time > MAX { Err(InvalidTimeout { given: time, max: MAX }) } else { Ok(time) }
}

impl ActingLayer for ToolTimeout {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let time = self.by_name.get(&*call.name).copied().unwrap_or(Some(self.all));
        let name = Arc::clone(&call.name);
        let running = next.run(call, context);
        match time {
            Some(time) => running.until(async move {
                tokio::time::sleep(time).await;
                format!("`{name}` timed out after {} s", time.as_secs_f64())
            }),
            None => running,
        }
    }
}
