//! The demo's agents. Their models are scripts, which decide by the turn and by what the tools really answered.

mod comparer;
mod master;
mod speech;
mod steps;
mod worker;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    plan::{Node, Plan},
    tools::{Fault, Selection},
    workspace::Workspace,
};

pub(crate) use master::{master, node_agent};

/// The name of the demo's graph, which is its events' `graph_id`.
pub(crate) const GRAPH: &str = "comparison";

/// What the agents of one run share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Arc<Plan>,
    pub(crate) workspace: Workspace,
}

impl Shared {
    fn fault(&self, node: Node) -> Fault {
        if self.plan.fails(node) { Fault::of(node) } else { Fault::default() }
    }
}

/// What the master tells a worker beside its task: the context of the spawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Assignment {
    node: String,
    file: String,
    rows: Selection,
    /// The name of the file to write the result to.
    result: String,
}

/// What the master tells the comparer beside its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Results(Vec<NodeResult>);

/// A sub-agent's result, as the master passes it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NodeResult {
    node: String,
    text: String,
}
