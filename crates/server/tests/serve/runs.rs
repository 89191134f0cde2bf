//! Runs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    agents::Seen,
    client::{Request, Running, prompt, reader, within},
};

fn frames(text: &[String]) -> Vec<Value> {
    text.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

#[tokio::test]
async fn a_run_is_well_formed_and_its_children_bear_their_names() {
    let server = Running::new(Seen::new().0.server()).await;
    let mut response = server.post(&prompt("thread", "run", "sleet rain")).await;
    let (mut text, mut reader) = (Vec::new(), reader());
    while let Some(frame) = response.frame().await {
        reader.line(&frame).unwrap();
        text.push(frame);
    }
    reader.finish().unwrap();
    let frames = frames(&text);
    let of_kind = |kind: &'static str| frames.iter().filter(move |frame| frame["type"] == kind);
    let started = &frames[0];
    assert_eq!(
        (&started["type"], &started["threadId"], &started["runId"]),
        (&json!("RUN_STARTED"), &json!("thread"), &json!("run"))
    );
    let children: Vec<_> = of_kind("SUBAGENT_STARTED").collect();
    assert_eq!(children.iter().map(|child| &child["name"]).collect::<Vec<_>>(), ["sleet", "rain"]);
    for child in children {
        let id = &child["subagentRunId"];
        let said: String = of_kind("TEXT_MESSAGE_CONTENT")
            .filter(|frame| frame["subagentRunId"] == *id)
            .map(|frame| frame["delta"].as_str().unwrap())
            .collect();
        assert_eq!(said, format!("{} is done.", child["name"].as_str().unwrap()));
    }
    assert_eq!(frames.last().unwrap()["outcome"], json!({ "type": "success" }));
    server.stopped().await;
}

#[tokio::test]
async fn a_thread_goes_on_with_the_next_request_at_once() {
    let server = Running::new(Seen::new().0.server()).await;
    let mut reader = reader();
    for run in ["one", "two", "three"] {
        let last = server.post(&prompt("thread", run, "snow")).await.run(&mut reader).await;
        assert_eq!((&last["type"], &last["runId"]), (&json!("RUN_FINISHED"), &json!(run)));
    }
    server.stopped().await;
}

#[tokio::test]
async fn two_threads_run_side_by_side_and_one_thread_has_one_run() {
    let (seen, _gone) = Seen::new();
    let limits = crate::client::limits().patience(Duration::ZERO);
    let server = Running::new(seen.server().limits(limits)).await;
    let (mut first, mut second) = (reader(), reader());
    let mut waiting = server.post(&prompt("one", "run", "wait")).await;
    waiting.until("SUBAGENT_STARTED", &mut first).await;
    let last = server.post(&prompt("two", "run", "snow")).await.run(&mut second).await;
    assert_eq!(last["threadId"], "two");
    assert_eq!(server.refused(&prompt("one", "again", "snow")).await, (409, "busy".to_owned()));
    seen.go_on.notify_one();
    let last = waiting.run(&mut first).await;
    assert_eq!((&last["threadId"], &last["outcome"]["type"]), (&json!("one"), &json!("success")));
    server.stopped().await;
}

#[tokio::test]
async fn a_prompt_that_comes_early_is_served_when_the_run_before_has_ended() {
    let (seen, _gone) = Seen::new();
    let limits = crate::client::limits().patience(Duration::from_secs(60));
    let server = Running::new(seen.server().limits(limits)).await;
    let mut first = reader();
    let mut waiting = server.post(&prompt("thread", "one", "wait")).await;
    waiting.until("SUBAGENT_STARTED", &mut first).await;
    let early = prompt("thread", "two", "snow");
    let early = async { server.post(&early).await.run(&mut reader()).await };
    let end = async {
        seen.go_on.notify_one();
        waiting.run(&mut first).await
    };
    let (early, end) = within(futures::future::join(early, end)).await;
    for (last, run) in [(end, "one"), (early, "two")] {
        assert_eq!((&last["runId"], &last["outcome"]["type"]), (&json!(run), &json!("success")));
    }
    server.stopped().await;
}

#[tokio::test]
async fn a_long_silence_is_broken_by_comments_that_are_no_frames() {
    let (seen, _gone) = Seen::new();
    let limits = crate::client::limits().keep_alive(Duration::from_millis(20));
    let server = Running::new(seen.server().limits(limits)).await;
    let mut reader = reader();
    let mut response = server.post(&prompt("thread", "run", "wait")).await;
    within(seen.began.notified()).await;
    // The call is the worker's; what follows is said when it ends.
    while response.until("TOOL_CALL_END", &mut reader).await["subagentRunId"].is_null() {}
    let mut said = String::new();
    while !said.starts_with(':') {
        said = response.raw().await;
        if let Some(frame) = said.strip_prefix("data: ") {
            reader.line(frame.trim_end()).unwrap();
        }
    }
    assert_eq!(response.raw().await, said);
    seen.go_on.notify_one();
    assert_eq!(response.run(&mut reader).await["outcome"]["type"], "success");
    server.stopped().await;
}

#[tokio::test]
async fn the_server_says_that_it_is_well() {
    let server = Running::new(Seen::new().0.server()).await;
    let response = Request::post("").to("GET", "/health").send(server.address).await;
    assert_eq!(response.status, 200);
    server.stopped().await;
}

#[tokio::test]
async fn the_thread_that_was_idle_for_longest_makes_room() {
    let (seen, _gone) = Seen::new();
    let limits = crate::client::limits().threads(2);
    let server = Running::new(seen.server().limits(limits)).await;
    let ended = async |thread: &str, text: &str| {
        server.post(&prompt(thread, "run", text)).await.run(&mut reader()).await["outcome"]["type"].clone()
    };
    assert_eq!(ended("asks", "write").await, "interrupt");
    assert_eq!(ended("idle", "snow").await, "success");
    // `asks` was asked for last longest ago.
    assert_eq!(ended("new", "snow").await, "success");
    let resume = json!({
        "threadId": "asks", "runId": "run", "messages": [],
        "resume": [{ "interruptId": "confirm:a:b", "status": "cancelled" }],
    });
    assert_eq!(server.refused(&resume).await, (409, "not_asked".to_owned()));
    let mut held = Vec::new();
    for thread in ["one", "two"] {
        let mut waiting = server.post(&prompt(thread, "run", "wait")).await;
        waiting.until("SUBAGENT_STARTED", &mut reader()).await;
        held.push(waiting);
    }
    assert_eq!(server.refused(&prompt("three", "run", "snow")).await, (503, "full".to_owned()));
    drop(held);
    server.stopped().await;
}
