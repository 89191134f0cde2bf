//! Agents that do as they are told.

use std::sync::{Arc, Mutex};

use anabranch_pipeline::{FunctionTool, ToolDefinition};
use anabranch_proto::ContentBlock;
use anabranch_runtime::{
    Agent, ExternalTool, ModelRequest, Permissions, ScriptedModel, SpawnArguments, SpawnSubagent, Turn,
};
use anabranch_server::Server;
use serde_json::json;
use tokio::sync::{Notify, mpsc};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// More calls of `wait` than any test has: each says once that it is gone.
const CALLS: usize = 64;

/// What tests see of the agents, and hold.
#[derive(Clone)]
pub(crate) struct Seen {
    /// A call of `wait` began.
    pub(crate) began: Arc<Notify>,
    /// A call of `wait` may end.
    pub(crate) go_on: Arc<Notify>,
    /// A call of `wait` is gone.
    gone: mpsc::Sender<()>,
    /// How often `write_file` ran.
    pub(crate) written: Arc<Mutex<u32>>,
}

/// Says that its call is gone.
struct Gone(mpsc::Sender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.try_send(()).ok();
    }
}

impl Seen {
    pub(crate) fn new() -> (Self, mpsc::Receiver<()>) {
        let (gone, is_gone) = mpsc::channel(CALLS);
        let (began, go_on, written) = (Arc::default(), Arc::default(), Arc::default());
        (Self { began, go_on, gone, written }, is_gone)
    }

    fn worker(&self) -> Agent {
        let seen = self.clone();
        let wait = FunctionTool::new("wait", "Waits.", move |_: Nothing, _| {
            let seen = seen.clone();
            async move {
                let _gone = Gone(seen.gone.clone());
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
        Agent::builder("worker", model)
            .tool(wait)
            .tool(write)
            .tool(ExternalTool::new(ToolDefinition::typed::<Nothing>(
                "look",
                "Looks at the client's screen.",
            )))
            .permissions(Permissions::new().ask("write_file"))
            .build()
    }

    /// A server whose master gives each word of a prompt to a worker of its own.
    pub(crate) fn server(&self) -> Server {
        let seen = self.clone();
        Server::new(move |_| seen.master()).limits(super::client::limits())
    }

    fn master(&self) -> Agent {
        let model = ScriptedModel::from_fn("master", |request| match request.turn {
            0 => said(request)
                .split(' ')
                .fold(Turn::new(), |turn, word| turn.call("spawn_subagent", json!({ "task": word }))),
            _ if !hints(request).is_empty() => {
                Turn::new().text(format!("All are done. You said: {}", hints(request)))
            }
            _ => Turn::new().text("All are done."),
        });
        let spawn = SpawnSubagent::new(self.worker())
            .named_by(|arguments: &SpawnArguments| Some(arguments.task.clone()));
        Agent::builder("master", model).tool(spawn).build()
    }
}

/// What was said last.
fn said(request: &ModelRequest) -> String {
    request.messages.last().map(anabranch_proto::Message::text).unwrap_or_default()
}

/// What was said while the last reply was under way.
fn hints(request: &ModelRequest) -> String {
    let blocks = request.messages.last().into_iter().flat_map(|message| &message.content);
    let texts = blocks
        .filter_map(|block| if let ContentBlock::Hint(hint) = block { Some(hint.hint.text()) } else { None });
    texts.collect()
}
