//! Streams that go on where they were cut.

use std::{env, fs};

use anabranch_server::StoreLogs;
use anabranch_store::Store;
use serde_json::json;

use crate::{
    agents::Seen,
    client::{Frame, Running, within},
};

/// The events of the run, as they are to be told: what comes before and behind `emit`'s own is some more.
const EVENTS: usize = 5_000;

/// How many frames are read at each cut.
const READ: usize = 3;

#[tokio::test]
async fn at_every_cursor_of_a_long_run_what_follows_comes_once() {
    let seen = Seen::new();
    let server = Running::new(seen.server()).await;
    is_cut_at_every_cursor(&seen, server).await;
}

#[tokio::test]
async fn at_every_cursor_of_a_long_run_that_is_kept_on_disk_what_follows_comes_once() {
    let seen = Seen::new();
    let file = env::temp_dir().join(format!("anabranch-server-resume-{}.sqlite", std::process::id()));
    let store = Store::open(&file, StoreLogs::options()).await.unwrap();
    let server = Running::new(seen.server_with(StoreLogs::new(store.clone()))).await;
    is_cut_at_every_cursor(&seen, server).await;
    store.close().await.unwrap();
    for ending in ["", "-wal", "-shm", "-lock"] {
        fs::remove_file(format!("{}{ending}", file.display())).ok();
    }
}

/// The number in a frame's id.
fn number(frame: &Frame) -> usize {
    frame.id.as_deref().unwrap().rsplit_once('-').unwrap().1.parse().unwrap()
}

