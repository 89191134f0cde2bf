//! Agents that do a little of everything: sub-agents that are waited for, in the background and of their own, tools, and
//! questions.

use std::time::Duration;

use anabranch_pipeline::{FunctionTool, Tool};
use anabranch_proto::{Message, Role};
use anabranch_runtime::{Agent, ModelRequest, Permissions, ScriptedModel, SpawnSubagent, Turn};
use serde_json::json;

/// What an answer of the master's says before the number of prompts that it knows of.
pub(crate) const KNOWS: &str = "Prompts so far: ";

/// How each prompt begins.
pub(crate) const PLEASE: &str = "Please";

/// How long a model thinks about a word.
const WORD: Duration = Duration::from_millis(2);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn look() -> impl Tool + 'static {
    FunctionTool::new("look", "Looks.", |_: Nothing, _| async {
        tokio::time::sleep(Duration::from_millis(3)).await;
        Ok::<_, String>("It is there.".to_owned())
    })
}

fn write() -> impl Tool + 'static {
    FunctionTool::new("write", "Writes.", |_: Nothing, _| async { Ok::<_, String>("Written.".to_owned()) })
}

/// Does each word of its task, then says what came of it.
fn worker(name: &'static str, below: Option<Agent>) -> Agent {
    let model = ScriptedModel::from_fn(name, |request| {
        if request.turn > 0 {
            return Turn::new().paced_text("That is what came of it, and nothing else did.", WORD);
        }
        words(&said(request)).fold(Turn::new().paced_text("I begin with it now.", WORD), turn)
    });
    let builder = Agent::builder(name, model).tool(look()).tool(write());
    let builder = builder.permissions(Permissions::new().ask("write"));
    match below {
        Some(below) => builder.tool(SpawnSubagent::new(below)).build(),
        None => builder.build(),
    }
}

/// Does each word of its prompt, all side by side, and says how many prompts it knows of.
pub(crate) fn master() -> Agent {
    let model = ScriptedModel::from_fn("master", |request| {
        if request.turn > 0 {
            return Turn::new().paced_text("All of that has been seen to by now.", WORD);
        }
        let is_prompt = |message: &&Message| message.role == Role::User && message.text().starts_with(PLEASE);
        let prompts = request.messages.iter().filter(is_prompt).count();
        let begin = Turn::new().thinking("Who does what?").text(format!("{KNOWS}{prompts}. I see to it."));
        words(&said(request)).fold(begin, turn)
    });
    Agent::builder("master", model)
        .tool(look())
        .tool(write())
        .tool(SpawnSubagent::new(worker("worker", Some(worker("helper", None)))))
        .permissions(Permissions::new().ask("write"))
        .build()
}

/// What a prompt may have among its words.
pub(crate) const WORDS: [&str; 6] = ["look", "write", "worker", "asker", "nested", "background"];

fn turn(turn: Turn, word: &str) -> Turn {
    let spawn = |task: &str| json!({ "task": task });
    match word {
        "look" => turn.call("look", json!({})),
        "write" => turn.call("write", json!({})),
        "worker" => turn.call("spawn_subagent", spawn("look look")),
        "asker" => turn.call("spawn_subagent", spawn("write look")),
        "nested" => turn.call("spawn_subagent", spawn("worker look")),
        "background" => turn.call("spawn_subagent", json!({ "task": "look write look", "background": true })),
        _ => turn,
    }
}

fn words(said: &str) -> impl Iterator<Item = &str> {
    said.split_whitespace()
}

/// What was said last by whoever asks. A hint may have come behind it.
fn said(request: &ModelRequest) -> String {
    let mut asked = request.messages.iter().rev().filter(|message| message.role == Role::User);
    asked.next().map(Message::text).unwrap_or_default()
}
