//! What a stream says of itself: that it begins anew, that something is missing, that it ends.

use std::time::Duration;

use serde_json::json;

use crate::{
    agents::Seen,
    client::{Frame, Running, limits, within},
};

fn cursor(epoch: &str, seq: usize) -> String {
    format!("{epoch}-{seq}")
}

/// A session with a few events, and its epoch and all frames.
async fn told(server: &Running) -> (String, String, Vec<Frame>) {
    let session = server.session().await;
    let start = server.prompt(&session, "snow").await;
    server.events(&session, "").await.until("All are done.").await;
    let mut all = server.all(&session, "native", None).await;
    all.pop();
    (session, start.strip_suffix("-0").unwrap().to_owned(), all)
}

#[tokio::test]
async fn who_shows_a_cursor_of_another_time_is_told_so_once_and_begins_anew() {
    let server = Running::new(Seen::new().server()).await;
    let (session, epoch, all) = told(&server).await;
    let ahead = cursor(&epoch, all.len() + 1);
    for (shown, reason) in [
        ("0123456789ab-3", "foreign_epoch"),
        ("a-0", "foreign_epoch"),
        (&*ahead, "ahead"),
        (&*cursor(&epoch, usize::MAX), "ahead"),
        ("garbage", "malformed"),
        ("-", "malformed"),
        ("7", "malformed"),
        (&*format!("{epoch}-007"), "malformed"),
        (&*"9".repeat(4_000), "malformed"),
    ] {
        for spelling in ["native", "flat", "ag-ui"] {
            let path = format!("{session}/events?follow=false&as={spelling}");
            let resume = |shown: &str| server.request("GET", &path).header("last-event-id", shown);
            let mut frames = resume(shown).send().await.frames_to_end().await;
            let resync = frames.remove(0);
            let start = cursor(&epoch, 0);
            let expected = json!({ "type": "resync", "reason": reason, "cursor": start });
            assert_eq!((&*resync.name, resync.json()), ("resync", expected), "{shown}");
            // Once: who is cut off right behind it shows its id.
            assert_eq!(resync.id, Some(start.clone()));
            assert_eq!(frames, resume(&start).send().await.frames_to_end().await);
            assert_eq!(frames, resume("").send().await.frames_to_end().await);
            assert!(frames.iter().all(|frame| frame.name != "resync"));
        }
    }
    // Where somebody wrote the cursor by hand, that is a mistake to be told of.
    for after in ["garbage", "7", "", "%0a"] {
        let request = server.request("GET", &format!("{session}/events?after={after}"));
        for request in [request.clone().header("last-event-id", cursor(&epoch, 1)), request] {
            assert_eq!(request.send().await.refusal().await, (400, "bad_cursor".to_owned()), "{after}");
        }
    }
    for query in ["as=xml", "afer=a-1", "follow=maybe", "after=a-1&after=a-2"] {
        let request = server.request("GET", &format!("{session}/events?{query}"));
        assert_eq!(request.send().await.refusal().await, (400, "malformed".to_owned()), "{query}");
    }
    // What the browser shows comes before what its page asked for.
    let request =
        server.request("GET", &format!("{session}/events?follow=false&after={}", cursor(&epoch, 2)));
    let frames = request.header("last-event-id", cursor(&epoch, 5)).send().await.frames_to_end().await;
    assert_eq!(frames[..frames.len() - 1], all[5..]);
    server.stopped().await;
}

/// A server whose logs keep so little that they forget.
async fn forgetful(seen: &Seen) -> Running {
    Running::new(seen.server().limits(limits().log(20_000))).await
}

#[tokio::test]
async fn what_was_forgotten_is_told_as_a_gap() {
    let seen = Seen::new();
    let server = forgetful(&seen).await;
    let session = server.session().await;
    let start = server.prompt(&session, "emit 1000").await;
    let epoch = start.strip_suffix("-0").unwrap().to_owned();
    seen.may_emit.add_permits(1_000);
    server.events(&session, "").await.until("All are done.").await;
    for spelling in ["native", "flat"] {
        let all = server.all(&session, spelling, None).await;
        let gap = all[0].json();
        let to = usize::try_from(gap["to"].as_u64().unwrap()).unwrap();
        assert_eq!((&*all[0].name, gap), ("gap", json!({ "type": "gap", "from": 1, "to": to })));
        assert_eq!(all[0].id, Some(cursor(&epoch, to)));
        assert!(to > 500, "{to} of 1,000 are forgotten");
        assert_eq!(all[1].id, Some(cursor(&epoch, to + 1)));
        for (after, from) in [(7, Some(8)), (to - 1, Some(to)), (to, None), (to + 3, None)] {
            let frames = server.all(&session, spelling, Some(&cursor(&epoch, after))).await;
            match from {
                Some(from) => {
                    assert_eq!(frames[0].json(), json!({ "type": "gap", "from": from, "to": to }));
                    assert_eq!(frames[1..], all[1..]);
                }
                None => assert_eq!(frames, all[1 + after - to..]),
            }
        }
    }
    server.stopped().await;
}

