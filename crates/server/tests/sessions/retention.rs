//! Sessions whose logs forget.

use std::time::Duration;

use anabranch_server::{MemoryLogs, StoreLogs};
use anabranch_store::{Retention, Store};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    agents::Seen,
    client::{Frame, Running, within},
};

const BYTES: usize = 16 << 20;

/// A session in which 500 events were emitted, and something was said behind that.
async fn talkative(server: &Running, seen: &Seen) -> String {
    let session = server.session().await;
    seen.may_emit.add_permits(500);
    for prompt in ["emit 500", "say hello"] {
        let cursor = server.prompt(&session, prompt).await;
        let mut reading = server.events(&session, &format!("?after={cursor}")).await;
        reading.until(r#""type":"STREAM_COMPLETE""#).await;
    }
    session
}

/// Holds that whoever begins is told of one gap, and is told from there on.
fn assert_gap(frames: &[Frame], from: u64) -> u64 {
    let gap = frames[0].json();
    assert_eq!((&*frames[0].name, &gap["type"], &gap["from"]), ("gap", &json!("gap"), &json!(from)));
    let to = gap["to"].as_u64().unwrap();
    let (end, events) = frames[1..].split_last().unwrap();
    assert_eq!(end.name, "end");
    for (number, frame) in (to + 1..).zip(events) {
        assert_eq!((&*frame.name, frame.json()["seq"].as_u64()), ("message", Some(number)));
    }
    to
}

#[tokio::test]
async fn a_log_in_memory_forgets_by_count_and_by_bytes_and_says_so() {
    let kept_by =
        [MemoryLogs::new(BYTES).events(50), MemoryLogs::new(30_000), MemoryLogs::new(BYTES).events(0)];
    for (logs, [least, most]) in kept_by.into_iter().zip([[50, 50], [5, 300], [1, 1]]) {
        let seen = Seen::new();
        let server = Running::new(seen.server_with(logs.clone())).await;
        let session = talkative(&server, &seen).await;
        let frames = server.all(&session, "native", None).await;
        let forgotten = assert_gap(&frames, 1);
        let kept = frames.len() - 2;
        assert!((least..=most).contains(&kept), "{logs:?}: {kept}");
        // Whoever shows a cursor from before it is told of the rest of the gap, and one behind it of none.
        let epoch = frames[0].id.as_deref().unwrap().rsplit_once('-').unwrap().0.to_owned();
        let at = |seq: u64| format!("{epoch}-{seq}");
        assert_gap(&server.all(&session, "native", Some(&at(7))).await, 8);
        let rest = server.all(&session, "native", Some(&at(forgotten))).await;
        assert_eq!(rest, frames[1..]);
        // The conversation goes on.
        let cursor = server.prompt(&session, "say more").await;
        server.events(&session, &format!("?after={cursor}")).await.until("more").await;
        server.stopped().await;
    }
}

#[tokio::test]
async fn a_log_in_memory_forgets_what_is_too_old_though_nothing_happens() {
    let seen = Seen::new();
    let server = Running::new(seen.server_with(MemoryLogs::new(BYTES).age(Duration::from_secs(1)))).await;
    let session = talkative(&server, &seen).await;
    within(async {
        loop {
            let frames = server.all(&session, "native", None).await;
            if frames[0].name == "gap" {
                assert_gap(&frames, 1);
                // The last is always there.
                if frames.len() == 3 {
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    server.stopped().await;
}

#[tokio::test]
async fn a_log_in_a_file_forgets_runs_by_count_by_bytes_and_by_age() {
    let all = Retention::all();
    let kept_by = [all.events(50), all.bytes(20_000), all.age(Duration::from_secs(1))];
    for retention in kept_by {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let options = StoreLogs::options().retention(retention);
        let store = Store::open(folder.path().join("sessions.db"), options).await.unwrap();
        let seen = Seen::new();
        let server = Running::new(seen.server_with(StoreLogs::new(store.clone()))).await;
        let session = talkative(&server, &seen).await;
        within(async {
            loop {
                let frames = server.all(&session, "native", None).await;
                if frames[0].name == "gap" {
                    // The first run and no part of it.
                    assert!(assert_gap(&frames, 1) > 500, "{retention:?}");
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        server.prompt(&session, "say more").await;
        server.stopped().await;
        store.close().await.unwrap();
    }
}
