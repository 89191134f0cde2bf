//! Models and tools that fail: one terminal, readable results, siblings intact.

use std::time::Duration;

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{ErrorType, EventKind, Outcome, ToolResultState};
use anabranch_runtime::{Agent, Limits, ModelError, ModelItem, ScriptedModel, Turn};

use crate::support::{Nothing, echo, kind, outline, own, reply_events};

/// The last event is the one terminal; its outcome and error.
async fn ending(agent: &Agent) -> (Outcome, String, Vec<String>) {
    let events = reply_events(agent.reply_stream("Go.")).await;
    let completes = kind(own(&events), |kind| {
        if let EventKind::StreamComplete(complete) = kind { Some(complete) } else { None }
    });
    let [complete] = &*completes else { panic!("{} terminals", completes.len()) };
    assert!(matches!(events.last().unwrap().kind, EventKind::StreamComplete(_)));
    let opened = |start: &str| events.iter().filter(|event| event.kind.tag() == start).count();
    for (start, end) in [
        ("REPLY_START", "REPLY_END"),
        ("MODEL_CALL_START", "MODEL_CALL_END"),
        ("TEXT_BLOCK_START", "TEXT_BLOCK_END"),
        ("TOOL_CALL_START", "TOOL_CALL_END"),
        ("TOOL_CALL_START", "TOOL_RESULT_END"),
    ] {
        assert_eq!(opened(start), opened(end), "{start} and {end}");
    }
    let error = complete.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
    (complete.outcome, error, outline(&events))
}

fn model_error() -> ModelError {
    ModelError::new(ErrorType::RATE_LIMIT, "slow down")
}

#[tokio::test]
async fn a_model_that_fails_before_during_or_after_its_text() {
    for turn in [
        Turn::new().fail(model_error()),
        Turn::new().text("I was").fail(model_error()),
        Turn::new().text("I was").call("echo", serde_json::json!({ "text": "x" })).fail(model_error()),
    ] {
        let model = ScriptedModel::from_fn("scripted", move |_| turn.clone());
        let agent = Agent::builder("agent", model).tool(echo()).build();
        let (outcome, error, _) = ending(&agent).await;
        assert_eq!((outcome, &*error), (Outcome::Failed, "slow down"));
    }
}

#[tokio::test]
async fn a_model_that_panics_when_called_or_while_it_streams() {
    let agent = Agent::builder("agent", ScriptedModel::from_fn("scripted", |_| panic!("at once"))).build();
    let (outcome, error, _) = ending(&agent).await;
    assert_eq!((outcome, &*error), (Outcome::Failed, "the model panicked: at once"));

    let model = ScriptedModel::from_fn("scripted", |_| Turn::new().text("so far").panic("midway"));
    let (outcome, error, _) = ending(&Agent::builder("agent", model).build()).await;
    assert_eq!((outcome, &*error), (Outcome::Failed, "the model panicked: midway"));
}

#[tokio::test]
async fn a_model_that_says_nothing_has_failed() {
    let agent = Agent::builder("agent", ScriptedModel::from_fn("scripted", |_| Turn::new())).build();
    let (outcome, error, _) = ending(&agent).await;
    assert_eq!((outcome, &*error), (Outcome::Failed, "the model answered with nothing"));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_hangs_is_given_up_at_its_limit() {
    let model = ScriptedModel::from_fn("scripted", |_| Turn::new().text("so far").hang());
    let limits = Limits::default().model_call(Duration::from_secs(3));
    let start = tokio::time::Instant::now();
    let (outcome, error, _) = ending(&Agent::builder("agent", model).limits(limits).build()).await;
    assert_eq!((outcome, &*error), (Outcome::TimedOut, "the model did not finish within 3 s"));
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn an_agent_that_never_comes_to_an_end_is_stopped_at_its_limit() {
    let model =
        ScriptedModel::from_fn("scripted", |_| Turn::new().call("echo", serde_json::json!({ "text": "x" })));
    let agent =
        Agent::builder("agent", model).tool(echo()).limits(Limits::default().max_iterations(3)).build();
    let (outcome, _, outline) = ending(&agent).await;
    assert_eq!(outcome, Outcome::ExceedMaxIters);
    assert_eq!(outline.iter().filter(|line| *line == ". MODEL_CALL_START").count(), 3);
    assert_eq!(outline[outline.len() - 3..], [". EXCEED_MAX_ITERS", ". REPLY_END", ". STREAM_COMPLETE"]);
}

#[tokio::test]
async fn each_way_of_failing_tells_the_model_and_stops_no_other_call() {
    let fails =
        FunctionTool::new("fails", "", |_: Nothing, _| async { Err::<String, _>("the disk is full") });
    let panics = FunctionTool::new("panics", "", |_: Nothing, context| async move {
        context.send(anabranch_proto::ToolChunk::text("half of it")).await.ok();
        tokio::task::yield_now().await;
        let disk: Option<&str> = std::hint::black_box(None);
        Ok::<_, String>(disk.expect("at the disk"))
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new()
                .call("fails", serde_json::json!({}))
                .call("panics", serde_json::json!({}))
                .call("nowhere", serde_json::json!({}))
                .item(ModelItem::ToolCall(anabranch_pipeline::ToolCall::new("bad", "echo", "{\"text\":")))
                .item(ModelItem::ToolCall(anabranch_pipeline::ToolCall::new("wrong", "echo", "{\"text\":1}")))
                .call("echo", serde_json::json!({ "text": "fine" }))
        })
        .turn(|request| {
            let results: Vec<_> = request
                .results()
                .map(|result| format!("{}: {}", result.state.as_str(), result.output.text()))
                .collect();
            Turn::new().text(results.join("\n"))
        });
    let agent = Agent::builder("agent", model).tool(fails).tool(panics).tool(echo()).build();
    let finished = agent.reply_stream("Go.").finished().await.unwrap();
    insta::assert_snapshot!(finished.text(), @r#"
    error: the disk is full
    error: half of it
    `panics` panicked: at the disk
    error: there is no tool `nowhere`; the tools are: `fails`, `panics`, `echo`
    error: `echo`: invalid arguments: not valid JSON: EOF while parsing a value at line 1 column 8
    error: `echo`: invalid arguments: invalid type: integer `1`, expected a string at line 1 column 9
    success: fine
    "#);
}

#[tokio::test]
async fn a_call_id_that_was_used_is_renamed_and_answers_its_own_call() {
    let model = ScriptedModel::from_fn("scripted", |request| match request.turn {
        turn @ 0..2 => Turn::new().item(ModelItem::ToolCall(anabranch_pipeline::ToolCall::new(
            "call_0",
            "echo",
            format!("{{\"text\":\"{turn}\"}}"),
        ))),
        _ => Turn::new().text("end"),
    });
    let agent = Agent::builder("agent", model).tool(echo()).build();
    let session = agent.session();
    for run in 0..2 {
        session.prompt("Go.").await.unwrap().finished().await.unwrap();
        let messages = session.messages();
        let results: Vec<_> = messages
            .iter()
            .flat_map(|message| &message.content)
            .filter_map(|block| {
                if let anabranch_proto::ContentBlock::ToolResult(result) = block {
                    assert_eq!(result.state, ToolResultState::Success);
                    Some(format!("{}={}", result.id, result.output.text()))
                } else {
                    None
                }
            })
            .collect();
        let all = ["call_0=0", "call_0#2=1", "call_0#3=0", "call_0#4=1"];
        assert_eq!(results, all[..2 * (run + 1)]);
    }
}
