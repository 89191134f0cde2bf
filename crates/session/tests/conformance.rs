//! The log in memory keeps the laws of a log.

use anabranch_session::{MemoryLog, conformance};

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