#[tokio::test]
async fn ag_ui_that_has_lost_the_begin_of_a_run_begins_anew_and_well_formed() {
    use anabranch_testkit::ag_ui::{Dialect, Reader};
    let seen = Seen::new();
    let server = forgetful(&seen).await;
    let session = server.session().await;
    let start = server.prompt(&session, "emit 1000").await;
    let epoch = start.strip_suffix("-0").unwrap().to_owned();
    // One who reads has all of it, whatever is forgotten behind it.
    let mut reading = server.events(&session, "?as=ag-ui").await;
    let mut reader = Reader::new(Dialect::Attributed);
    let mut had = None;
    for number in 0..1_000 {
        seen.may_emit.add_permits(1);
        loop {
            let frame = reading.frame().await.unwrap();
            assert_eq!(frame.name, "message");
            reader.line(&frame.data).unwrap();
            had = frame.id.clone().or(had);
            if frame.data.contains(&format!(r#"{{"number":{number}}}"#)) {
                break;
            }
        }
    }
    // It is cut off in the midst of the run whose begin is forgotten by now.
    drop(reading);
    let path = format!("{session}/events?follow=false&as=ag-ui");
    let resumed = server.request("GET", &path).header("last-event-id", had.unwrap()).send().await;
    let frames = resumed.frames_to_end().await;
    let expected = json!({ "type": "resync", "reason": "expired", "cursor": cursor(&epoch, 0) });
    assert_eq!(frames[0].json(), expected);
    assert_eq!(frames[1].json()["type"], "gap");
    let mut reader = Reader::new(Dialect::Attributed);
    for frame in frames.iter().filter(|frame| frame.name == "message") {
        reader.line(&frame.data).unwrap();
    }

    // From the next run's begin on all is known again.
    let behind = {
        let mut live = server.events(&session, "").await;
        let mut all = live.until(r#""number":999"#).await;
        all.extend(live.until("All are done.").await);
        all.last().unwrap().id.clone().unwrap()
    };
    server.prompt(&session, "say Again.").await;
    let mut events = server.events(&session, &format!("?as=ag-ui&after={behind}")).await;
    let frame = events.frame().await.unwrap();
    assert_eq!(frame.json()["type"], "RUN_STARTED", "{frame:?}");
    server.stopped().await;
}

#[tokio::test]
async fn silence_is_broken_by_comments_that_are_no_events() {
    let seen = Seen::new();
    let server = Running::new(seen.server().limits(limits().keep_alive(Duration::from_millis(20)))).await;
    let session = server.session().await;
    let mut events = server.events(&session, "").await;
    server.prompt(&session, "wait").await;
    within(seen.began.notified()).await;
    for _ in 0..3 {
        events.comment().await;
    }
    seen.go_on.notify_one();
    events.until("All are done.").await;
    server.stopped().await;
}

#[tokio::test]
async fn a_server_that_is_stopped_lets_runs_end_and_says_so_to_readers() {
    let seen = Seen::new();
    let server = Running::new(seen.server()).await;
    let (idle, busy) = (server.session().await, server.session().await);
    server.prompt(&busy, "wait").await;
    within(seen.began.notified()).await;
    let mut of_idle = server.events(&idle, "").await;
    let mut of_busy = server.events(&busy, "").await;
    let stopped = server.stop();
    let end = of_idle.frame().await.unwrap();
    assert_eq!((&*end.name, end.json()), ("end", json!({ "type": "end", "reason": "stopping" })));
    seen.go_on.notify_one();
    of_busy.until("All are done.").await;
    assert_eq!(of_busy.frame().await.unwrap().json()["reason"], "stopping");
    assert_eq!(of_busy.frame().await, None);
    within(stopped).await.unwrap().unwrap();
}

#[tokio::test]
async fn runs_that_do_not_end_are_stopped_and_their_readers_see_how() {
    let seen = Seen::new();
    let server = Running::new(seen.server().limits(limits().drain(Duration::ZERO))).await;
    let session = server.session().await;
    server.prompt(&session, "wait").await;
    within(seen.began.notified()).await;
    let mut events = server.events(&session, "").await;
    let stopped = server.stop();
    let frames = events.until(r#""reason":"stopping""#).await;
    let last = &frames[frames.len() - 2];
    assert!(last.data.contains("STREAM_COMPLETE") && last.data.contains("interrupted"), "{last:?}");
    within(stopped).await.unwrap().unwrap();
}
