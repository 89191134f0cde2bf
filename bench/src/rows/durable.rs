//! Appending to a durable log, against its engine's own inserts.

use std::{path::Path, time::Instant};

use anabranch_proto::{Admitted, native};
use anabranch_session::{EventLog as _, EventProcessor, Limits};
use anabranch_store::{Store, StoreOptions};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use super::encode::Sample;
use crate::{
    measure::{Scale, in_turn, runtime, wall},
    report::{Budget, Row, Unit},
};

/// How many rows the engine has in a transaction: what the store has at most in a commit.
const COMMIT: usize = 8_192;

/// A session's events until they are on disk.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let events = admitted(scale.events / 4);
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let count = events.len() as f64;
    let lines: Vec<_> = events.iter().map(Line::of).collect();
    let mut ours = || appended(&events) / count;
    let mut floor = || inserted(&lines) / count;
    let series = in_turn(scale.rounds.min(5), &mut [&mut ours, &mut floor]);
    vec![
        Row::new(
            "durable",
            "durable append, group commit, share of SQLite's own rate",
            series.ratio(1, 0),
            Unit::Times,
            Budget::AtLeast(0.7),
        )
        .source(
            "on the wall, text deltas of a child until a flush; the engine inserts rows that were made before, 8,192 in a \
             transaction, with the same schema and safety",
        )
        .beside("ours", series.median(0), Unit::Nanos)
        .beside("SQLite", series.median(1), Unit::Nanos),
    ]
}

/// A child's events, as a processor admits them.
fn admitted(pieces: usize) -> Vec<Admitted> {
    let Sample { stamp, caller, prelude, events, .. } = Sample::new(pieces);
    let mut processor = EventProcessor::new(caller.session_id.clone(), Limits::default());
    let mut admitted = Vec::new();
    for event in prelude.into_iter().chain(events) {
        processor.process(event, &*stamp, &mut admitted);
    }
    admitted
}

/// Nanoseconds from the first append until all is on disk.
fn appended(events: &[Admitted]) -> f64 {
    let folder = folder();
    runtime().block_on(async {
        let store = Store::open(folder.path().join("ours.db"), StoreOptions::new()).await.expect("it opens");
        let log = store.create("ses_bench").await.expect("the session is new");
        let before = Instant::now();
        for batch in events.chunks(64) {
            if let Some(room) = log.room() {
                room.await;
            }
            log.append(batch).expect("there is room");
        }
        store.flush().await.expect("the disk takes it");
        #[expect(clippy::cast_precision_loss, reason = "a run takes seconds")]
        let elapsed = before.elapsed().as_nanos() as f64;
        store.close().await.expect("it closes");
        elapsed
    })
}

/// A row that was made before.
struct Line {
    seq: i64,
    kind: String,
    at: String,
    json: String,
}

impl Line {
    fn of(Admitted { seq, event, .. }: &Admitted) -> Self {
        let mut json = Vec::new();
        native::write(Some(*seq), event, &mut json).expect("an event has a spelling");
        Self {
            seq: i64::try_from(*seq).expect("there are few"),
            kind: event.kind.tag().to_owned(),
            at: event.created_at.to_string(),
            json: String::from_utf8(json).expect("JSON is text"),
        }
    }
}

/// Nanoseconds of the engine's inserts.
fn inserted(lines: &[Line]) -> f64 {
    let folder = folder();
    let mut connection = opened(&folder.path().join("engine.db"));
    wall(|| {
        for commit in lines.chunks(COMMIT) {
            let transaction = connection.transaction().expect("nobody else has it");
            {
                let mut insert = transaction
                    .prepare_cached("INSERT INTO event (root, seq, session, kind, at, json) VALUES (1, ?1, 1, ?2, ?3, ?4)")
                    .expect("there is such a table");
                for Line { seq, kind, at, json } in commit {
                    insert.execute(params![seq, kind, at, json]).expect("the disk takes it");
                }
            }
            transaction.commit().expect("the disk takes it");
        }
    })
}

fn opened(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("it opens");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE event (
                 root INTEGER NOT NULL, seq INTEGER NOT NULL, session INTEGER NOT NULL,
                 kind TEXT NOT NULL, at TEXT NOT NULL, json TEXT NOT NULL,
                 PRIMARY KEY (root, seq)
             ) STRICT, WITHOUT ROWID;
             CREATE INDEX spawn ON event (root, session) WHERE kind = 'SPAWN_SESSION_START';",
        )
        .expect("the schema is sound");
    connection
}

fn folder() -> TempDir {
    // Beside the program: a folder for temporary files may be in memory.
    let here = std::env::current_exe().expect("this program is somewhere");
    TempDir::with_prefix_in("durable-", here.parent().expect("it is in a folder"))
        .expect("it can be written to")
}
