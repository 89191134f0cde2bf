//! Files of earlier and later versions, and what other programs read in a file.

use std::fs;

use anabranch_proto::native;
use anabranch_session::{
    EventLog as _,
    conformance::{RUN, conversation, durable, follow},
};
use anabranch_store::{Retention, SessionQuery, Store, StoreError, StoreOptions, StoreReader};
use rusqlite::{Connection, types::ValueRef};

use crate::support::Place;

const VERSION_1: &str = include_str!("fixtures/version-1.sql");

/// A file as version 1 wrote it: 60 events of `ses_root`, which was cut off, and 50 of `ses_done`.
fn of_version_1(place: &Place) {
    Connection::open(place.path()).unwrap().execute_batch(VERSION_1).unwrap();
}

fn number(place: &Place, sql: &str) -> i64 {
    Connection::open(place.path()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

fn lines(place: &Place, sql: &str) -> Vec<String> {
    let connection = Connection::open(place.path()).unwrap();
    let mut query = connection.prepare(sql).unwrap();
    let columns = query.column_count();
    let text = |row: &rusqlite::Row<'_>, column| match row.get_ref(column)? {
        ValueRef::Null => Ok("-".to_owned()),
        ValueRef::Integer(number) => Ok(number.to_string()),
        text @ (ValueRef::Text(_) | ValueRef::Real(_) | ValueRef::Blob(_)) => Ok(text.as_str()?.to_owned()),
    };
    let line = |row: &rusqlite::Row<'_>| {
        let texts: rusqlite::Result<Vec<_>> = (0..columns).map(|column| text(row, column)).collect();
        Ok(texts?.join("|"))
    };
    query.query_map([], line).unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn a_file_of_version_1_is_brought_up_and_goes_on() {
    let place = Place::new();
    of_version_1(&place);
    let all = conversation(2);
    let store = place.open(StoreOptions::new().retention(Retention::all().events(1))).await;
    assert_eq!(number(&place, "PRAGMA user_version"), 3);
    let unfinished = store.reader().roots(SessionQuery::new().unfinished()).await.unwrap();
    assert_eq!(unfinished.iter().map(|root| root.id.as_str()).collect::<Vec<_>>(), ["ses_root"]);
    assert_eq!((unfinished[0].owner.as_deref(), unfinished[0].forgotten, unfinished[0].last), (None, 0, 60));
    let bytes = "SELECT sum(length(CAST(json AS BLOB))) FROM event WHERE root = 1";
    assert_eq!(i64::try_from(unfinished[0].bytes).unwrap(), number(&place, bytes));
    let log = store.log("ses_root").await.unwrap();
    assert_eq!(follow(&log, 0, 60, 100).await, all[..60]);
    // Between its two runs nothing was running: version 1 did not say so.
    assert_eq!(lines(&place, "SELECT root, seq, bytes FROM pause"), ["1|50|15407", "2|50|15407"]);
    store.retain().await.unwrap();
    let kept = log.forgotten().await.unwrap().unwrap();
    assert_eq!((kept.upto, kept.conversation.len()), (RUN, 2));
    log.append(&all[60..]).unwrap();
    durable(&log, 2 * RUN).await;
    assert_eq!(follow(&log, RUN, 2 * RUN, 100).await, all[50..]);
    assert_eq!(lines(&place, "SELECT root, seq FROM pause"), ["1|50", "1|100", "2|50"]);
    assert_eq!(store.reader().check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_of_version_2_is_brought_up_and_says_when_its_sessions_were_made() {
    let place = Place::new();
    of_version_1(&place);
    let connection = Connection::open(place.path()).unwrap();
    connection.execute_batch(include_str!("../../schema/2.sql")).unwrap();
    connection
        .execute_batch(
            "UPDATE root SET owner = 'alice'; INSERT INTO root (id, epoch, owner) VALUES ('ses_new', 'e', 'alice'); \
             INSERT INTO session (root, id, depth, name, task, status, runs) \
             VALUES (last_insert_rowid(), 'ses_new', 0, '', '', 'idle', 0); PRAGMA user_version = 2",
        )
        .unwrap();
    drop(connection);
    let store = place.open(StoreOptions::new()).await;
    assert_eq!(number(&place, "PRAGMA user_version"), 3);
    let all = conversation(2);
    let roots = store.reader().roots(SessionQuery::new().owner("alice")).await.unwrap();
    let seen = roots.iter().map(|root| (root.id.as_str(), root.created_at, root.label.as_deref()));
    let first = Some(all[0].event.created_at);
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [("ses_new", None, None), ("ses_done", first, None), ("ses_root", first, None)]
    );
    for session in ["ses_root", "ses_new"] {
        assert_eq!(store.reader().origin(session).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_file_that_was_brought_up_has_the_schema_of_a_new_one() {
    let (old, new) = (Place::new(), Place::new());
    of_version_1(&old);
    old.open(StoreOptions::new()).await.close().await.unwrap();
    new.open(StoreOptions::new()).await.close().await.unwrap();
    let schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";
    assert_eq!(lines(&old, schema), lines(&new, schema));
    for pragma in ["PRAGMA application_id", "PRAGMA user_version", "PRAGMA journal_mode"] {
        assert_eq!(lines(&old, pragma), lines(&new, pragma));
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_brought_up_stays_as_it_was() {
    let place = Place::new();
    of_version_1(&place);
    // What the migration would make.
    Connection::open(place.path()).unwrap().execute_batch("CREATE TABLE pause (theirs)").unwrap();
    let before = lines(&place, "SELECT sql FROM sqlite_schema UNION ALL SELECT json FROM event");
    assert!(matches!(Store::open(place.path(), StoreOptions::new()).await, Err(StoreError::Database(_))));
    assert_eq!(lines(&place, "SELECT sql FROM sqlite_schema UNION ALL SELECT json FROM event"), before);
    assert_eq!(number(&place, "PRAGMA user_version"), 1);
    // Without that it can.
    Connection::open(place.path()).unwrap().execute_batch("DROP TABLE pause").unwrap();
    place.open(StoreOptions::new()).await;
}

#[tokio::test]
async fn a_file_of_a_later_version_is_refused_and_left_alone() {
    let place = Place::new();
    place.open(StoreOptions::new()).await.close().await.unwrap();
    Connection::open(place.path()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(place.path()).unwrap();
    let error = Store::open(place.path(), StoreOptions::new()).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, known: 3 }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the file has version 99 of the schema and this program knows 3; use a later program"
    );
    assert!(matches!(StoreReader::open(place.path()).await, Err(StoreError::Newer { .. })));
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[tokio::test]
async fn a_reader_brings_no_file_up() {
    let place = Place::new();
    of_version_1(&place);
    let error = StoreReader::open(place.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::Older { found: 1, known: 3 }), "{error:?}");
    place.open(StoreOptions::new()).await.close().await.unwrap();
    StoreReader::open(place.path()).await.unwrap();
}

#[tokio::test]
async fn other_programs_read_sessions_spawns_and_events_in_views() {
    let place = Place::new();
    let store = place.open(StoreOptions::new()).await;
    let log = store.create_for("alice", "ses_root").await.unwrap();
    let all = conversation(2);
    log.append(&all[..60]).unwrap();
    store.create("ses_empty").await.unwrap();
    store.flush().await.unwrap();
    // While it is open.
    assert_eq!(
        lines(&place, "SELECT root, owner, label, name, status, first, last, bytes FROM roots"),
        ["ses_root|alice|-|agent|running|1|60|19084", "ses_empty|-|-||idle|1|0|0"]
    );
    assert_eq!(
        lines(&place, "SELECT tree, session, parent, mechanism, task, status, runs FROM sessions"),
        [
            "agent|ses_root|-|-||running|2",
            "  reader|ses_0|ses_root|sync|Run reader task|completed|1",
            "  reader|ses_1|ses_root|sync|Run reader task|running|1",
            "|ses_empty|-|-||idle|0"
        ]
    );
    // RFC-0014's `spawn_start` is under the parent, and before any event of the child.
    assert_eq!(
        lines(&place, "SELECT seq, session, event_type, child, run, mechanism, name, task FROM spawns"),
        [
            "2|ses_root|spawn_start|ses_0|1|sync|reader|Run reader task",
            "52|ses_root|spawn_start|ses_1|1|sync|reader|Run reader task"
        ]
    );
    assert_eq!(
        lines(
            &place,
            "SELECT min(seq), session FROM events WHERE root = 'ses_root' GROUP BY session ORDER BY 1"
        ),
        ["1|ses_root", "3|ses_0", "53|ses_1"]
    );
    // Each line is one of the native spelling, with its number.
    let mut reader = native::Reader::default();
    let read: Vec<_> = lines(&place, "SELECT json FROM events WHERE root = 'ses_root'");
    for (line, admitted) in read.iter().zip(&all) {
        let line = reader.read(line).unwrap();
        assert_eq!((line.seq, line.event), (Some(admitted.seq), (*admitted.event).clone()));
    }
    assert_eq!(read.len(), 60);
    assert_eq!(
        lines(
            &place,
            "SELECT group_concat(json ->> '$.event.delta', '') FROM events WHERE session = 'ses_1'"
        ),
        ["word 0 word 1 word 2 word 3 word 4 "]
    );
}

#[tokio::test]
async fn a_deep_tree_is_shown_in_its_order_with_the_runs_of_each() {
    use anabranch_proto::{
        ChildScope, Event, EventKind, Metadata, Outcome, Scope, SpawnMechanism, Timestamp, event,
    };
    let place = Place::new();
    let log = place.log(StoreOptions::new()).await;
    let scope = |id: &str, parent: &str, depth, run| {
        ChildScope::new(id, parent, format!("sa_{id}"), format!("name of {id}")).depth(depth).run(run)
    };
    let spawn = |id: &str, parent: &str, depth, run| -> EventKind {
        let mechanism = if run == 1 { SpawnMechanism::AsyncWorker } else { SpawnMechanism::Manual };
        event::SpawnSessionStart::new(&scope(id, parent, depth, run), mechanism, format!("run {run}")).into()
    };
    let in_scope = |id: &str, parent: &str, depth| Scope::from(scope(id, parent, depth, 1));
    let end = |outcome| -> EventKind { event::StreamComplete::new(outcome).into() };
    let update = event::SessionUpdated::new("b", 1_u32).description(Some("learnt".to_owned()));
    let events: Vec<(Scope, EventKind)> = vec![
        (Scope::Root, event::UserMessage::new("m", vec![], event::MessageOrigin::User).into()),
        (Scope::Root, spawn("a", "ses_root", 1, 1)),
        (Scope::Root, spawn("b", "ses_root", 1, 1)),
        (in_scope("a", "ses_root", 1), spawn("a1", "a", 2, 1)),
        (in_scope("a1", "a", 2), spawn("a11", "a1", 3, 1)),
        (in_scope("b", "ses_root", 1), spawn("b1", "b", 2, 1)),
        (Scope::Root, update.into()),
        (in_scope("a11", "a1", 3), end(Outcome::TimedOut)),
        (in_scope("a1", "a", 2), end(Outcome::Failed)),
        (in_scope("a", "ses_root", 1), spawn("a1", "a", 2, 2)),
    ];
    let events: Vec<_> = events.into_iter().zip(1_u32..).collect();
    let admitted: Vec<_> = events
        .into_iter()
        .map(|((scope, kind), seq)| {
            let at = Timestamp::from_unix(0, 0);
            let event = Event::new(format!("e{seq}").as_str(), at, scope, Metadata::default(), kind);
            anabranch_proto::Admitted::new(seq.into(), event.into())
        })
        .collect();
    log.append(&admitted).unwrap();
    durable(&log, 10).await;
    assert_eq!(
        lines(&place, "SELECT tree, mechanism, task, status, runs FROM sessions"),
        [
            "|-||running|1",
            "  name of a|async_worker|run 1|running|1",
            "    name of a1|manual|run 2|running|2",
            "      name of a11|async_worker|run 1|timed_out|1",
            "  name of b|async_worker|learnt|running|1",
            "    name of b1|async_worker|run 1|running|1",
        ]
    );
}
