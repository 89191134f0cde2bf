//! Servers that are stopped.

use std::time::Duration;

use serde_json::json;

use crate::{
    agents::Seen,
    client::{Running, limits, prompt, reader, within},
};

#[tokio::test]
async fn runs_that_are_under_way_may_end() {
    let (seen, _gone) = Seen::new();
    let server = Running::new(seen.server()).await;
    let mut reader = reader();
    let mut response = server.post(&prompt("thread", "run", "wait")).await;
    response.until("SUBAGENT_STARTED", &mut reader).await;
    let stopped = server.stop();
    seen.go_on.notify_one();
    assert_eq!(response.run(&mut reader).await["outcome"], json!({ "type": "success" }));
    within(stopped).await.unwrap().unwrap();
}

#[tokio::test]
async fn runs_that_take_longer_are_stopped_and_say_so() {
    let (seen, mut gone) = Seen::new();
    let server = Running::new(seen.server().limits(limits().drain(Duration::ZERO))).await;
    let asks = server.post(&prompt("asks", "run", "write")).await.run(&mut reader()).await;
    assert_eq!(asks["outcome"]["type"], "interrupt");
    let mut reader = reader();
    let mut response = server.post(&prompt("thread", "run", "wait")).await;
    response.until("SUBAGENT_STARTED", &mut reader).await;
    within(seen.began.notified()).await;
    let stopped = server.stop();
    assert_eq!(response.run(&mut reader).await["outcome"], json!({ "type": "cancelled" }));
    within(async {
        gone.recv().await.unwrap();
        stopped.await.unwrap().unwrap();
        // Sessions are gone with the server, the one that waited for an answer too.
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
