//! Sessions of the runtime on a store: a program that goes away in mid-work, and the next one.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{
    Admitted, Json, Outcome,
    grammar::{Profile, Verifier},
};
use anabranch_runtime::{Agent, Read, ScriptedModel, Session, SpawnSubagent, Turn};
use anabranch_session::{Batch, EventLog, Status};
use anabranch_store::{Barriers, NewRoot, SessionLog, SessionQuery, Store, StoreError, StoreOptions};
use futures::StreamExt as _;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::support::Place;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Two sub-agents that talk for a while, one of them in the background.
fn master() -> Agent {
    let worker = ScriptedModel::from_fn("scripted", |_| {
        (0..200).fold(Turn::new(), |turn, _| turn.text("word ").wait(MILLISECOND))
    });
    let spawn = SpawnSubagent::new(Agent::builder("worker", worker).build());
    let model = ScriptedModel::from_fn("scripted", |request| match (&*request.prompt_text(), request.turn) {
        ("Go.", 0) => Turn::new()
            .text("I begin.")
            .call("spawn_subagent", json!({ "task": "talk", "background": true }))
            .call("spawn_subagent", json!({ "task": "talk" })),
        _ => Turn::new().text(format!("I have read {} messages.", request.messages.len())),
    });
    Agent::builder("master", model).tool(spawn).build()
}

async fn resume(store: &Store) -> (Session, Arc<SessionLog>) {
    let log = match store.log("ses_root").await {
        Ok(log) => log,
        Err(_) => store.create("ses_root").await.unwrap(),
    };
    let log = Arc::new(log);
    let session =
        master().session_builder().id("ses_root").log(Arc::clone(&log) as _).resume().await.unwrap();
    (session, log)
}

/// Everything that was appended, what a barrier holds back until it is on disk among it.
async fn all(store: &Store, log: &SessionLog) -> Vec<Admitted> {
    store.flush().await.unwrap();
    let mut events: Vec<Admitted> = Vec::new();
    loop {
        match log.read(events.len() as u64, 1_000).await.unwrap() {
            Batch::Events(more) if more.is_empty() => return events,
            Batch::Events(more) => events.extend(more),
            gap @ Batch::Gap { .. } => panic!("{gap:?}"),
        }
    }
}

fn assert_well_formed(events: &[Admitted]) {
    let mut verifier = Verifier::new(Profile::Native);
    for admitted in events {
        verifier.check_numbered(admitted.seq, &admitted.event).unwrap();
    }
    verifier.finish().unwrap();
}

#[test]
fn a_program_that_goes_away_in_mid_work_loses_nothing_that_a_reader_had_and_the_next_one_goes_on() {
    for barriers in [Barriers::Open, Barriers::Held, Barriers::All] {
        let place = Place::new();
        let options = StoreOptions::new().barriers(barriers);
        let runtime = Runtime::new().unwrap();
        let (store, seen) = runtime.block_on(async {
            let store = place.open(options.clone()).await;
            let (session, _) = resume(&store).await;
            let mut reply = session.prompt("Go.").await.unwrap();
            let mut seen = Vec::new();
            while seen.len() < 120 {
                let Some(Read::Event(admitted)) = reply.next().await else { panic!("it ended") };
                seen.push(admitted);
            }
            (store, seen)
        });
        // The driver is gone with its runtime, in the middle: nobody closes anything.
        runtime.shutdown_timeout(Duration::from_secs(10));
        drop(store);

        Runtime::new().unwrap().block_on(async {
            let store = place.open(options).await;
            let unfinished = store.reader().roots(SessionQuery::new().unfinished()).await.unwrap();
            assert_eq!(unfinished.len(), 1);
            let (session, log) = resume(&store).await;
            let closed = all(&store, &log).await;
            assert_eq!(closed[..seen.len()], seen, "{barriers:?}");
            assert_well_formed(&closed);
            session.with_tree(|tree| {
                assert_eq!(tree.len(), 3);
                let interrupted = Status::Ended(Outcome::Interrupted);
                assert!(tree.iter().all(|record| record.status == interrupted));
            });
            let run = session.prompt("And now?").await.unwrap().finished().await.unwrap();
            assert!(run.text().starts_with("I have read"), "{}", run.text());
            session.close().await;
            assert_well_formed(&all(&store, &log).await);
            store.flush().await.unwrap();
            assert_eq!(store.reader().roots(SessionQuery::new().unfinished()).await.unwrap(), []);
            assert_eq!(store.reader().check().await.unwrap(), Vec::<String>::new());
        });
    }
}

