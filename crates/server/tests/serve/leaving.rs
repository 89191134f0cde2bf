//! Clients that leave.

use std::time::Duration;

use serde_json::json;

use crate::{
    agents::Seen,
    client::{Running, limits, prompt, reader, within},
};

/// How many tasks there are while nobody is served: the server's two, and one session's.
const IDLE: usize = 3;

#[tokio::test]
async fn a_client_that_leaves_stops_its_run_and_leaves_no_task() {
    let (seen, mut gone) = Seen::new();
    let server = Running::new(seen.server()).await;
    server.post(&prompt("thread", "first", "snow")).await.run(&mut reader()).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let settled = async |most: usize| {
        while tasks() > most {
            tokio::task::yield_now().await;
        }
    };
    within(settled(IDLE)).await;

    let mut response = server.post(&prompt("thread", "left", "wait wait snow")).await;
    response.until("SUBAGENT_STARTED", &mut reader()).await;
    within(seen.began.notified()).await;
    assert!(gone.try_recv().is_err());
    drop(response);
    within(async {
        for _ in ["wait", "wait"] {
            gone.recv().await.unwrap();
        }
        settled(IDLE).await;
    })
    .await;

    // The thread goes on, and nothing of the run that was left is in the next.
    let last = server.post(&prompt("thread", "next", "rain")).await.run(&mut reader()).await;
    assert_eq!((&last["runId"], &last["outcome"]["type"]), (&json!("next"), &json!("success")));
    server.stopped().await;
}

#[tokio::test]
async fn a_client_that_leaves_and_comes_back_at_once_waits_for_the_end_of_its_run() {
    let (seen, _gone) = Seen::new();
    // However long the server takes to notice.
    let server = Running::new(seen.server().limits(limits().patience(Duration::from_secs(60)))).await;
    for run in ["one", "two", "three"] {
        let mut response = server.post(&prompt("thread", run, "wait snow")).await;
        response.until("SUBAGENT_STARTED", &mut reader()).await;
        drop(response);
        let last = server.post(&prompt("thread", "next", "snow")).await.run(&mut reader()).await;
        assert_eq!((&last["runId"], &last["outcome"]["type"]), (&json!("next"), &json!("success")));
    }
    server.stopped().await;
}
