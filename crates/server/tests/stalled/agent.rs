//! The agent: a master with a sub-agent that talks.

use std::process::ExitCode;

use anabranch_pipeline::{FunctionTool, ToolCall};
use anabranch_runtime::{
    Agent, Model, ModelItem, ModelRequest, ModelStream, ScriptedModel, SpawnSubagent, Turn,
};
use anabranch_server::acp::AcpServer;
use futures::{StreamExt as _, stream};
use serde_json::json;

/// The argument that makes this program the agent; how many pieces it says comes behind it.
pub(crate) const SERVE: &str = "--serve";

/// How often it tells on stderr how many pieces it has said.
pub(crate) const TOLD: usize = 1_000;

/// What the sub-agent says at last, and the master.
pub(crate) const LAST: &str = "That is all.";
pub(crate) const ANSWER: &str = "Done.";

/// How many pieces the agent is to say, where this program is to be it.
pub(crate) fn pieces(arguments: &[String]) -> Option<usize> {
    match arguments {
        [serve, pieces] if serve == SERVE => pieces.parse().ok(),
        _ => None,
    }
}

#[tokio::main]
pub(crate) async fn serve(pieces: usize) -> ExitCode {
    match AcpServer::new(move |_| master(pieces)).serve_stdio().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn master(pieces: usize) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "Talk." })))
        .turn(|_| Turn::new().text(ANSWER));
    let note = FunctionTool::new("note", "Notes.", |_: NoArguments, _| async { Ok::<_, String>("noted") });
    let worker = Agent::builder("worker", Talkative(pieces)).tool(note).build();
    Agent::builder("master", model).tool(SpawnSubagent::new(worker)).build()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArguments {}

/// Says so many pieces, calls a tool, and says one more: so its result is short.
struct Talkative(usize);

impl Model for Talkative {
    fn name(&self) -> &'static str {
        "talkative"
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        if request.turn > 0 {
            return stream::iter([Ok(ModelItem::Text(LAST.to_owned()))]).boxed();
        }
        let pieces = (0..self.0).map(|count| {
            if count % TOLD == 0 {
                eprintln!("{count}");
            }
            Ok(ModelItem::Text(piece(count)))
        });
        let call = ModelItem::ToolCall(ToolCall::new("note", "note", "{}"));
        stream::iter(pieces.chain([Ok(call)])).boxed()
    }
}

fn piece(count: usize) -> String {
    format!("w{count} ")
}

/// What the first so many pieces say.
pub(crate) fn text(pieces: usize) -> String {
    (0..pieces).map(piece).collect()
}
