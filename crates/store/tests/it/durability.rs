//! What outlives the process, and what readers see before it does.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use anabranch_proto::{Admitted, EventKind};
use anabranch_session::{
    AppendError, Batch, EventLog,
    conformance::{RUN, conversation, durable, follow},
};
use anabranch_store::{Barriers, Safety, SessionLog, Store, StoreError, StoreOptions, StoreReader};
use futures::FutureExt;

use crate::support::{Hold, MILLISECOND, Place};

async fn at_hand(log: &SessionLog) -> u64 {
    match log.read(0, 1_000).await.unwrap() {
        Batch::Events(events) => events.last().map_or(0, |last| last.seq),
        gap @ Batch::Gap { .. } => panic!("{gap:?}"),
    }
}

#[tokio::test]
async fn production_waits_for_no_disk_and_what_is_held_is_not_seen_before_it_is_durable() {
    for (barriers, seen) in [(Barriers::Open, RUN), (Barriers::Held, 1), (Barriers::All, 0)] {
        let place = Place::new();
        let log = place.log(StoreOptions::new().barriers(barriers)).await;
        // Nobody else can write while this lives.
        let hold = Hold::of(&place.path());
        let all = conversation(1);
        log.append(&all).unwrap();
        assert!(log.room().is_none());
        assert_eq!((log.last(), *log.durable().borrow()), (RUN, 0));
        // The second event is a spawn.
        assert_eq!((*log.appended().borrow(), at_hand(&log).await), (seen, seen), "{barriers:?}");
        drop(hold);
        durable(&log, RUN).await;
        assert_eq!((*log.appended().borrow(), at_hand(&log).await), (RUN, RUN));
    }
}

#[tokio::test]
async fn what_waits_is_bounded_by_bytes_and_there_is_room_again_once_it_is_written() {
    let place = Place::new();
    let options = StoreOptions::new().waiting_bytes(20_000).lock_wait(MILLISECOND * 10);
    let log = place.log(options).await;
    let hold = Hold::of(&place.path());
    let all = conversation(20);
    let mut taken = 0;
    let refused = loop {
        match log.append(&all[taken..][..50]) {
            Ok(()) => taken += 50,
            Err(error) => break error,
        }
    };
    // Four times what there is room for, and why it is not written.
    assert!((200..=400).contains(&taken), "{taken}");
    let is_locked = |error: &AppendError| matches!(error, AppendError::Failed(error) if matches!(error.downcast_ref(), Some(StoreError::Locked(_))));
    assert!(matches!(refused, AppendError::Full) || is_locked(&refused), "{refused:?}");
    drop(hold);
    durable(&log, taken as u64).await;
    while let Some(room) = log.room() {
        room.await;
    }
    log.append(&all[taken..][..50]).unwrap();
    let read = follow(&log, 0, taken as u64 + 50, 100).await;
    assert_eq!(read, all[..taken + 50]);
}

#[tokio::test]
async fn whoever_waits_for_room_hears_that_there_will_be_none_now() {
    let place = Place::new();
    let options = StoreOptions::new().waiting_bytes(2_000).lock_wait(MILLISECOND * 10);
    let log = place.log(options).await;
    let hold = Hold::of(&place.path());
    let all = conversation(2);
    log.append(&all[..50]).unwrap();
    log.room().expect("there is no room").await;
    let Err(AppendError::Failed(error)) = log.append(&all[50..]) else { panic!("it is appended") };
    assert!(matches!(error.downcast_ref(), Some(StoreError::Locked(_))), "{error:?}");
    // Readers have what was appended, and then the reason.
    assert_eq!(at_hand(&log).await, 50);
    let error = log.read(50, 10).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert!(matches!(source.downcast_ref(), Some(StoreError::Locked(_))), "{error:?}");
    // It passes, and nothing was lost.
    drop(hold);
    durable(&log, 50).await;
    log.append(&all[50..]).unwrap();
    assert_eq!(follow(&log, 0, 100, 7).await, all);
}

#[test]
fn looking_for_room_while_events_are_written_stops_nobody() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (done, is_done) = mpsc::channel();
    let work = thread::spawn(move || {
        let place = Place::new();
        let options = StoreOptions::new().safety(Safety::ProcessEnd).waiting_bytes(1_000).recent_bytes(0);
        let log = runtime.block_on(place.log(options));
        let all = conversation(40);
        let is_written = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_written.load(Ordering::Relaxed) {
                        let _ = log.room().map(FutureExt::now_or_never);
                    }
                });
            }
            for batch in all.chunks(4) {
                while let Some(room) = log.room() {
                    runtime.block_on(room);
                }
                log.append(batch).unwrap();
            }
            runtime.block_on(durable(&log, 40 * RUN));
            is_written.store(true, Ordering::Relaxed);
        });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("they wait for each other");
    work.join().unwrap();
}