#[tokio::test]
async fn what_a_session_was_made_of_is_kept_and_an_owner_has_each_label_once() {
    let place = Place::new();
    let store = place.open(StoreOptions::new()).await;
    let origin = Json::parse(r#"{"model":"small","n":1e2}"#).unwrap();
    let thread = |id: &str, owner: &str| NewRoot::new(id).owner(owner).label("thread");
    store.make(thread("ses_a", "alice").origin(origin.clone())).await.unwrap();
    store.make(thread("ses_b", "bob")).await.unwrap();
    store.make(NewRoot::new("ses_c").label("thread")).await.unwrap();
    store.make(NewRoot::new("ses_d").owner("alice")).await.unwrap();
    for (again, of) in [(thread("ses_e", "alice"), "ses_a"), (NewRoot::new("ses_e").label("thread"), "ses_c")]
    {
        let refused = store.make(again).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::Labelled { session } if session.as_str() == of),
            "{refused:?}"
        );
    }
    store.close().await.unwrap();

    let store = place.open(StoreOptions::new()).await;
    let found = async |query: SessionQuery| {
        let roots = store.reader().roots(query).await.unwrap();
        roots.into_iter().map(|root| root.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(SessionQuery::new().owner("alice").label("thread")).await, ["ses_a"]);
    assert_eq!(found(SessionQuery::new().label("thread")).await, ["ses_c", "ses_b", "ses_a"]);
    assert!(found(SessionQuery::new().owner("alice").label("another")).await.is_empty());
    assert_eq!(store.reader().origin("ses_a").await.unwrap(), Some(origin));
    assert_eq!(store.reader().origin("ses_d").await.unwrap(), None);
    assert!(matches!(store.reader().origin("ses_e").await, Err(StoreError::NoSession { .. })));
    let root = store.reader().root("ses_a").await.unwrap();
    assert!(root.created_at.is_some() && root.label.as_deref() == Some("thread"), "{root:?}");
    // A label is free again when its session is deleted.
    assert!(store.delete("ses_a").await.unwrap());
    store.make(thread("ses_e", "alice")).await.unwrap();
}

#[tokio::test]
async fn readers_of_a_session_on_a_store_follow_it_from_every_number() {
    let place = Place::new();
    let store = place.open(StoreOptions::new().barriers(Barriers::Held).recent_bytes(2_000)).await;
    let (session, log) = resume(&store).await;
    let reply = session.prompt("Go.").await.unwrap();
    let read = |after| {
        let reader = session.subscribe(after);
        let admitted = |read| if let Read::Event(admitted) = read { admitted } else { panic!("{read:?}") };
        tokio::spawn(reader.map(admitted).collect::<Vec<_>>())
    };
    let mut readers = Vec::new();
    for after in 0..50 {
        readers.push((after, read(after * 3)));
        tokio::time::sleep(MILLISECOND).await;
    }
    reply.finished().await.unwrap();
    session.prompt("And now?").await.unwrap().finished().await.unwrap();
    session.close().await;
    let events = all(&store, &log).await;
    for (after, reader) in readers {
        let behind = usize::try_from(after * 3).unwrap();
        assert_eq!(reader.await.unwrap(), events[behind..], "after {behind}");
    }
}