/// At every cursor of a run of 5,000 events, replayed and live, what follows comes once and in order. The run is gated: at
/// each cut a part of what is read is there already and the rest is still to come.
async fn is_cut_at_every_cursor(seen: &Seen, server: Running) {
    let session = server.session().await;
    let mut cursor = server.prompt(&session, &format!("emit {EVENTS}")).await;
    // What comes by itself, before the first event that is gated.
    let first = server.events(&session, "").await.until(r#""type":"TOOL_RESULT_START"#).await.len();
    let (mut told, mut cuts, mut there) = (Vec::<Frame>::new(), 0, first);
    let mut emit = |upto: usize| {
        seen.may_emit.add_permits(upto.saturating_sub(there));
        there = there.max(upto);
    };
    'run: loop {
        let had = told.len();
        // Some of what is read is there, and the last is not: it is waited for on the open stream.
        emit(had + cuts % READ);
        let mut events = server.events(&session, &format!("?after={cursor}")).await;
        cuts += 1;
        for at in 1..=READ {
            emit(had + at);
            let frame = events.frame().await.unwrap();
            assert_eq!((&*frame.name, number(&frame)), ("message", had + at));
            let is_over = frame.data.contains(r#""type":"STREAM_COMPLETE"#);
            // The others are read again behind the next cuts: as the second of one and the first of another.
            if at == 1 {
                cursor = frame.id.clone().unwrap();
                told.push(frame);
            }
            if is_over {
                break 'run;
            }
        }
    }
    let all = replayed(&server, &session, "native").await;
    assert_eq!(all[..told.len()], told);
    assert!(all.len() > EVENTS && cuts > EVENTS, "{} events, {cuts} cuts", all.len());
    let numbers = all.iter().filter(|frame| frame.data.contains(r#""name":"number""#)).count();
    assert_eq!(numbers, EVENTS);
    println!("{} events, cut {cuts} times", all.len());
    // The whole rest, at cursors all over the run.
    for cut in (0..=all.len()).step_by(97).chain([all.len() - 1, all.len()]) {
        let after = cut.checked_sub(1).map(|last| all[last].id.clone().unwrap());
        let mut rest = server.all(&session, "native", after.as_deref()).await;
        assert_eq!(rest.pop().unwrap().name, "end");
        assert_eq!(rest, all[cut..], "behind {cut}");
    }
    server.stopped().await;
}

/// All frames that there are.
async fn replayed(server: &Running, session: &str, spelling: &str) -> Vec<Frame> {
    let mut all = server.all(session, spelling, None).await;
    assert_eq!(all.pop().unwrap().json(), json!({ "type": "end", "reason": "caught_up" }));
    all
}

/// In each spelling and at every event, the frames behind it are those of the whole stream. An event that gives several
/// frames is told whole again to who was cut off within it; one that gives none is a cursor as any other.
#[tokio::test]
async fn at_every_event_each_spelling_goes_on_as_if_it_had_not_been_cut() {
    let seen = Seen::new();
    let server = Running::new(seen.server()).await;
    let session = server.session().await;
    server.prompt(&session, "sleet rain").await;
    server.prompt(&session, "say One two three.").await;
    let mut live = server.events(&session, "").await;
    live.until("All are done.").await;
    live.until("One two three.").await;
    drop(live);
    let events = replayed(&server, &session, "native").await;
    let epoch = events[0].id.as_deref().unwrap().rsplit_once('-').unwrap().0.to_owned();
    for spelling in ["native", "flat", "ag-ui"] {
        let all = replayed(&server, &session, spelling).await;
        let with_id = all.iter().filter(|frame| frame.id.is_some()).count();
        assert!(if spelling == "ag-ui" { with_id < events.len() } else { with_id == events.len() });
        for seq in 0..=events.len() {
            let mut rest = server.all(&session, spelling, Some(&format!("{epoch}-{seq}"))).await;
            assert_eq!(rest.pop().unwrap().name, "end");
            // Behind the last frame of the last event that is no later and has frames at all.
            let had = all.iter().rposition(|frame| frame.id.is_some() && number(frame) <= seq);
            assert_eq!(rest, all[had.map_or(0, |last| last + 1)..], "{spelling} behind {seq}");
        }
    }
    server.stopped().await;
}

#[tokio::test]
async fn what_ag_ui_is_told_is_well_formed_whoever_was_cut_off_where() {
    use anabranch_testkit::ag_ui::{Dialect, Reader};
    let seen = Seen::new();
    let server = Running::new(seen.server()).await;
    let session = server.session().await;
    server.prompt(&session, "wait snow").await;
    within(seen.began.notified()).await;
    seen.go_on.notify_one();
    server.prompt(&session, "rain").await;
    let (mut reader, mut after) = (Reader::new(Dialect::Attributed), None::<String>);
    let mut runs = Vec::new();
    while runs.len() < 2 {
        let query = after.as_deref().map(|after| format!("&after={after}")).unwrap_or_default();
        let mut events = server.events(&session, &format!("?as=ag-ui{query}")).await;
        // As far as one event, whose frames are behind each other; then the connection is gone.
        loop {
            let frame = events.frame().await.unwrap();
            reader.line(&frame.data).unwrap();
            let json = frame.json();
            if json["type"] == "RUN_STARTED" {
                runs.push(json["runId"].as_str().unwrap().to_owned());
            }
            if json["type"] == "RUN_FINISHED" {
                assert_eq!(json["runId"].as_str(), runs.last().map(String::as_str));
            }
            if let Some(id) = frame.id {
                after = Some(id);
                break;
            }
        }
    }
    assert_ne!(runs[0], runs[1]);
    server.stopped().await;
}

#[tokio::test]
async fn a_reader_that_leaves_or_is_slow_changes_nothing_for_others() {
    let seen = Seen::new();
    let server = Running::new(seen.server()).await;
    let session = server.session().await;
    // One never reads, one leaves in the midst.
    let idle = server.events(&session, "").await;
    let mut leaving = server.events(&session, "").await;
    let mut staying = server.events(&session, "").await;
    server.prompt(&session, "emit 2000").await;
    seen.may_emit.add_permits(500);
    leaving.until(r#""number":499"#).await;
    drop(leaving);
    seen.may_emit.add_permits(1_500);
    let frames = staying.until("All are done.").await;
    for (seq, frame) in (1..).zip(&frames) {
        assert_eq!(number(frame), seq);
    }
    // It had what there was in its own time.
    let late = { idle }.until("All are done.").await;
    assert_eq!(late, frames);
    server.stopped().await;
}
