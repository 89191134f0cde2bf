//! One agent, and its children one level down: what is on the stream and in which order.

use std::time::Duration;

use crate::support::{
    self, Nothing, echo, kind, master, metadata, node, of_child, outline, own, reply_events, says,
};
use anabranch_pipeline::FunctionTool;
use anabranch_proto::{EventKind, Outcome, Scope, ToolResultState};
use anabranch_runtime::{Agent, Prompt, ScriptedModel, SpawnSubagent, Turn};

#[tokio::test]
async fn one_agent_with_one_tool() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new()
                .thinking("hm")
                .text("I ask.")
                .call("echo", serde_json::json!({ "text": "x" }))
                .usage(3, 2)
        })
        .turn(|request| Turn::new().text(format!("It said {}.", request.last_result_text())));
    let agent = Agent::builder("solo", model).tool(echo()).build();
    let events = reply_events(agent.reply_stream("Go.")).await;
    insta::assert_snapshot!(outline(&events).join("\n"), @r"
    . USER_MESSAGE
    . REPLY_START
    . MODEL_CALL_START
    . THINKING_BLOCK_START
    . THINKING_BLOCK_DELTA
    . THINKING_BLOCK_END
    . TEXT_BLOCK_START
    . TEXT_BLOCK_DELTA
    . TEXT_BLOCK_DELTA
    . TEXT_BLOCK_END
    . TOOL_CALL_START
    . TOOL_CALL_DELTA
    . TOOL_CALL_END
    . MODEL_CALL_END
    . TOOL_RESULT_START
    . TOOL_RESULT_TEXT_DELTA
    . TOOL_RESULT_END
    . MODEL_CALL_START
    . TEXT_BLOCK_START
    . TEXT_BLOCK_DELTA
    . TEXT_BLOCK_DELTA
    . TEXT_BLOCK_DELTA
    . TEXT_BLOCK_END
    . MODEL_CALL_END
    . REPLY_END
    . STREAM_COMPLETE
    ");
    let complete =
        kind(
            &events,
            |kind| if let EventKind::StreamComplete(complete) = kind { Some(complete) } else { None },
        );
    assert_eq!(complete[0].message.as_ref().unwrap().text(), "It said x.");
}

#[tokio::test]
async fn a_child_is_announced_before_its_content_and_ends_before_its_call() {
    let events =
        reply_events(master(says("worker", "done"), vec![node("work", "n1")]).reply_stream("Go.")).await;
    insta::assert_snapshot!(outline(&events).join("\n"), @r"
    . USER_MESSAGE
    . REPLY_START
    . MODEL_CALL_START
    . TOOL_CALL_START
    . TOOL_CALL_DELTA
    . TOOL_CALL_END
    . MODEL_CALL_END
    . TOOL_RESULT_START
    . SPAWN_SESSION_START
    n1 USER_MESSAGE
    n1 REPLY_START
    n1 MODEL_CALL_START
    n1 TEXT_BLOCK_START
    n1 TEXT_BLOCK_DELTA
    n1 TEXT_BLOCK_END
    n1 MODEL_CALL_END
    n1 REPLY_END
    n1 STREAM_COMPLETE
    . TOOL_RESULT_TEXT_DELTA
    . TOOL_RESULT_END
    . MODEL_CALL_START
    . TEXT_BLOCK_START
    . TEXT_BLOCK_DELTA
    . TEXT_BLOCK_END
    . MODEL_CALL_END
    . REPLY_END
    . STREAM_COMPLETE
    ");
    let ends =
        kind(own(&events), |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end) } else { None });
    let scope = of_child(&events, "n1").next().unwrap().scope.child().unwrap().clone();
    assert_eq!(ends[0].state, ToolResultState::Success);
    assert_eq!(
        ends[0].response.to_string(),
        format!(
            r#"{{"subagent_id":"{}","child_session_id":"{}","outcome":"completed","node_id":"n1"}}"#,
            scope.subagent_id, scope.child_session_id
        )
    );
}

