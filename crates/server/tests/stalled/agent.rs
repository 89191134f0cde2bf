//! The agent: a master with a sub-agent that talks.

use std::{process::ExitCode, time::Duration};

use anabranch_pipeline::{FunctionTool, ToolCall};
use anabranch_runtime::{
    Agent, Limits, Model, ModelItem, ModelRequest, ModelStream, ScriptedModel, SpawnSubagent, Turn,
};
use anabranch_server::acp::AcpServer;
use futures::{StreamExt as _, stream};
use serde_json::json;

/// The argument that makes this program the agent; how many pieces it says comes behind it, and for how many milliseconds it
/// waits for who reads.
pub(crate) const SERVE: &str = "--serve";

/// How often it tells on stderr how many pieces it has said.
pub(crate) const TOLD: usize = 1_000;

/// What the sub-agent says at last, and the master.
pub(crate) const LAST: &str = "That is all.";
pub(crate) const ANSWER: &str = "Done.";

/// How the agent is to be, where this program is to be it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) pieces: usize,
    pub(crate) stall: u64,
}

impl Told {
    pub(crate) fn from(arguments: &[String]) -> Option<Self> {
        match arguments {
            [serve, pieces, stall] if serve == SERVE => {
                Some(Self { pieces: pieces.parse().ok()?, stall: stall.parse().ok()? })
            }
            _ => None,
        }
    }
}

#[tokio::main]
pub(crate) async fn serve(told: Told) -> ExitCode {
    match AcpServer::new(move |_| master(told)).serve_stdio().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn master(told: Told) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "Talk." })))
        .turn(|_| Turn::new().text(ANSWER));
    let note = FunctionTool::new("note", "Notes.", |_: NoArguments, _| async { Ok::<_, String>("noted") });
    let worker = Agent::builder("worker", Talkative(told.pieces)).tool(note).build();
    let limits = Limits::default().stall(Duration::from_millis(told.stall));
    Agent::builder("master", model).tool(SpawnSubagent::new(worker)).limits(limits).build()
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