#[test]
fn a_flush_waits_for_nothing_that_comes_behind_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let place = Place::new();
    // More than a commit takes, so that something always waits, and much less than there is.
    let options = StoreOptions::new().safety(Safety::ProcessEnd).waiting_bytes(5 << 20);
    let store = runtime.block_on(place.open(options));
    let log = runtime.block_on(store.create("ses_root")).unwrap();
    let (all, is_flushed) = (conversation(2_000), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for batch in all.chunks(3) {
                while let Some(room) = log.room() {
                    room.now_or_never();
                    thread::yield_now();
                }
                log.append(batch).unwrap();
                if is_flushed.load(Ordering::Relaxed) {
                    return;
                }
            }
            // A flush that waits for whoever produces without a pause outlasts it.
            panic!("the flush waits for what came behind it");
        });
        while log.last() < 50 {
            thread::yield_now();
        }
        let before = log.last();
        runtime.block_on(store.flush()).unwrap();
        is_flushed.store(true, Ordering::Relaxed);
        assert!(*log.durable().borrow() >= before);
    });
}

#[tokio::test]
async fn many_sessions_are_written_by_few_commits() {
    let place = Place::new();
    let store = place.open(StoreOptions::new()).await;
    let mut logs = Vec::new();
    for number in 0..20 {
        logs.push(store.create(format!("ses_{number}")).await.unwrap());
    }
    // Until it has been seen that all of them wait.
    let hold = Hold::of(&place.path());
    let all = conversation(1);
    for log in &logs {
        log.append(&all).unwrap();
    }
    drop(hold);
    store.flush().await.unwrap();
    for log in &logs {
        assert_eq!(*log.durable().borrow(), RUN);
    }
    let reader = StoreReader::open(place.path()).await.unwrap();
    assert!(
        reader.roots(anabranch_store::SessionQuery::new()).await.unwrap().iter().all(|root| root.last == RUN)
    );
}

/// What another process finds.
async fn on_disk(place: &Place) -> Vec<Admitted> {
    let reader = StoreReader::open(place.path()).await.unwrap();
    match reader.events("ses_root", 0, usize::MAX).await.unwrap() {
        Batch::Events(events) => events,
        gap @ Batch::Gap { .. } => panic!("{gap:?}"),
    }
}

#[tokio::test]
async fn what_is_said_to_be_durable_others_find() {
    let place = Place::new();
    let log = place.log(StoreOptions::new()).await;
    let all = conversation(20);
    for batch in all.chunks(37) {
        log.append(batch).unwrap();
        let watch = log.durable();
        let said = usize::try_from(*watch.borrow()).unwrap();
        let found = on_disk(&place).await;
        assert!(found.len() >= said, "{} of {said}", found.len());
        assert_eq!(found, all[..found.len()]);
    }
}

#[test]
fn the_last_handle_writes_what_waits_before_it_goes() {
    let all = conversation(4);
    let place = Place::new();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async {
        let log = place.log(StoreOptions::new()).await;
        log.append(&all).unwrap();
        // The log is the last that keeps the store open.
        drop(log);
    });
    assert_eq!(runtime().block_on(on_disk(&place)), all);
}

#[tokio::test]
async fn what_is_appended_after_the_session_is_gone_is_written_too() {
    let place = Place::new();
    let all = conversation(1);
    let store = place.open(StoreOptions::new()).await;
    let log = store.create("ses_root").await.unwrap();
    log.append(&all[..20]).unwrap();
    let (last, log) = (all[20..].to_vec(), std::sync::Arc::new(log));
    // As a driver does that closes what was dropped; it holds nothing but the log.
    let closing = tokio::spawn(async move { log.append(&last) });
    drop(store);
    closing.await.unwrap().unwrap();
    assert_eq!(on_disk(&place).await, all);
    assert!(matches!(all.last().unwrap().event.kind, EventKind::StreamComplete(_)));
}

#[tokio::test]
async fn a_store_that_is_closed_has_written_all_and_gives_nothing_more() {
    let place = Place::new();
    let store = place.open(StoreOptions::new()).await;
    let log = store.create("ses_root").await.unwrap();
    let all = conversation(2);
    log.append(&all).unwrap();
    let mut appended = log.appended();
    appended.borrow_and_update();
    // Dropped in the middle: it is closed all the same.
    assert!(store.close().now_or_never().is_none());
    store.close().await.unwrap();
    store.clone().close().await.unwrap();
    assert_eq!(on_disk(&place).await, all);
    let wal = place.path().with_extension("db-wal");
    assert!(!wal.exists() || std::fs::metadata(wal).unwrap().len() == 0, "all is in the file");

    let Err(AppendError::Failed(error)) = log.append(&conversation(3)) else { panic!("it is appended") };
    assert!(matches!(error.downcast_ref(), Some(StoreError::Closed)), "{error:?}");
    assert!(matches!(store.create("ses_2").await, Err(StoreError::Closed)));
    assert!(matches!(store.log("ses_root").await, Err(StoreError::Closed)));
    assert!(matches!(store.flush().await, Err(StoreError::Closed)));
    assert!(matches!(store.reader().root("ses_root").await, Err(StoreError::Closed)));
    // Whoever waits for more hears that there is none.
    assert!(appended.has_changed().unwrap());
    assert!(log.read(all.len() as u64, 1).await.is_err());
    // And the file is free.
    Store::open(place.path(), StoreOptions::new()).await.unwrap();
}

#[tokio::test]
async fn a_store_that_was_not_waited_for_while_it_opened_leaves_the_file_free() {
    let place = Place::new();
    for _ in 0..20 {
        drop(Store::open(place.path(), StoreOptions::new()).now_or_never());
    }
    // The last of them may still be closing.
    loop {
        match Store::open(place.path(), StoreOptions::new()).await {
            Ok(store) => break store.close().await.unwrap(),
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}
