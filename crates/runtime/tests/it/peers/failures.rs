//! Whatever fails: a result that the model can read, everything closed, siblings intact, a next turn with every result.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anabranch_pipeline::{
    FunctionTool, Tool, ToolCall, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield,
};
use anabranch_proto::{ErrorType, Json, Outcome, ToolChunk};
use anabranch_runtime::{Agent, Limits, ModelError, ModelItem, ScriptedModel, SpawnSubagent, Turn};
use futures::{StreamExt, stream};

use super::{announced, outcomes, report, results, results_in, terminals};
use crate::support::{Nothing, echo, events, master_with, node, of_child, own, says};

/// A tool whose stream is this.
struct Gives(ToolDefinition, fn() -> ToolStream);

impl Gives {
    fn new(name: &str, stream: fn() -> ToolStream) -> Self {
        Self(ToolDefinition::new(name, "", Json::parse(r#"{"type":"object"}"#).unwrap()), stream)
    }
}

impl Tool for Gives {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, _: ToolInvocation, _: ToolContext) -> ToolStream {
        (self.1)()
    }
}

fn chunks(chunks: Vec<ToolChunk>) -> ToolStream {
    stream::iter(chunks.into_iter().map(ToolYield::Chunk)).boxed()
}

/// An agent with every tool that fails, one that does not, and a sub-agent.
fn agent(call: &ToolCall, limits: Limits) -> Agent {
    let call = call.clone();
    let model = ScriptedModel::new("scripted")
        .turn(move |_| {
            Turn::new()
                .call("echo", serde_json::json!({ "text": "before" }))
                .item(ModelItem::ToolCall(call.clone()))
                .call("spawn_subagent", node("x", "n1"))
        })
        .turn(report);
    Agent::builder("master", model)
        .tool(FunctionTool::new("errs", "", |_: Nothing, _| async { Err::<String, _>("the disk is full") }))
        .tool(FunctionTool::new("panics", "", |_: Nothing, _| async {
            tokio::task::yield_now().await;
            Ok::<_, String>(std::hint::black_box(None::<&str>).expect("at the disk"))
        }))
        .tool(Gives::new("panics_at_once", || panic!("at once")))
        .tool(Gives::new("never_ends", || {
            stream::repeat_with(|| ToolYield::Chunk(ToolChunk::text("x".repeat(400)))).boxed()
        }))
        .tool(Gives::new("empty", || stream::empty().boxed()))
        .tool(Gives::new("goes_on", || {
            chunks(vec![ToolChunk::text("all").last(), ToolChunk::error("and more")])
        }))
        .tool(echo())
        .tool(SpawnSubagent::new(says("worker", "fine")).named_by(|args| args.metadata_str("node_id")))
        .limits(limits)
        .build()
}

#[tokio::test]
async fn each_way_in_which_a_call_fails_is_told_to_the_model_beside_the_other_results() {
    let cut =
        format!("error: {}\nthe output of `never_ends` is over 1000 bytes and was cut", "x".repeat(800));
    let cases = [
        (ToolCall::new("x", "never_ends", "{}"), &*cut),
        (ToolCall::new("x", "errs", "{}"), "error: the disk is full"),
        (ToolCall::new("x", "panics", "{}"), "error: `panics` panicked: at the disk"),
        (ToolCall::new("x", "panics_at_once", "{}"), "error: `panics_at_once` panicked: at once"),
        (
            ToolCall::new("x", "echo", r#"{"text":1}"#),
            "error: `echo`: invalid arguments: invalid type: integer `1`, expected a string at line 1 column 9",
        ),
        (
            ToolCall::new("x", "echo", r#"{"text":"#),
            "error: `echo`: invalid arguments: not valid JSON: EOF while parsing a value at line 1 column 8",
        ),
        (ToolCall::new("x", "echo", "[1]"), "error: `echo`: invalid arguments: not a JSON object"),
        (
            ToolCall::new("x", "nowhere", "{}"),
            "error: there is no tool `nowhere`; the tools are: `errs`, `panics`, `panics_at_once`, `never_ends`, \
             `empty`, `goes_on`, `echo`, `spawn_subagent`",
        ),
        (ToolCall::new("x", "empty", "{}"), "success: "),
        (ToolCall::new("x", "goes_on", "{}"), "success: all"),
    ];
    for (call, result) in cases {
        let session = agent(&call, Limits::default().tool_output(1_000)).session();
        // Each block is closed, each call has its result, there is one terminal: the rules of a stream say so.
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        assert_eq!(terminals(&seen), [("n1", Outcome::Completed), (".", Outcome::Completed)], "{call:?}");
        let said = session.messages()[1].text();
        assert_eq!(said, format!("success: before\n{result}\nsuccess: fine"));
        assert_eq!(session.children_running(), 0);
    }
}

#[tokio::test]
async fn each_way_in_which_a_child_fails_is_told_to_the_model_beside_the_other_results() {
    let fail = |turn: Turn| turn.fail(ModelError::new(ErrorType::CONNECTION, "connection reset"));
    let reset = "error: connection reset";
    let cases: [(Turn, String); 8] = [
        (fail(Turn::new()), reset.to_owned()),
        (fail(Turn::new().text("so far")), format!("{reset}\n\nBefore that, the sub-agent said:\nso far")),
        (fail(Turn::new().thinking("hm")), reset.to_owned()),
        (fail(Turn::new().call("echo", serde_json::json!({ "text": "x" }))), reset.to_owned()),
        (Turn::new(), "error: the model answered with nothing".to_owned()),
        (Turn::new().panic("at sea"), "error: the model panicked: at sea".to_owned()),
        (
            Turn::new().text("so far").panic("at sea"),
            "error: the model panicked: at sea\n\nBefore that, the sub-agent said:\nso far".to_owned(),
        ),
        (
            Turn::new().text("x".repeat(100)),
            "error: the model's answer is over 99 bytes and was cut".to_owned(),
        ),
    ];
    for (turn, result) in cases {
        let spawn = SpawnSubagent::choosing(move |args| {
            let turn = if args.task == "fail" { turn.clone() } else { Turn::new().text("fine") };
            let model = ScriptedModel::from_fn("scripted", move |_| turn.clone());
            Agent::builder("worker", model).limits(Limits::default().model_output(99)).tool(echo()).build()
        })
        .named_by(|args| args.metadata_str("node_id"));
        let calls = [node("work", "n1"), node("fail", "n2"), node("work", "n3")];
        let model = ScriptedModel::new("scripted")
            .turn(move |_| calls.iter().fold(Turn::new(), |turn, call| turn.call("spawn_subagent", call)))
            .turn(report);
        let session = Agent::builder("master", model).tool(spawn).build().session();
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        let mut ends = terminals(&seen);
        assert_eq!(ends.pop(), Some((".", Outcome::Completed)));
        ends.sort_unstable_by_key(|(name, _)| *name);
        let expected = [("n1", Outcome::Completed), ("n2", Outcome::Failed), ("n3", Outcome::Completed)];
        assert_eq!(ends, expected, "{result}");
        assert_eq!(session.messages()[1].text(), format!("success: fine\n{result}\nsuccess: fine"));
    }
}

#[tokio::test]
async fn a_model_that_fails_after_its_tools_leaves_their_results_to_the_next_prompt() {
    let model = ScriptedModel::from_fn("scripted", |request| match (request.messages.len(), request.turn) {
        (1, 0) => Turn::new()
            .call("echo", serde_json::json!({ "text": "x" }))
            .call("nowhere", serde_json::json!({}))
            .call("spawn_subagent", node("x", "n1")),
        (2, _) => Turn::new().text("So").fail(ModelError::new(ErrorType::RATE_LIMIT, "slow down")),
        _ => {
            let told = results_in(&request.messages);
            Turn::new().text(told.iter().map(|(state, _)| state.as_str()).collect::<Vec<_>>().join(" "))
        }
    });
    let spawn = SpawnSubagent::new(says("worker", "fine"));
    let session = Agent::builder("master", model).tool(echo()).tool(spawn).build().session();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(terminals(&seen), [("worker", Outcome::Completed), (".", Outcome::Failed)]);
    let next = session.prompt("And?").await.unwrap().finished().await.unwrap();
    assert_eq!(next.text(), "success error success");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_ends_its_call_at_once() {
    let model = ScriptedModel::from_fn("scripted", |_| {
        Turn::new().text("half").fail(ModelError::new(ErrorType::UPSTREAM, "gone"))
    });
    let began = tokio::time::Instant::now();
    let worker = Agent::builder("worker", model).build();
    let agent = master_with(SpawnSubagent::new(worker), vec![node("x", "n1")]);
    assert_eq!(agent.reply_stream("Go.").finished().await.unwrap().outcome, Outcome::Completed);
    assert_eq!(began.elapsed(), std::time::Duration::ZERO, "no time-out was waited for");
}

#[tokio::test]
async fn a_master_that_reads_an_error_can_try_again_and_report_both_attempts() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let spawn = SpawnSubagent::choosing(move |_| match attempts.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let error = ModelError::new(ErrorType::CONNECTION, "connection refused on port 5432");
            let model = ScriptedModel::from_fn("scripted", move |_| Turn::new().fail(error.clone()));
            Agent::builder("worker", model).build()
        }
        _ => says("worker", "42 rows"),
    })
    .named_by(|args| args.metadata_str("node_id"));
    let call = |task: &str| node(task, "n1");
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", call("Count the rows.")))
        .turn(move |request| match request.last_result_text() {
            text if text.contains("connection refused") => {
                Turn::new().text("I try again. ").call("spawn_subagent", call("Count the rows, once more."))
            }
            text => Turn::new().text(text),
        })
        .turn(|request| {
            let both = results(request).join("; then ");
            Turn::new().text(format!("n1: {both}"))
        });
    let session = Agent::builder("master", model).tool(spawn).build().session();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(
        terminals(&seen),
        [("n1", Outcome::Failed), ("n1", Outcome::Completed), (".", Outcome::Completed)]
    );
    assert_eq!(
        session.messages()[1].text(),
        "I try again. n1: error: connection refused on port 5432; then success: 42 rows"
    );
    let sessions: std::collections::BTreeSet<_> =
        of_child(&seen, "n1").map(|event| event.scope.child().unwrap().child_session_id.clone()).collect();
    assert_eq!((announced(own(&seen)), sessions.len()), (2, 2), "another attempt is another session");
    let outcomes = outcomes(&seen);
    assert_eq!(outcomes, ["failed", "completed"]);
}
