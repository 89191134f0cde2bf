//! A disk that fails: what was durable stays, what waits is kept in memory, and everybody hears why.

use std::{
    error::Error,
    fs::{self, OpenOptions},
    io::{Seek as _, SeekFrom, Write as _},
};

use anabranch_session::{
    AppendError, Batch, EventLog, LogError,
    conformance::{RUN, conversation, durable, follow},
};
use anabranch_store::{Store, StoreError, StoreOptions, StoreReader};

use crate::support::{Hold, MILLISECOND, Place};

fn of_append(refused: Result<(), AppendError>) -> StoreError {
    match refused {
        Err(AppendError::Failed(error)) => error.downcast_ref::<StoreError>().unwrap().clone(),
        other => panic!("{other:?}"),
    }
}

fn of_read(refused: Result<Batch, LogError>) -> StoreError {
    let error = refused.unwrap_err();
    error.source().and_then(|source| source.downcast_ref::<StoreError>()).unwrap().clone()
}

#[tokio::test]
async fn a_full_disk_is_said_to_all_and_forgets_nothing_that_was_durable() {
    let place = Place::new();
    let store = place.open(StoreOptions::new().file_bytes(200_000)).await;
    let log = store.create("ses_root").await.unwrap();
    let other = store.create("other").await.unwrap();
    let all = conversation(100);
    let mut appended = log.appended();
    let error = loop {
        let last = usize::try_from(log.last()).unwrap();
        match log.append(&all[last..][..25]) {
            Ok(()) => drop(store.flush().await),
            refused => break of_append(refused),
        }
    };
    assert!(matches!(error, StoreError::DiskFull(_)), "{error:?}");
    let (last, safe) = (log.last(), *log.durable().borrow());
    assert!((100..last).contains(&safe), "{safe} of {last}");
    // Readers have all that was appended, then the reason; who waits is woken for it.
    appended.borrow_and_update();
    assert_eq!(follow(&log, 0, last, 64).await, all[..usize::try_from(last).unwrap()]);
    assert!(matches!(of_read(log.read(last, 1).await), StoreError::DiskFull(_)));
    assert!(matches!(of_append(other.append(&conversation(1))), StoreError::DiskFull(_)));
    assert!(matches!(store.flush().await, Err(StoreError::DiskFull(_))));
    // Somebody makes room: what waited is written, and appends go on.
    store.delete("other").await.ok();
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.busy_timeout(MILLISECOND * 5_000).unwrap();
    file.execute_batch("DELETE FROM event WHERE root = 1 AND seq <= 100").unwrap();
    durable(&log, last).await;
    assert!(log.append(&all[usize::try_from(last).unwrap()..][..1]).is_ok());
}

#[tokio::test]
async fn what_could_not_be_written_by_the_end_is_said_by_close() {
    let place = Place::new();
    let store = place.open(StoreOptions::new().lock_wait(MILLISECOND * 10)).await;
    let log = store.create("ses_root").await.unwrap();
    let all = conversation(2);
    log.append(&all[..50]).unwrap();
    store.flush().await.unwrap();
    let hold = Hold::of(&place.path());
    log.append(&all[50..]).unwrap();
    assert!(matches!(store.flush().await, Err(StoreError::Locked(_))));
    let error = store.close().await.unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)), "{error:?}");
    assert!(matches!(of_read(log.read(100, 1).await), StoreError::Locked(_) | StoreError::Closed));
    drop(hold);
    let store = place.open(StoreOptions::new()).await;
    assert_eq!(store.log("ses_root").await.unwrap().last(), RUN);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_deleted_moved_or_replaced_is_not_written_to() {
    for what in ["deleted", "moved", "replaced"] {
        let place = Place::new();
        let store = place.open(StoreOptions::new()).await;
        let log = store.create("ses_root").await.unwrap();
        let all = conversation(3);
        log.append(&all[..50]).unwrap();
        store.flush().await.unwrap();
        let aside = place.folder.path().join("aside.db");
        match what {
            "deleted" => fs::remove_file(place.path()).unwrap(),
            "moved" => fs::rename(place.path(), &aside).unwrap(),
            _ => {
                fs::rename(place.path(), &aside).unwrap();
                fs::copy(&aside, place.path()).unwrap();
            }
        }
        log.append(&all[50..100]).unwrap();
        let error = store.flush().await.unwrap_err();
        assert!(matches!(error, StoreError::Gone { .. }), "{what}: {error:?}");
        assert!(matches!(of_append(log.append(&all[100..])), StoreError::Gone { .. }), "{what}");
        assert!(matches!(of_read(log.read(100, 1).await), StoreError::Gone { .. }), "{what}");
        assert_eq!(*log.durable().borrow(), 50);
        if what == "moved" {
            // It is back.
            fs::rename(&aside, place.path()).unwrap();
            durable(&log, 100).await;
            log.append(&all[100..]).unwrap();
            store.close().await.unwrap();
            let store = place.open(StoreOptions::new()).await;
            assert_eq!(store.log("ses_root").await.unwrap().last(), 150);
        }
    }
}