#[tokio::test]
async fn metadata_says_whose_an_event_is_and_what_its_prompt_set() {
    let agent = master(says("worker", "done"), vec![node("work", "n1")]);
    let events =
        reply_events(agent.reply_stream(Prompt::new("Go.").metadata(metadata(r#"{"tenant_id":"acme"}"#))))
            .await;
    for event in own(&events) {
        if let EventKind::SpawnSessionStart(_) = event.kind {
            let prompts = kind(own(&events), |kind| {
                if let EventKind::UserMessage(message) = kind { Some(&message.message_id) } else { None }
            });
            assert_eq!(
                event.metadata.to_string(),
                format!(
                    r#"{{"prompt":"work","user_message_id":"{}","max_depth":5,"tenant_id":"acme","node_id":"n1"}}"#,
                    prompts[0]
                )
            );
        } else {
            assert_eq!(event.metadata.to_string(), r#"{"tenant_id":"acme"}"#);
        }
    }
    for event in of_child(&events, "n1") {
        let subagent_id = &event.scope.child().unwrap().subagent_id;
        assert_eq!(
            event.metadata.to_string(),
            format!(r#"{{"subagent_id":"{subagent_id}","tenant_id":"acme","node_id":"n1"}}"#)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn two_children_that_wait_100_ms_each_take_100_ms_together() {
    let wait = FunctionTool::new("wait", "Waits.", |_: Nothing, _| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok::<_, String>("waited")
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("wait", serde_json::json!({})))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let worker = Agent::builder("worker", model).tool(wait).build();
    let start = tokio::time::Instant::now();
    let finished =
        master(worker, vec![node("a", "n1"), node("b", "n2")]).reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.text(), "waited\nwaited");
    assert_eq!(start.elapsed(), Duration::from_millis(100));
}

#[tokio::test]
async fn results_reach_the_model_in_call_order_whatever_ends_first() {
    for delays in [[30, 20, 10], [10, 30, 20], [20, 10, 30]] {
        let spawn = SpawnSubagent::choosing(move |args| {
            let (task, wait) = (args.task.clone(), delays[args.task.parse::<usize>().unwrap()]);
            let model = ScriptedModel::from_fn("scripted", move |_| {
                Turn::new().wait(Duration::from_millis(wait)).text(&task)
            });
            Agent::builder("worker", model).build()
        });
        let agent = support::master_with(spawn, vec![node("0", "a"), node("1", "b"), node("2", "c")]);
        assert_eq!(agent.reply_stream("Go.").finished().await.unwrap().text(), "0\n1\n2");
    }
}

#[tokio::test]
async fn one_child_failing_leaves_its_siblings_alone() {
    let spawn = SpawnSubagent::choosing(|args| {
        let fails = args.task == "fail";
        let model = ScriptedModel::from_fn("scripted", move |_| {
            let error = anabranch_runtime::ModelError::new(
                anabranch_proto::ErrorType::CONNECTION,
                "connection refused on port 5432",
            );
            if fails { Turn::new().text("So far ").fail(error) } else { Turn::new().text("fine") }
        });
        Agent::builder("worker", model).build()
    })
    .named_by(|args| args.metadata_str("node_id"));
    let agent = support::master_with(spawn, vec![node("fail", "n1"), node("work", "n2")]);
    let finished = agent.reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.outcome, Outcome::Completed);
    assert_eq!(
        finished.text(),
        "connection refused on port 5432\n\nBefore that, the sub-agent said:\nSo far \nfine"
    );
    let events = reply_events(agent.reply_stream("Go.")).await;
    let ends = kind(own(&events), |kind| {
        if let EventKind::ToolResultEnd(end) = kind {
            Some((end.state, end.response.get_str("outcome").unwrap()))
        } else {
            None
        }
    });
    assert!(ends.contains(&(ToolResultState::Error, "failed".to_owned())));
    assert!(ends.contains(&(ToolResultState::Success, "completed".to_owned())));
    let tags: Vec<_> = of_child(&events, "n1").map(|event| event.kind.tag()).collect();
    assert_eq!(
        tags[tags.len() - 4..],
        ["TEXT_BLOCK_END", "MODEL_CALL_END", "REPLY_END", "STREAM_COMPLETE"],
        "{tags:?}"
    );
    assert!(events.iter().all(|event| event.scope == Scope::Root || event.scope.depth() == 1));
}
