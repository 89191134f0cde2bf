//! The store's logs keep the laws of a log, however the store is opened.

use anabranch_session::{AppendError, EventLog as _, conformance};
use anabranch_store::{Barriers, Retention, Safety, StoreOptions};

use crate::support::Place;

/// Options that make every way through the store's memory and its file.
fn ways() -> [StoreOptions; 4] {
    let no_power_is_lost = StoreOptions::new().safety(Safety::ProcessEnd);
    [
        StoreOptions::new(),
        // All is read from the file once it is there.
        no_power_is_lost.clone().recent_bytes(0),
        no_power_is_lost.clone().barriers(Barriers::All),
        no_power_is_lost.barriers(Barriers::Held).recent_bytes(2_000).readers(1).waiting_bytes(10_000),
    ]
}

macro_rules! laws {
    ($($law:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                for options in ways() {
                    let place = Place::new();
                    conformance::$law(&place.log(options).await).await;
                }
            }
        )*
    };
}

laws!(
    numbers_come_back_in_order,
    events_come_back_as_they_were,
    a_batch_appended_again_adds_nothing,
    a_gap_is_refused,
    a_second_writer_is_refused,
    every_cursor_gives_what_follows_once,
    many_readers_have_the_same,
    readers_that_leave_change_nothing,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_forgotten_is_one_gap() {
    let [_, by_events, _, by_bytes] = ways();
    let by_events = by_events.retention(Retention::all().events(1_000));
    let by_bytes = by_bytes.retention(Retention::all().bytes(100_000));
    for options in [by_events, by_bytes] {
        let place = Place::new();
        conformance::what_was_forgotten_is_one_gap(&place.log(options).await).await;
    }
}

#[tokio::test]
async fn a_store_that_was_opened_again_knows_its_last_events_and_refuses_what_it_cannot_tell() {
    let all = conformance::conversation(4);
    let place = Place::new();
    let log = place.log(StoreOptions::new()).await;
    log.append(&all[..150]).unwrap();
    drop(log);
    let store = place.open(StoreOptions::new()).await;
    let log = store.log("ses_root").await.unwrap();
    // What a program appends that was told nothing of what became of it.
    log.append(&all[100..150]).unwrap();
    assert_eq!(log.last(), 150);
    assert!(matches!(log.append(&all[..10]), Err(AppendError::Conflict { seq: 1 })));
    let mut other = anabranch_proto::Event::clone(&all[149].event);
    other.id = "another".into();
    let other = anabranch_proto::Admitted::new(150, other.into());
    assert!(matches!(log.append(&[other]), Err(AppendError::Conflict { seq: 150 })));
    log.append(&all[140..]).unwrap();
    assert_eq!(conformance::follow(&log, 0, 200, 50).await, all);
}

#[tokio::test]
async fn what_was_closed_gives_what_follows_every_cursor_once() {
    let all = conformance::conversation(100);
    let place = Place::new();
    let store = place.open(StoreOptions::new()).await;
    let log = store.create("ses_root").await.unwrap();
    conformance::append(&log, &all, |index| index % 50).await;
    store.close().await.unwrap();
    let store = place.open(StoreOptions::new()).await;
    let log = store.log("ses_root").await.unwrap();
    assert_eq!((*log.appended().borrow(), *log.durable().borrow()), (5_000, 5_000));
    conformance::at_rest_every_cursor_gives_what_follows(&log, &all).await;
}
