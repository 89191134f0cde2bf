//! Servers that are stopped.

use std::time::Duration;

use serde_json::json;

use crate::{
    agents::Seen,
    client::{Request, Running, limits, prompt, reader, within},
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
async fn meanwhile_others_are_told_that_no_runs_are_taken() {
    let (seen, _gone) = Seen::new();
    let server = Running::new(seen.server()).await;
    let address = server.address;
    let mut reader = reader();
    let mut response = server.post(&prompt("thread", "run", "wait")).await;
    response.until("SUBAGENT_STARTED", &mut reader).await;
    let stopped = server.stop();
    let health = || Request::post("").to("GET", "/health").send(address);
    let refused = (503, "stopping".to_owned());
    within(async {
        loop {
            let response = health().await;
            if response.status != 200 {
                break assert_eq!(response.refusal().await, refused);
            }
        }
    })
    .await;
    for thread in ["thread", "another"] {
        let request = Request::post(prompt(thread, "next", "snow").to_string());
        assert_eq!(request.send(address).await.refusal().await, refused);
    }
    assert_eq!(health().await.refusal().await, refused);
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
