//! Children that run elsewhere: in another process, on another machine.
//!
//! A child's place in the session stays here: its announcement, its slot, its deadline, what is asked and answered, its end.
//! What its agent says comes as a stream of numbered events from a [`Runner`], which gives the [`Order`] to the other side.
//! Nothing of what comes is trusted: it is put in order by its numbers ([`Sequence`](sequence::Sequence)), held to the rules
//! of a stream, and moved into the child's place in the tree ([`Border`](border::Border)). On the other side an [`OrderRun`]
//! is the child at work.

mod border;
mod order;
mod policy;
mod questions;
mod runner;
mod sequence;
mod serve;
mod work;

pub(crate) use border::Claimed;
pub use order::{Order, OrderLimits};
pub use policy::Policy;
pub use runner::{Heard, Instruction, Instructions, Runner, RunnerStream};
pub use serve::{OrderHandle, OrderRun};
pub(crate) use work::Remote;

use std::{fmt, sync::Arc};

use crate::Agent;

/// What runs in a child.
#[derive(Clone, Debug)]
pub(crate) enum Template {
    /// An agent, here.
    Agent(Agent),
    Elsewhere(Elsewhere),
}

impl Template {
    /// The agent, where it is here.
    pub(crate) fn agent(&self) -> Option<&Agent> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Elsewhere(_) => None,
        }
    }
}

/// An agent that is somewhere else.
#[derive(Clone)]
pub(crate) struct Elsewhere {
    pub(crate) runner: Arc<dyn Runner>,
    /// The agent, as the other side knows it.
    pub(crate) agent: Arc<str>,
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere").field("agent", &self.agent).finish_non_exhaustive()
    }
}
