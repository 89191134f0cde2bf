//! The master, which hands out the work and reports.

use anabranch_proto::{ContentBlock, ToolCallBlock, ToolResultState};
use anabranch_runtime::{Agent, ModelRequest, ScriptedModel, SpawnArguments, SpawnSubagent, Turn};
use serde_json::json;

use super::{
    Assignment, GRAPH, NodeResult, Results, Shared,
    comparer::comparer,
    speech::{say, turn},
    worker::worker,
};
use crate::{
    plan::{Node, Plan},
    report::{Report, Spawned},
    result_files,
};

/// The agent that spawns `n1` and `n2` in one turn, then `n3`, and reports what came back.
pub(crate) fn master(shared: Shared) -> Agent {
    const SYSTEM: &str = "You let sub-agents analyse files side by side, let one more compare, and report.";
    let plan = shared.plan.clone();
    let pace = plan.thinks();
    // Those of all below it too.
    let permissions = plan.permissions();
    let model = ScriptedModel::from_fn("scripted-master", move |request| {
        let spawned = spawned(request);
        if spawned.is_empty() {
            return analyses(&plan, turn(pace));
        }
        let compared = spawned.iter().any(|spawned| spawned.node == Node::N3);
        match comparison(&spawned) {
            Some(context) if !compared => {
                spawn(turn(pace), Node::N3, "Compare the results of n1 and n2.", &context)
            }
            Some(_) | None => say(turn(pace), pace, &Report::new(&spawned).to_string()),
        }
    });
    let spawn = match shared.plan.runner() {
        Some(runner) => SpawnSubagent::on(runner, NODE),
        None => SpawnSubagent::choosing(move |arguments| node_agent(&shared, arguments)),
    };
    let spawn = spawn.named_by(|arguments| arguments.metadata_str("node_id")).described_by(task);
    Agent::builder("master", model).system_prompt(SYSTEM).tool(spawn).permissions(permissions).build()
}

/// What the agents of the graph's nodes are called where they are elsewhere.
const NODE: &str = "node";

/// The agent of the node that a spawn is for.
pub(crate) fn node_agent(shared: &Shared, arguments: &SpawnArguments) -> Agent {
    match node(arguments) {
        Some(Node::N3) => comparer(shared, arguments),
        Some(Node::N2) => worker(shared, Node::N2, arguments),
        Some(Node::N1) | None => worker(shared, Node::N1, arguments),
    }
}

/// What a sub-agent will do, as its task says it.
pub(super) fn task(arguments: &SpawnArguments) -> String {
    arguments.task.trim_end_matches('.').to_owned()
}

fn node(arguments: &SpawnArguments) -> Option<Node> {
    Node::from_id(&arguments.metadata_str("node_id")?)
}

/// The first turn: a call for each part of the work, so that all of them run side by side.
fn analyses(plan: &Plan, turn: Turn) -> Turn {
    let files = Node::ANALYSES.map(|node| plan.file(node)).join(" and ");
    let turn = say(turn, plan.thinks(), &format!("I compare {files}. The sub-agents work side by side.\n"));
    Node::ANALYSES.into_iter().fold(turn, |turn, node| {
        plan.parts(node).iter().fold(turn, |turn, rows| {
            let file = plan.file(node);
            let task = format!("Analyse {file}, {rows}.");
            let result = result_files::name(node, &file, *rows);
            let assignment = Assignment { node: node.to_string(), file, rows: *rows, result };
            spawn(turn, node, &task, &json!(assignment).to_string())
        })
    })
}

fn spawn(turn: Turn, node: Node, task: &str, context: &str) -> Turn {
    let metadata = json!({ "node_id": node.as_str(), "graph_id": GRAPH });
    turn.call("spawn_subagent", json!({ "task": task, "metadata": metadata, "context": context }))
}

/// What the master's calls came to, in call order.
fn spawned(request: &ModelRequest) -> Vec<Spawned> {
    let blocks = request.messages.last().into_iter().flat_map(|message| &message.content);
    let calls =
        blocks.filter_map(|block| if let ContentBlock::ToolCall(call) = block { Some(call) } else { None });
    let spawned = calls.zip(request.results()).filter_map(|(call, result): (&ToolCallBlock, _)| {
        let arguments: SpawnArguments = serde_json::from_str(&call.input).ok()?;
        let text = result.output.text();
        let node = node(&arguments)?;
        let result = if result.state == ToolResultState::Success { Ok(text) } else { Err(text) };
        Some(Spawned { node, task: arguments.task, result })
    });
    spawned.collect()
}

/// The context for `n3`: the results of the nodes that are complete, where there is something to put together.
fn comparison(spawned: &[Spawned]) -> Option<String> {
    let complete = |node: &Node| {
        let mut of_node = spawned.iter().filter(|spawned| spawned.node == *node).peekable();
        of_node.peek().is_some() && of_node.all(|spawned| spawned.result.is_ok())
    };
    let nodes: Vec<Node> = Node::ANALYSES.into_iter().filter(complete).collect();
    let results: Vec<NodeResult> = spawned
        .iter()
        .filter(|spawned| nodes.contains(&spawned.node))
        .filter_map(|spawned| {
            let text = spawned.result.as_ref().ok()?;
            Some(NodeResult { node: spawned.node.to_string(), text: text.clone() })
        })
        .collect();
    // Alone, a node whose result is in one part leaves nothing to do.
    (results.len() > 1).then(|| json!(Results(results)).to_string())
}
