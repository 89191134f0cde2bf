//! What the demo's agents do.

use anabranch_demo::{Node, Pace, Plan, TOOLS};
use anabranch_proto::Json;
use clap::{ValueEnum as _, builder::PossibleValuesParser};
use serde::Deserialize;

use crate::Unusable;

/// What the demo's agents do.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Demo {
    /// Let the scripted models answer at once, instead of at a pace to watch
    #[arg(long)]
    quick: bool,

    /// Let the demo's n1 spawn a sub-agent of its own
    #[arg(long)]
    nested: bool,

    /// Ask before this tool of the demo's runs, such as `write_result`; may be given again
    #[arg(long, value_name = "TOOL", value_parser = PossibleValuesParser::new(TOOLS))]
    ask: Vec<String>,

    /// Make the first tool of this node of the demo's fail; may be given again
    #[arg(long, value_name = "NODE", value_enum)]
    fail: Vec<Node>,
}

/// What a client wants of the demo's agents, beside what the command line says.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    quick: bool,
    nested: bool,
    ask: Vec<String>,
    fail: Vec<String>,
}

impl Demo {
    /// The plan of each session, which has no folder for results yet.
    pub(super) fn plan(&self) -> Plan {
        let pace = if self.quick { Pace::default() } else { Pace::watchable() };
        let plan = self.ask.iter().fold(Plan::new().pace(pace), Plan::ask);
        let plan = self.fail.iter().fold(plan, |plan, node| plan.fail(*node));
        if self.nested { plan.nested() } else { plan }
    }

    /// The plan of a session whose client wants something else.
    pub(super) fn plan_with(&self, options: Option<&Json>) -> Result<Plan, Unusable> {
        let Some(options) = options else { return Ok(self.plan()) };
        let wanted: Wanted = serde_json::from_str(options.as_str()).map_err(|error| {
            Unusable::new(format!(
                "the demo's agents know the options `quick`, `nested`, `ask` and `fail`: {error}"
            ))
        })?;
        let mut demo = self.clone();
        demo.quick |= wanted.quick;
        demo.nested |= wanted.nested;
        if let Some(unknown) = wanted.ask.iter().find(|tool| !TOOLS.contains(&tool.as_str())) {
            return Err(Unusable::new(format!(
                "`ask` names `{unknown}`, and the demo's tools are {}",
                TOOLS.join(", ")
            )));
        }
        demo.ask.extend(wanted.ask);
        for node in wanted.fail {
            demo.fail.push(Node::from_str(&node, false).map_err(|_| {
                Unusable::new("`fail` is to be a list of the demo's nodes: `n1`, `n2`, `n3`")
            })?);
        }
        Ok(demo.plan())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_wants_is_read_strictly() {
        let demo = Demo { quick: true, nested: false, ask: Vec::new(), fail: Vec::new() };
        for options in
            ["{}", r#"{"ask":["write_result"],"nested":true}"#, r#"{"fail":["n1","n2"],"quick":false}"#]
        {
            assert!(demo.plan_with(Some(&Json::parse(options).unwrap())).is_ok(), "{options}");
        }
        for options in [r#"{"asks":[]}"#, r#"{"ask":7}"#, r#"{"ask":["rm"]}"#, r#"{"fail":["n9"]}"#] {
            assert!(demo.plan_with(Some(&Json::parse(options).unwrap())).is_err(), "{options}");
        }
    }
}
