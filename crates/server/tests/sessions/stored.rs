//! Sessions that are in a file, within one server and over several.

use anabranch_server::{Limits, StoreLogs};
use anabranch_session::{EventLog as _, conformance::conversation};
use anabranch_store::{NewRoot, SessionQuery, Store};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    agents::Seen,
    client::{Running, limits, within},
};

async fn open(folder: &TempDir) -> Store {
    Store::open(folder.path().join("sessions.db"), StoreLogs::options()).await.unwrap()
}

fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A server that has few sessions open.
async fn few(seen: &Seen, store: &Store, limits: Limits) -> Running {
    Running::new(seen.server_with(StoreLogs::new(store.clone())).limits(limits)).await
}

/// Prompts a session and waits for the end of its run.
async fn prompted(server: &Running, session: &str, text: &str) {
    let cursor = server.prompt(session, text).await;
    let mut reading = server.events(session, &format!("?after={cursor}")).await;
    loop {
        let line = reading.frame().await.unwrap().json();
        if line["type"] == "STREAM_COMPLETE" {
            break assert_eq!(line["outcome"], "completed");
        }
    }
}

#[tokio::test]
async fn an_idle_session_is_closed_for_another_and_goes_on_when_it_is_asked_for() {
    let (folder, seen) = (folder(), Seen::new());
    let store = open(&folder).await;
    let server = few(&seen, &store, limits().open(1, 1)).await;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let session = server.session().await;
        prompted(&server, &session, "snow").await;
        sessions.push(session);
    }
    let (_, listed) = server.get("/sessions").await;
    let of = |listed: &serde_json::Value| -> Vec<_> {
        let paths = listed["sessions"].as_array().unwrap().iter();
        paths.map(|entry| format!("/sessions/{}", entry["id"].as_str().unwrap())).collect()
    };
    assert_eq!(of(&listed), sessions);
    for (session, entry) in sessions.iter().zip(listed["sessions"].as_array().unwrap()) {
        let (_, look) = server.get(session).await;
        for same in ["id", "created_at", "state", "cursor"] {
            assert_eq!(look[same], entry[same]);
        }
        assert_eq!(look["tree"].as_array().unwrap().len(), 2);
    }
    // One after another, and all at once: nobody is refused, and nobody's events are mixed up.
    for session in &sessions {
        prompted(&server, session, "rain").await;
    }
    let all = futures::future::join_all(sessions.iter().map(|session| async {
        loop {
            let response = server.request("GET", session).send().await;
            // As many as may are being looked at.
            if response.status == 200 {
                break response.json().await.1;
            }
            assert_eq!(response.refusal().await, (503, "full".to_owned()));
        }
    }));
    for look in within(all).await {
        assert_eq!(look["tree"].as_array().unwrap().len(), 3, "{look}");
    }
    for session in &sessions {
        assert_eq!(server.delete(session).await, 204);
        assert_eq!(server.delete(session).await, 404);
    }
    server.stopped().await;
    assert!(store.reader().roots(SessionQuery::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_session_at_work_or_being_read_is_not_closed_for_another() {
    let (folder, seen) = (folder(), Seen::new());
    let store = open(&folder).await;
    let server = few(&seen, &store, limits().open(1, 1)).await;
    let session = server.session().await;
    server.prompt(&session, "wait").await;
    within(seen.began.notified()).await;
    let refused = async || server.request("POST", "/sessions").json(&json!({})).send().await.refusal().await;
    assert_eq!(refused().await, (503, "full".to_owned()));
    let mut reading = server.events(&session, "").await;
    seen.go_on.notify_one();
    loop {
        if reading.frame().await.unwrap().json()["type"] == "STREAM_COMPLETE" {
            break;
        }
    }
    // It is idle, and still read.
    assert_eq!(refused().await, (503, "full".to_owned()));
    drop(reading);
    within(async {
        while server.request("POST", "/sessions").json(&json!({})).send().await.status != 201 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Nothing was left behind by those that were refused.
    assert_eq!(server.get("/sessions").await.1["sessions"].as_array().unwrap().len(), 2);
    server.stopped().await;
    assert_eq!(store.reader().roots(SessionQuery::new()).await.unwrap().len(), 2);
}

#[test]
fn a_server_leaves_what_others_have_in_the_store_alone() {
    let folder = folder();
    let runtime = Runtime::new().unwrap();
    let (store, theirs) = runtime.block_on(async {
        let store = open(&folder).await;
        let seen = Seen::new();
        let server = few(&seen, &store, limits()).await;
        let session = server.session().await;
        server.prompt(&session, "wait").await;
        within(seen.began.notified()).await;
        // Somebody else's, which is cut off too.
        let theirs = store.make(NewRoot::new("theirs").owner("default")).await.unwrap();
        theirs.append(&conversation(1)[..20]).unwrap();
        store.flush().await.unwrap();
        (store, theirs)
    });
    runtime.shutdown_background();
    drop(theirs);
    drop(store);
    Runtime::new().unwrap().block_on(async {
        let store = open(&folder).await;
        let server = few(&Seen::new(), &store, limits()).await;
        let (_, listed) = server.get("/sessions").await;
        assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(server.get("/sessions/theirs").await.0, 404);
        let unfinished = SessionQuery::new().unfinished();
        let unfinished = store.reader().roots(unfinished).await.unwrap();
        assert_eq!(unfinished.iter().map(|root| root.id.as_str()).collect::<Vec<_>>(), ["theirs"]);
        server.stopped().await;
        store.close().await.unwrap();
    });
}
