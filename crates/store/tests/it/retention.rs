//! What a store forgets, and what it keeps of that.

use std::{sync::Arc, time::Duration};

use anabranch_proto::Message;
use anabranch_runtime::{Agent, ScriptedModel, Turn};
use anabranch_session::{
    Batch, EventLog, EventProcessor, Limits,
    conformance::{RUN, conversation, durable, follow},
};
use anabranch_store::{Retention, Safety, SessionLog, StoreOptions, StoreReader};

use crate::support::Place;

fn keeping(retention: Retention) -> StoreOptions {
    StoreOptions::new().safety(Safety::ProcessEnd).recent_bytes(1_000).retention(retention)
}

/// The number of the last event that is forgotten.
async fn forgotten(log: &SessionLog) -> u64 {
    match log.read(0, 1).await.unwrap() {
        Batch::Events(_) => 0,
        Batch::Gap { from, to } => {
            assert_eq!(from, 1);
            to
        }
    }
}

async fn append_run_by_run(log: &SessionLog, runs: u64) {
    for run in conversation(runs).chunks(usize::try_from(RUN).unwrap()) {
        log.append(run).unwrap();
        durable(log, run.last().unwrap().seq).await;
    }
}

fn messages(runs: u64) -> Vec<Message> {
    let mut processor = EventProcessor::new("ses_root".into(), Limits::default());
    for admitted in conversation(runs) {
        processor.replay(&admitted).unwrap();
    }
    processor.messages().to_vec()
}

#[tokio::test]
async fn whole_runs_are_forgotten_and_what_they_came_to_is_kept() {
    for (retention, expected) in [
        (Retention::all().events(3 * RUN), 7 * RUN),
        // Not even the last run fits.
        (Retention::all().events(1), 9 * RUN),
        // A run that fits in part goes as a whole.
        (Retention::all().events(3 * RUN + 10), 7 * RUN),
        (Retention::all().events(1_000_000).bytes(1_000_000), 0),
        (Retention::all().events(8 * RUN).bytes(1), 9 * RUN),
    ] {
        let place = Place::new();
        let store = place.open(keeping(retention)).await;
        let log = store.create("ses_root").await.unwrap();
        append_run_by_run(&log, 10).await;
        store.retain().await.unwrap();
        assert_eq!(forgotten(&log).await, expected, "{retention:?}");
        let all = conversation(10);
        assert_eq!(follow(&log, expected, 10 * RUN, 33).await, all[usize::try_from(expected).unwrap()..]);
        let kept = log.forgotten().await.unwrap();
        let kept = kept.map(|kept| (kept.upto, kept.conversation));
        assert_eq!(kept, (expected > 0).then(|| (expected, messages(expected / RUN))));
        assert_eq!(store.retain().await.unwrap(), 0, "there is no more");
        store.close().await.unwrap();
        // Others find the same, and the file has no more than that.
        let reader = StoreReader::open(place.path()).await.unwrap();
        let root = reader.root("ses_root").await.unwrap();
        assert_eq!((root.forgotten, root.last), (expected, 10 * RUN));
        let gap = reader.events("ses_root", 3, 10).await.unwrap();
        assert_eq!(matches!(gap, Batch::Gap { from: 4, to } if to == expected), expected > 0);
        let file = rusqlite::Connection::open(place.path()).unwrap();
        let count = |sql: &str| -> u64 {
            let count: i64 = file.query_row(sql, [], |row| row.get(0)).unwrap();
            count.try_into().unwrap()
        };
        assert_eq!(count("SELECT count(*) FROM event"), 10 * RUN - expected);
        let bytes = count("SELECT coalesce(sum(length(CAST(json AS BLOB))), 0) FROM event");
        assert_eq!(root.bytes, bytes);
        assert_eq!(reader.check().await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn what_is_too_old_is_forgotten_the_last_run_too() {
    let place = Place::new();
    let store = place.open(keeping(Retention::all().age(Duration::from_secs(3_600)))).await;
    let log = store.create("ses_root").await.unwrap();
    append_run_by_run(&log, 3).await;
    store.close().await.unwrap();
    // Two hours ago for all but the last run.
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.execute("UPDATE pause SET at = at - 7200 WHERE seq < 150", []).unwrap();
    // It looks when it is opened.
    let store = place.open(keeping(Retention::all().age(Duration::from_secs(3_600)))).await;
    let log = store.log("ses_root").await.unwrap();
    assert_eq!((forgotten(&log).await, log.last()), (2 * RUN, 3 * RUN));
    file.execute("UPDATE pause SET at = at - 7200", []).unwrap();
    assert_eq!(store.retain().await.unwrap(), RUN);
    assert_eq!((forgotten(&log).await, log.last()), (3 * RUN, 3 * RUN));
    assert_eq!(log.read(3 * RUN, 10).await.unwrap(), Batch::Events(vec![]));
    assert_eq!(log.forgotten().await.unwrap().unwrap().conversation, messages(3));
    // And it goes on with the next number.
    let next = &conversation(4)[usize::try_from(3 * RUN).unwrap()..];
    log.append(next).unwrap();
    assert_eq!(follow(&log, 3 * RUN, 4 * RUN, 100).await, next);
    drop((log, store, file));
    let store = place.open(StoreOptions::new()).await;
    assert_eq!(store.log("ses_root").await.unwrap().last(), 4 * RUN);
}

#[tokio::test]
async fn what_runs_is_not_forgotten() {
    let place = Place::new();
    let log = place.log(keeping(Retention::all().events(10))).await;
    let all = conversation(3);
    // Two runs and a half.
    for batch in all[..125].chunks(25) {
        log.append(batch).unwrap();
        durable(&log, batch.last().unwrap().seq).await;
    }
    let store = place.path();
    drop(log);
    let store = anabranch_store::Store::open(store, keeping(Retention::all().events(10))).await.unwrap();
    store.retain().await.unwrap();
    let log = store.log("ses_root").await.unwrap();
    assert_eq!(forgotten(&log).await, 2 * RUN);
    assert_eq!(follow(&log, 2 * RUN, 125, 100).await, all[100..125]);
}

fn agent() -> Agent {
    let model = ScriptedModel::from_fn("scripted", |request| {
        let said: Vec<_> = request.messages.iter().map(Message::text).collect();
        Turn::new().text(format!("I have read: {}", said.join(" / ")))
    });
    Agent::builder("assistant", model).build()
}

#[tokio::test]
async fn a_conversation_goes_on_behind_what_was_forgotten() {
    let place = Place::new();
    for (prompt, expected) in [("one", "one"), ("two", "one / I have read: one / two")] {
        let store = place.open(StoreOptions::new()).await;
        let log = match store.log("ses_root").await {
            Ok(log) => log,
            Err(_) => store.create("ses_root").await.unwrap(),
        };
        let session = agent().session_builder().id("ses_root").log(Arc::new(log)).resume().await.unwrap();
        let run = session.prompt(prompt).await.unwrap().finished().await.unwrap();
        assert_eq!(run.text(), format!("I have read: {expected}"));
        session.close().await;
        store.close().await.unwrap();
        let store = place.open(keeping(Retention::all().age(Duration::ZERO))).await;
        store.retain().await.unwrap();
        let root = store.reader().root("ses_root").await.unwrap();
        assert!(root.last > 5 && root.forgotten == root.last, "nothing is left but what it came to");
        store.close().await.unwrap();
    }
}