/// A store with some pages, closed.
async fn filled(place: &Place) {
    let store = place.open(StoreOptions::new()).await;
    let log = store.create("ses_root").await.unwrap();
    log.append(&conversation(40)).unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_gives_a_clear_error_and_no_wrong_event() {
    let all = conversation(40);
    let place = Place::new();
    filled(&place).await;
    let whole = fs::read(place.path()).unwrap();
    let mut refused = 0;
    // Damage in each page in turn, and an end that is torn off.
    for page in 0..whole.len() / 4096 {
        for torn in [false, true] {
            fs::write(place.path(), &whole).unwrap();
            let mut file = OpenOptions::new().write(true).open(place.path()).unwrap();
            let at = page as u64 * 4096;
            if torn {
                file.set_len(at).unwrap();
            } else {
                file.seek(SeekFrom::Start(at + 8)).unwrap();
                file.write_all(&[0xa5; 1_024]).unwrap();
            }
            drop(file);
            let Ok(store) = Store::open(place.path(), StoreOptions::new()).await.inspect_err(known) else {
                refused += 1;
                continue;
            };
            let is_damaged = store.reader().check().await.map_or(true, |found| !found.is_empty());
            let Ok(log) = store.log("ses_root").await.inspect_err(known) else {
                refused += 1;
                continue;
            };
            let mut after = 0;
            loop {
                match log.read(after, 100).await {
                    Ok(Batch::Events(events)) if events.is_empty() => {
                        // What no page needed was damaged, or somebody would know.
                        assert!(is_damaged || after == all.len() as u64, "page {page}, torn: {torn}");
                        break;
                    }
                    Ok(Batch::Events(events)) => {
                        let from = usize::try_from(after).unwrap();
                        assert_eq!(events, all[from..from + events.len()], "page {page}");
                        after = events.last().unwrap().seq;
                    }
                    Ok(gap @ Batch::Gap { .. }) => panic!("{gap:?}"),
                    refusal => {
                        known(&of_read(refusal));
                        refused += 1;
                        break;
                    }
                }
            }
            drop(log);
            store.close().await.inspect_err(known).ok();
        }
    }
    assert!(refused > 10, "{refused}");
}

#[track_caller]
fn known(error: &StoreError) {
    assert!(
        matches!(
            error,
            StoreError::Damaged(_)
                | StoreError::Foreign { .. }
                | StoreError::Unreadable { .. }
                | StoreError::NoSession { .. }
                | StoreError::Newer { .. }
                | StoreError::Database(_)
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_torn_write_ahead_log_loses_its_end_and_makes_no_hole() {
    let all = conversation(40);
    let place = Place::new();
    let store = place.open(StoreOptions::new()).await;
    let log = store.create("ses_root").await.unwrap();
    for run in all.chunks(50) {
        log.append(run).unwrap();
        durable(&log, run.last().unwrap().seq).await;
    }
    // As a crash leaves them: the writer is still there.
    let (file, wal) =
        (fs::read(place.path()).unwrap(), fs::read(place.path().with_extension("db-wal")).unwrap());
    assert!(wal.len() > 100_000);
    let mut lengths = Vec::new();
    for cut in (0..=20).map(|part| wal.len() * part / 20) {
        let torn = Place::new();
        fs::write(torn.path(), &file).unwrap();
        fs::write(torn.path().with_extension("db-wal"), &wal[..cut]).unwrap();
        let Ok(store) = Store::open(torn.path(), StoreOptions::new()).await.inspect_err(known) else {
            continue;
        };
        let Ok(log) = store.log("ses_root").await else { continue };
        let last = log.last();
        assert_eq!(follow(&log, 0, last, 100).await, all[..usize::try_from(last).unwrap()]);
        assert_eq!(last % RUN, 0, "a commit is there as a whole or not at all");
        assert_eq!(store.reader().check().await.unwrap(), Vec::<String>::new());
        lengths.push(last);
    }
    assert!(
        lengths.is_sorted() && lengths.last() == Some(&(40 * RUN)) && lengths[0] < 10 * RUN,
        "{lengths:?}"
    );
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_named() {
    let place = Place::new();
    filled(&place).await;
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.execute("UPDATE event SET json = '{\"type\": \"REPLY_START\"}' WHERE seq = 7", []).unwrap();
    file.execute("DELETE FROM event WHERE seq = 20", []).unwrap();
    let store = place.open(StoreOptions::new()).await;
    let log = store.log("ses_root").await.unwrap();
    let error = of_read(log.read(0, 10).await);
    assert!(matches!(&error, StoreError::Unreadable { seq: 7, .. }), "{error:?}");
    assert!(error.to_string().starts_with("event 7 of the session `ses_root` cannot be read: "), "{error}");
    let error = of_read(log.read(10, 100).await);
    assert!(matches!(&error, StoreError::Unreadable { seq: 20, .. }), "{error:?}");
    assert_eq!(follow(&log, 20, 2_000, 100).await, conversation(40)[20..]);
    let found = store.reader().check().await.unwrap();
    assert_eq!(found, ["the session `ses_root` has event 21 behind 19"]);
}

#[tokio::test]
async fn readers_of_other_processes_are_not_harmed_by_a_fault() {
    let place = Place::new();
    let store = place.open(StoreOptions::new().file_bytes(100_000)).await;
    let log = store.create("ses_root").await.unwrap();
    let all = conversation(40);
    log.append(&all[..50]).unwrap();
    store.flush().await.unwrap();
    log.append(&all[50..]).unwrap();
    assert!(matches!(store.flush().await, Err(StoreError::DiskFull(_))));
    let reader = StoreReader::open(place.path()).await.unwrap();
    assert_eq!(reader.events("ses_root", 0, 1_000).await.unwrap(), Batch::Events(all[..50].to_vec()));
}
