//! Sessions that are in a file, within one server and over several.

use std::time::Duration;

use anabranch_proto::Json;
use anabranch_runtime::{Agent, ScriptedModel, Turn};
use anabranch_server::{Limits, Server, Sessions, StoreLogs, Unusable};
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

/// A server whose agent says how many messages it has read, where its client wants nothing else.
async fn counting(store: &Store) -> Running {
    let agent = || {
        let model = ScriptedModel::from_fn("counts", |request| {
            Turn::new().text(format!("I have read {} messages.", request.messages.len()))
        });
        Agent::builder("counts", model).build()
    };
    let sessions = Sessions::new(move |new| match new.options.as_ref().map(Json::as_str) {
        Some(r#"{"unknown":1}"#) => Err(Unusable::new("`unknown` is not known")),
        _ => Ok(agent()),
    });
    let server = Server::new(move |_| agent()).sessions(sessions).logs(StoreLogs::new(store.clone()));
    Running::new(server.limits(limits().open(1, 1))).await
}

#[tokio::test]
async fn a_conversation_is_whole_whoever_closed_it_in_between() {
    let folder = folder();
    let mut sessions = Vec::new();
    for server_of in 0..3 {
        let store = open(&folder).await;
        let server = counting(&store).await;
        if sessions.is_empty() {
            sessions.extend([server.session().await, server.session().await]);
        }
        for in_turn in 0..2 {
            for session in &sessions {
                let cursor = server.prompt(session, "And now?").await;
                let mut reading = server.events(session, &format!("?after={cursor}")).await;
                let frames = reading.until(r#""type":"STREAM_COMPLETE""#).await;
                let said =
                    frames.iter().filter_map(|frame| frame.json()["delta"].as_str().map(str::to_owned));
                let read = 2 * (2 * server_of + in_turn) + 1;
                assert_eq!(said.collect::<String>(), format!("I have read {read} messages."));
                drop(reading);
                // Its seat is free when the server has noticed.
                let other = sessions.iter().find(|other| *other != session).unwrap();
                within(async { while server.request("GET", other).send().await.status != 200 {} }).await;
            }
        }
        server.stopped().await;
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_of_which_no_agent_can_be_made_any_more_says_so_and_can_be_deleted() {
    let folder = folder();
    let store = open(&folder).await;
    let root = NewRoot::new("ses_old").owner("default");
    store.make(root.origin(Json::parse(r#"{"server":1,"options":{"unknown":1}}"#).unwrap())).await.unwrap();
    let server = counting(&store).await;
    let refused = server.request("GET", "/sessions/ses_old").send().await.refusal().await;
    assert_eq!(refused, (422, "unusable".to_owned()));
    assert_eq!(server.get("/sessions").await.1["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(server.delete("/sessions/ses_old").await, 204);
    assert_eq!(server.delete("/sessions/ses_old").await, 404);
    server.stopped().await;
}

#[tokio::test]
async fn a_session_that_the_disk_ended_goes_on_when_the_disk_does() {
    let (folder, seen) = (folder(), Seen::new());
    let path = folder.path().join("sessions.db");
    let options = StoreLogs::options().lock_wait(Duration::from_millis(10)).waiting_bytes(2_000);
    let store = Store::open(&path, options).await.unwrap();
    let server = few(&seen, &store, limits()).await;
    let session = server.session().await;
    prompted(&server, &session, "snow").await;
    // Another program keeps the file for itself.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    seen.may_emit.add_permits(10_000);
    server.prompt(&session, "emit 10000").await;
    // As many as may wait, of which nobody hears any more.
    for _ in 1..16 {
        server.prompt(&session, "never").await;
    }
    within(async { while server.get(&session).await.1["state"] != "ended" {} }).await;
    let body = json!({ "content": "rain" });
    let refused =
        server.request("POST", &format!("{session}/prompt")).json(&body).send().await.refusal().await;
    assert_eq!(refused, (409, "session_ended".to_owned()));
    // It is read still.
    assert!(server.all(&session, "native", None).await.len() > 10);
    other.execute_batch("ROLLBACK").unwrap();
    within(async { while server.get(&session).await.1["state"] != "idle" {} }).await;
    prompted(&server, &session, "rain").await;
    server.stopped().await;
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
    runtime.shutdown_timeout(Duration::from_secs(10));
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
