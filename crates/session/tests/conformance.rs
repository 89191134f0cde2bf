//! The log in memory keeps the laws of a log.

use anabranch_proto::Timestamp;
use anabranch_session::{Batch, EventLog as _, MemoryLog, conformance};

#[tokio::test]
async fn numbers_come_back_in_order() {
    conformance::numbers_come_back_in_order(&MemoryLog::new()).await;
}

#[tokio::test]
async fn events_come_back_as_they_were() {
    conformance::events_come_back_as_they_were(&MemoryLog::new()).await;
}

#[tokio::test]
async fn a_batch_appended_again_adds_nothing() {
    conformance::a_batch_appended_again_adds_nothing(&MemoryLog::new()).await;
}

#[tokio::test]
async fn a_gap_is_refused() {
    conformance::a_gap_is_refused(&MemoryLog::new()).await;
}

#[tokio::test]
async fn a_second_writer_is_refused() {
    conformance::a_second_writer_is_refused(&MemoryLog::new()).await;
}

#[tokio::test]
async fn every_cursor_gives_what_follows_once() {
    conformance::every_cursor_gives_what_follows_once(&MemoryLog::new()).await;
}

#[tokio::test]
async fn many_readers_have_the_same() {
    conformance::many_readers_have_the_same(&MemoryLog::new()).await;
}

#[tokio::test]
async fn readers_that_leave_change_nothing() {
    conformance::readers_that_leave_change_nothing(&MemoryLog::new()).await;
}

#[tokio::test]
async fn what_was_forgotten_is_one_gap() {
    conformance::what_was_forgotten_is_one_gap(&MemoryLog::with_retention(100_000)).await;
}

#[tokio::test]
async fn what_was_forgotten_by_count_is_one_gap() {
    conformance::what_was_forgotten_is_one_gap(&MemoryLog::new().keep_events(1_000)).await;
}

#[tokio::test]
async fn what_is_from_before_a_time_is_forgotten_but_for_the_last() {
    let log = MemoryLog::new();
    let all = conformance::conversation(1);
    log.append(&all).unwrap();
    let first = all[0].event.created_at;
    assert_eq!(log.forget_before(first), 0);
    let later = Timestamp::from_unix(first.unix_seconds() + 1_000_000, 0);
    assert_eq!(log.forget_before(later), all.len() - 1);
    let last = all.len() as u64;
    assert_eq!(log.read(3, 10).await.unwrap(), Batch::Gap { from: 4, to: last - 1 });
    assert_eq!(log.read(last - 1, 10).await.unwrap(), Batch::Events(vec![all[all.len() - 1].clone()]));
    // What follows is numbered on.
    log.append(&all).unwrap_err();
    assert_eq!(log.last(), last);
}
