//! The comparer, which puts the results of other nodes together.

use anabranch_runtime::{Agent, ModelRequest, SpawnArguments};

use super::{
    NodeResult, Results, Shared,
    speech::results,
    steps::{Step, agent, call, read},
};
use crate::{
    findings::Findings,
    layout::{comparison, joined},
    plan::Node,
    tools::{CompareArguments, Compared, JoinArguments, Joined, Side, compare, join_parts},
};

/// The agent for a spawn of `n3`: it joins the parts of a node that has several, then compares two nodes.
pub(super) fn comparer(shared: &Shared, arguments: &SpawnArguments) -> Agent {
    const SYSTEM: &str =
        "You put the results of other agents together with your tools and report what they gave you.";
    let fault = shared.fault(Node::N3);
    agent("comparer", SYSTEM, shared.plan.thinks(), arguments.context.as_deref(), put_together)
        .tool(join_parts(fault))
        .tool(compare(fault))
        .build()
}

fn put_together(told: &Results, request: &ModelRequest) -> Result<Step, String> {
    let answers = results(request)?;
    let nodes = by_node(&told.0)?;
    let with_parts: Vec<_> = nodes.iter().filter(|(_, parts)| parts.len() > 1).collect();
    if let Some((node, parts)) = with_parts.get(answers.len()) {
        let parts: Vec<_> = parts.iter().map(|part| part.columns.clone()).collect();
        return call("join_parts", &JoinArguments { node: node.clone(), parts });
    }
    let (joins, compared) = answers.split_at(with_parts.len());
    let joins: Vec<Joined> = joins.iter().map(|answer| read(answer)).collect::<Result<_, _>>()?;
    match (nodes.as_slice(), compared) {
        ([left, right], []) => {
            let side = |(node, parts): &(String, Vec<Findings>)| {
                let joined =
                    joins.iter().find(|joined| joined.node == *node).map(|joined| joined.columns.clone());
                let only = || parts.first().map(|part| part.columns.clone()).unwrap_or_default();
                Side { node: node.clone(), columns: joined.unwrap_or_else(only) }
            };
            call("compare", &CompareArguments { left: side(left), right: side(right) })
        }
        (_, compared) => {
            let mut text: Vec<String> = joins.iter().map(joined).collect();
            if let [compared, ..] = compared {
                text.push(comparison(&read::<Compared>(compared)?));
            }
            Ok(Step::Done(text.join("\n")))
        }
    }
}

/// The results of each node, in the order in which the nodes come.
fn by_node(told: &[NodeResult]) -> Result<Vec<(String, Vec<Findings>)>, String> {
    let mut nodes: Vec<(String, Vec<Findings>)> = Vec::new();
    for NodeResult { node, text } in told {
        let findings = Findings::parse(text).ok_or_else(|| format!("the result of {node} cannot be read"))?;
        match nodes.iter_mut().find(|(known, _)| known == node) {
            Some((_, parts)) => parts.push(findings),
            None => nodes.push((node.clone(), vec![findings])),
        }
    }
    Ok(nodes)
}
