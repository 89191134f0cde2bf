//! How fast events become durable: appended by several sessions to a store, beside rows of the same JSON that SQLite takes
//! in transactions of many, with nothing else to do.
//!
//! ```sh
//! cargo run --release -p anabranch-store --example rate -- [FOLDER]
//! ```

use std::{env, error::Error, path::Path, time::Instant};

use anabranch_proto::{Admitted, native};
use anabranch_session::{EventLog as _, conformance::conversation};
use anabranch_store::{Store, StoreOptions};
use rusqlite::{Connection, TransactionBehavior, params};

/// How many sessions write at once, and how many events each.
const SESSIONS: usize = 8;
const RUNS: u64 = 500;

/// How many events a session appends at once.
const BATCH: usize = 16;

/// How many rows a transaction has where SQLite is alone: as many as bring no more.
const ROWS: usize = 8_192;

/// Each is measured so often, in turn, and the fastest counts: others use the machine too.
const TIMES: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1);
    let folder = folder.map_or_else(tempfile::tempdir, tempfile::tempdir_in)?;
    let events = conversation(RUNS);
    let lines: Vec<(String, String, String)> = events.iter().map(line).collect::<Result<_, _>>()?;
    let rows = events.len() * SESSIONS;
    let (mut engine, mut store) = (0.0_f64, 0.0_f64);
    for time in 0..TIMES {
        let path = folder.path().join(format!("engine-{time}.db"));
        engine = engine.max(rate(rows, alone(&path, &lines)?));
        let path = folder.path().join(format!("store-{time}.db"));
        store = store.max(rate(rows, stored(&path, &events).await?));
    }
    println!("SQLite alone, {ROWS} rows a transaction: {engine:.0} rows/s");
    println!("store, {SESSIONS} sessions, {BATCH} events an append: {store:.0} events/s");
    println!("ratio: {:.2}", store / engine);
    Ok(())
}

fn line(admitted: &Admitted) -> Result<(String, String, String), Box<dyn Error>> {
    let mut json = Vec::new();
    native::write(Some(admitted.seq), &admitted.event, &mut json)?;
    let event = &admitted.event;
    Ok((event.kind.tag().to_owned(), event.created_at.to_string(), String::from_utf8(json)?))
}

#[expect(clippy::cast_precision_loss, reason = "a rate is read by people")]
fn rate(rows: usize, seconds: f64) -> f64 {
    rows as f64 / seconds
}

/// The same rows in the same table and with the same safety, made before: those of each session together in each
/// transaction, all sessions in each.
fn alone(path: &Path, lines: &[(String, String, String)]) -> Result<f64, Box<dyn Error>> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(include_str!("../schema/1.sql"))?;
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;")?;
    let start = Instant::now();
    let mut seq = 0;
    for chunk in lines.chunks(ROWS / SESSIONS) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut insert = transaction.prepare_cached(
            "INSERT INTO event (root, seq, session, kind, at, json) VALUES (?1, ?2, ?1, ?3, ?4, ?5)",
        )?;
        for root in 1..=i64::try_from(SESSIONS)? {
            for ((kind, at, json), seq) in chunk.iter().zip(seq + 1..) {
                insert.execute(params![root, seq, kind, at, json])?;
            }
        }
        seq += i64::try_from(chunk.len())?;
        drop(insert);
        transaction.commit()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// From the first append until all is durable.
async fn stored(path: &Path, events: &[Admitted]) -> Result<f64, Box<dyn Error>> {
    let store = Store::open(path, StoreOptions::new()).await?;
    let mut logs = Vec::new();
    for number in 0..SESSIONS {
        logs.push(store.create(format!("root_{number}")).await?);
    }
    let start = Instant::now();
    for batch in events.chunks(BATCH) {
        for log in &logs {
            while let Some(room) = log.room() {
                room.await;
            }
            log.append(batch)?;
        }
    }
    store.flush().await?;
    let elapsed = start.elapsed().as_secs_f64();
    store.close().await?;
    Ok(elapsed)
}
