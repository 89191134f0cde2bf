//! What the demo's agents do.

use anabranch_demo::{Node, Pace, Plan};

/// What the demo's agents do.
#[derive(Debug, clap::Args)]
pub(super) struct Demo {
    /// Let the scripted models answer at once, instead of at a pace to watch
    #[arg(long)]
    quick: bool,

    /// Let the demo's n1 spawn a sub-agent of its own
    #[arg(long)]
    nested: bool,

    /// Ask before this tool of the demo's runs, such as `write_result`; may be given again
    #[arg(long, value_name = "TOOL")]
    ask: Vec<String>,

    /// Make the first tool of this node of the demo's fail; may be given again
    #[arg(long, value_name = "NODE", value_enum)]
    fail: Vec<Node>,
}

impl Demo {
    /// The plan of each session, which has no folder for results yet.
    pub(super) fn plan(&self) -> Plan {
        let pace = if self.quick { Pace::default() } else { Pace::watchable() };
        let plan = self.ask.iter().fold(Plan::new().pace(pace), Plan::ask);
        let plan = self.fail.iter().fold(plan, |plan, node| plan.fail(*node));
        if self.nested { plan.nested() } else { plan }
    }
}
