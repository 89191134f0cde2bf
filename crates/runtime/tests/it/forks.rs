//! Sub-agents that start from their parent's conversation.

use std::sync::{Arc, Mutex};

use anabranch_proto::{ContentBlock, Message};
use anabranch_runtime::{Agent, Fork, ModelRequest, Permissions, ScriptedModel, SpawnSubagent, Turn};
use serde_json::json;

use crate::support::{echo, reply_events};

/// What the models of an agent's sub-agents were asked.
type Requests = Arc<Mutex<Vec<ModelRequest>>>;

/// A worker that notes what it is asked.
fn noting(requests: &Requests) -> Agent {
    let requests = Arc::clone(requests);
    let model = ScriptedModel::from_fn("scripted", move |request| {
        requests.lock().unwrap().push(request.clone());
        Turn::new().text("noted")
    });
    Agent::builder("worker", model).system_prompt("Work.").build()
}

/// A master that calls a tool, then forks, beside another call.
fn forking(requests: &Requests, fork: Fork) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().text("First I look.").call("echo", json!({ "text": "seen" })))
        .turn(|_| {
            let fork = json!({ "task": "Go on from here.", "fork": true });
            Turn::new()
                .text("Now I fork.")
                .call("spawn_subagent", fork)
                .call("echo", json!({ "text": "late" }))
        })
        .turn(|_| Turn::new().text("Done."));
    let spawn = SpawnSubagent::new(noting(requests)).forking(fork);
    Agent::builder("master", model).tool(spawn).tool(echo()).system_prompt("Lead.").build()
}

/// Messages in brief: texts, calls `?name` and results `=text`.
fn brief(messages: &[Message]) -> Vec<String> {
    let block = |block: &ContentBlock| {
        if let ContentBlock::ToolCall(call) = block {
            format!("?{}", call.name)
        } else if let ContentBlock::ToolResult(result) = block {
            format!("={}", result.output.text())
        } else {
            block.as_text().unwrap_or("other").to_owned()
        }
    };
    messages.iter().map(|message| message.content.iter().map(block).collect::<Vec<_>>().join(" ")).collect()
}

async fn forked(fork: Fork) -> (Vec<String>, ModelRequest) {
    let requests = Requests::default();
    let session = forking(&requests, fork).session();
    for prompt in ["One.", "Two."] {
        reply_events(session.prompt(prompt).await.unwrap()).await;
    }
    let request = requests.lock().unwrap().pop().unwrap();
    (brief(&request.messages), request)
}

const TURN: &str = "First I look. ?echo =seen Now I fork. ?spawn_subagent ?echo =noted =late Done.";

#[tokio::test]
async fn a_fork_starts_from_all_of_the_conversation_without_the_calls_that_are_open() {
    let (messages, request) = forked(Fork::Full).await;
    // Of the turn under way the text is there, and neither its own call nor the one beside it.
    assert_eq!(messages, ["One.", TURN, "Two.", "First I look. ?echo =seen Now I fork.", "Go on from here."]);
    assert_eq!(&*request.system, "Work.", "the system prompt is its own");
}

#[tokio::test]
async fn a_fork_can_start_from_the_last_turns_alone() {
    let (messages, _) = forked(Fork::LastTurns(1)).await;
    assert_eq!(messages, ["Two.", "First I look. ?echo =seen Now I fork.", "Go on from here."]);
    assert_eq!(forked(Fork::LastTurns(0)).await.0, ["Go on from here."]);
}

#[tokio::test]
async fn without_a_fork_a_child_has_its_task_alone_and_the_parents_conversation_is_untouched() {
    let requests = Requests::default();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "Alone.", "context": "All you need." })))
        .turn(|_| Turn::new().text("Done."));
    let agent = Agent::builder("master", model).tool(SpawnSubagent::new(noting(&requests))).build();
    let session = agent.session();
    reply_events(session.prompt("One.").await.unwrap()).await;
    let request = requests.lock().unwrap().pop().unwrap();
    assert_eq!(brief(&request.messages), ["Alone. Context:\nAll you need."]);
    assert_eq!(brief(&session.messages()), ["One.", "?spawn_subagent =noted Done."]);
}

#[tokio::test]
async fn a_fork_has_its_parents_permissions() {
    let worker = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("echo", json!({ "text": "x" })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let worker = Agent::builder("worker", worker).tool(echo()).build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "Go.", "fork": true })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let agent = Agent::builder("master", model)
        .tool(SpawnSubagent::new(worker))
        .permissions(Permissions::new().deny("echo", "quiet"))
        .build();
    let finished = agent.reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.text(), "`echo` may not run: quiet");
}
