//! Agents that do as they are told.

use std::sync::{Arc, Mutex};

use anabranch_pipeline::{FunctionTool, ToolDefinition};
use anabranch_proto::event::Custom;
use anabranch_runtime::{
    Agent, ExternalTool, ModelRequest, Permissions, ScriptedModel, SpawnArguments, SpawnSubagent, Turn,
};
use anabranch_server::{Server, SessionLogs, Sessions, Unusable};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use crate::client::limits;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    count: u32,
}

/// What tests see of the agents, and hold.
#[derive(Clone)]
pub(crate) struct Seen {
    /// A call of `wait` began.
    pub(crate) began: Arc<Notify>,
    /// A call of `wait` may end.
    pub(crate) go_on: Arc<Notify>,
    /// How often `write_file` ran.
    pub(crate) written: Arc<Mutex<u32>>,
    /// How many events calls of `emit` may still emit.
    pub(crate) may_emit: Arc<Semaphore>,
}

impl Seen {
    pub(crate) fn new() -> Self {
        let may_emit = Arc::new(Semaphore::new(0));
        Self { began: Arc::default(), go_on: Arc::default(), written: Arc::default(), may_emit }
    }

    /// A server of these agents.
    pub(crate) fn server(&self) -> Server {
        let for_runs = self.clone();
        Server::new(move |_| for_runs.master()).limits(limits()).sessions(self.sessions())
    }

    /// A server of these agents that keeps its sessions' events elsewhere.
    pub(crate) fn server_with(&self, logs: impl SessionLogs + 'static) -> Server {
        self.server().sessions(self.sessions().logs(logs))
    }

    fn sessions(&self) -> Sessions {
        let seen = self.clone();
        Sessions::new(move |new| match new.options.as_ref().map(anabranch_proto::Json::as_str) {
            None | Some("{}") => Ok(seen.master()),
            Some(options) => Err(Unusable::new(format!("there is no agent with {options}"))),
        })
    }

    /// Waits, writes where it may, or asks what the client sees.
    fn worker(&self) -> Agent {
        let seen = self.clone();
        let wait = FunctionTool::new("wait", "Waits.", move |_: Nothing, _| {
            let seen = seen.clone();
            async move {
                seen.began.notify_one();
                seen.go_on.notified().await;
                Ok::<_, String>("waited".to_owned())
            }
        });
        let written = Arc::clone(&self.written);
        let write = FunctionTool::new("write_file", "Writes.", move |_: Nothing, _| {
            *written.lock().unwrap() += 1;
            async { Ok::<_, String>("written".to_owned()) }
        });
        let model = ScriptedModel::from_fn("worker", |request| match (request.turn, &*said(request)) {
            (0, "wait") => Turn::new().call("wait", json!({})),
            (0, "look") => Turn::new().call("look", json!({})),
            (0, "write") => Turn::new().call("write_file", json!({})),
            (0, task) => Turn::new().text(format!("{task} is done.")),
            _ => Turn::new().text(format!("It was {}.", request.last_result_text())),
        });
        let look = ToolDefinition::typed::<Nothing>("look", "Looks at the client's screen.");
        Agent::builder("worker", model)
            .tool(wait)
            .tool(write)
            .tool(ExternalTool::new(look))
            .permissions(Permissions::new().ask("write_file"))
            .build()
    }

    /// Gives each word of a prompt to a worker of its own; of `emit 7` it emits seven events, as it may.
    fn master(&self) -> Agent {
        let may_emit = Arc::clone(&self.may_emit);
        let emit = FunctionTool::new("emit", "Emits events.", move |Count { count }, context| {
            let may_emit = Arc::clone(&may_emit);
            async move {
                for number in 0..count {
                    may_emit.acquire().await.map_err(|error| error.to_string())?.forget();
                    let event = context.event(Custom::new("number", json!({ "number": number })));
                    context.emit(event).await.map_err(|error| error.to_string())?;
                }
                Ok::<_, String>("emitted".to_owned())
            }
        });
        let model = ScriptedModel::from_fn("master", |request| {
            if request.turn > 0 {
                return Turn::new().text("All are done.");
            }
            let said = said(request);
            if let Some(text) = said.strip_prefix("say ") {
                return Turn::new().text(text);
            }
            match said.strip_prefix("emit ").map(str::parse::<u32>) {
                Some(Ok(count)) => Turn::new().call("emit", json!({ "count": count })),
                Some(Err(_)) | None => said
                    .split(' ')
                    .fold(Turn::new(), |turn, word| turn.call("spawn_subagent", json!({ "task": word }))),
            }
        });
        let spawn = SpawnSubagent::new(self.worker())
            .named_by(|arguments: &SpawnArguments| Some(arguments.task.clone()));
        Agent::builder("master", model).tool(spawn).tool(emit).build()
    }
}

/// What was said last.
fn said(request: &ModelRequest) -> String {
    request.messages.last().map(anabranch_proto::Message::text).unwrap_or_default()
}
