//! Who may open a file, and what is said where it cannot be.

use std::fs;

use anabranch_proto::SessionId;
use anabranch_session::{Batch, EventLog as _, conformance::conversation};
use anabranch_store::{SessionQuery, Store, StoreError, StoreOptions, StoreReader};

use crate::support::Place;

async fn open(place: &Place) -> Result<Store, StoreError> {
    Store::open(place.path(), StoreOptions::new()).await
}

#[tokio::test]
async fn a_file_has_one_writer_and_any_number_of_readers() {
    let place = Place::new();
    let store = open(&place).await.unwrap();
    let error = open(&place).await.unwrap_err();
    assert!(matches!(&error, StoreError::InUse { path } if *path == place.path()), "{error:?}");
    let log = store.create("ses_root").await.unwrap();
    let all = conversation(1);
    log.append(&all).unwrap();
    store.flush().await.unwrap();
    let readers =
        [StoreReader::open(place.path()).await.unwrap(), StoreReader::open(place.path()).await.unwrap()];
    for reader in &readers {
        assert_eq!(reader.events("ses_root", 0, 100).await.unwrap(), Batch::Events(all.clone()));
    }
    store.close().await.unwrap();
    open(&place).await.unwrap();
}

#[tokio::test]
async fn a_file_of_something_else_is_left_alone() {
    let place = Place::new();
    for content in
        [&b"This is no database, but a text that is long enough to be looked at as one."[..], &[0; 4096]]
    {
        fs::write(place.path(), content).unwrap();
        let error = open(&place).await.unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");
        assert_eq!(fs::read(place.path()).unwrap(), content, "it was changed");
        let error = StoreReader::open(place.path()).await.unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");
    }
    fs::remove_file(place.path()).unwrap();
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(other);
    let before = fs::read(place.path()).unwrap();
    assert!(matches!(open(&place).await, Err(StoreError::Foreign { .. })));
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[tokio::test]
async fn a_place_where_no_file_can_be_is_said() {
    let place = Place::new();
    for path in [place.folder.path().join("missing/sessions.db"), place.folder.path().to_owned()] {
        let error = Store::open(&path, StoreOptions::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
        let error = StoreReader::open(&path).await.unwrap_err();
        assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
    }
    // A reader makes no file.
    assert!(matches!(StoreReader::open(place.path()).await, Err(StoreError::CannotOpen { .. })));
    assert!(!place.path().exists());
}

#[tokio::test]
async fn a_session_is_made_once_found_by_its_name_and_told_apart_by_its_epoch() {
    let place = Place::new();
    let store = open(&place).await.unwrap();
    let first = store.create("ses_1").await.unwrap();
    let again = store.create("ses_1").await.unwrap_err();
    assert!(matches!(again, StoreError::Exists { session } if session == SessionId::from("ses_1")));
    assert!(matches!(store.log("ses_2").await, Err(StoreError::NoSession { .. })));
    let shared = store.log("ses_1").await.unwrap();
    first.append(&conversation(1)).unwrap();
    assert_eq!((shared.last(), shared.epoch()), (50, first.epoch()));
    let epoch = first.epoch().to_owned();
    assert!(store.delete("ses_1").await.unwrap());
    assert!(!store.delete("ses_1").await.unwrap());
    let second = store.create("ses_1").await.unwrap();
    assert_ne!(second.epoch(), epoch);
    assert_eq!(second.last(), 0);
    // Its log is another.
    assert!(first.append(&conversation(2)).is_err());
    let error = first.read(0, 1).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert!(matches!(source.downcast_ref(), Some(StoreError::Deleted { .. })));
    second.append(&conversation(1)[..3]).unwrap();
    store.flush().await.unwrap();
    assert_eq!(store.reader().root("ses_1").await.unwrap().last, 3);
}

#[tokio::test]
async fn sessions_are_listed_by_page_and_owner_and_trees_are_shown() {
    let place = Place::new();
    let store = open(&place).await.unwrap();
    for number in 0..5 {
        store.create_for("alice", format!("a{number}")).await.unwrap();
        store.create_for("bob", format!("b{number}")).await.unwrap();
    }
    let log = store.create("ses_root").await.unwrap();
    log.append(&conversation(3)[..110]).unwrap();
    store.flush().await.unwrap();
    let reader = store.reader();
    let ids = async |query| {
        let roots = reader.roots(query).await.unwrap();
        roots.into_iter().map(|root| root.id.to_string()).collect::<Vec<_>>().join(" ")
    };
    let alice = SessionQuery::new().owner("alice");
    assert_eq!(ids(alice.clone()).await, "a4 a3 a2 a1 a0");
    assert_eq!(ids(alice.clone().max(2)).await, "a4 a3");
    assert_eq!(ids(alice.clone().max(2).before("a3")).await, "a2 a1");
    assert_eq!(ids(alice.before("nobody")).await, "");
    assert_eq!(ids(SessionQuery::new().owner("'; DROP TABLE root; --")).await, "");
    assert_eq!(ids(SessionQuery::new().max(3)).await, "ses_root b4 a4");
    assert_eq!(ids(SessionQuery::new().unfinished()).await, "ses_root");
    let root = reader.root("ses_root").await.unwrap();
    assert_eq!((root.name.as_str(), root.last, root.forgotten, root.is_unfinished), ("agent", 110, 0, true));
    let tree = reader.sessions("ses_root").await.unwrap();
    let tree: Vec<_> = tree
        .iter()
        .map(|session| {
            let parent = session.parent.as_ref().map_or("-", |parent| parent.as_str());
            format!(
                "{} {parent} {} {} {} {:?}",
                session.id, session.depth, session.name, session.runs, session.status
            )
        })
        .collect();
    let child = |number: u32, status: &str| format!("ses_{number} ses_root 1 reader 1 {status}");
    let done = "Ended(Completed)";
    let root = "ses_root - 0 agent 3 Running".to_owned();
    assert_eq!(tree, [root, child(0, done), child(1, done), child(2, "Running")]);
    let spawns = log.spawn_starts(&"ses_root".into(), 52, 10).await.unwrap();
    assert_eq!(spawns.iter().map(|spawn| spawn.seq).collect::<Vec<_>>(), [102]);
}
