//! The thread that writes.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, Weak},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anabranch_proto::{Admitted, SessionId, Timestamp};
use rusqlite::{Connection, TransactionBehavior, params};
use ulid::Ulid;

use crate::{
    NewRoot, StoreError,
    encode::Encoder,
    forget,
    insert::{self, Known, Rest},
    lock::{FileIdentity, WriterLock},
    log::Log,
    pool::Pool,
    schema,
    shared::{Next, Shared},
};

/// How many events, and about how many bytes of them, one commit has at most, in equal parts for the sessions that have
/// some; each has a few hundred however many there are.
const COMMIT_EVENTS: usize = 8_192;
const COMMIT_BYTES: usize = 8 << 20;

/// Of how many events in the file it is known by their ids that they are not appended again.
const LAST_IDS: u32 = 64;

/// After a fault, how long until what waits is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How often the store looks for what is old enough to be forgotten.
const AGE_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// The one that writes to the file.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    connection: Connection,
    file: Option<FileIdentity>,
    logs: HashMap<SessionId, Weak<Log>>,
    /// None after a panic: what was under way is nobody's.
    encoder: Option<Encoder>,
    /// Nothing is tried before.
    not_before: Option<Instant>,
    /// What was forgotten and is still in the file.
    garbage: Vec<forget::Garbage>,
    ages_at: Option<Instant>,
    /// Goes last.
    _lock: WriterLock,
}

impl Writer {
    /// Opens the file, and looks at what was left in it.
    pub(crate) fn open(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let lock = WriterLock::take(&shared.path)?;
        let connection = schema::open_writer(&shared.path, &shared.options)?;
        let mut this = Self {
            shared: Arc::clone(shared),
            file: FileIdentity::of(&shared.path),
            garbage: forget::left_over(&connection)?,
            connection,
            logs: HashMap::new(),
            encoder: None,
            not_before: None,
            ages_at: None,
            _lock: lock,
        };
        this.look_for_old();
        Ok(this)
    }

    /// Writes until the store is closed. Gives why something was not written in the end.
    pub(crate) fn run(mut self, readers: &Pool) -> Result<(), StoreError> {
        loop {
            let rest = if self.garbage.is_empty() { self.ages_at } else { Some(Instant::now()) };
            match self.shared.next(self.not_before, rest) {
                Next::Command(command) => {
                    if catch_unwind(AssertUnwindSafe(|| command(&mut self))).is_err() {
                        tracing::error!("the store's writer panicked");
                        self.reset();
                    }
                }
                Next::Write => {
                    // What waits is tried again, unless it is that what panics: then the store has a fault.
                    let written = catch_unwind(AssertUnwindSafe(|| self.write()));
                    if written.is_err() {
                        tracing::error!("the store's writer panicked");
                        self.reset();
                        self.fault(&StoreError::Thread("the writer panicked".to_owned()), Vec::new());
                    }
                }
                Next::Rest => self.rest(),
                Next::Close => return self.end(readers),
            }
        }
    }

    fn end(mut self, readers: &Pool) -> Result<(), StoreError> {
        // From here on nothing is taken; what was is written.
        self.shared.set_fault(&StoreError::Closed);
        // The last connection folds the write-ahead log into the file.
        readers.close();
        let written = self.write_rest();
        if written.is_ok() {
            // So that the file alone has everything. Where somebody reads it still does with the one beside it.
            let checkpoint = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            if let Err(error) = checkpoint {
                tracing::warn!(%error, "the store's write-ahead log was not folded into its file");
            }
        }
        written
    }

    /// Writes all that waits now; what comes meanwhile is not waited for.
    pub(crate) fn write_all(&mut self) -> Result<(), StoreError> {
        let mut logs = self.shared.take_dirty();
        let mut wanted: Vec<_> = logs.iter().map(|log| (Arc::clone(log), log.last())).collect();
        while !wanted.is_empty() {
            self.commit(logs)?;
            wanted.retain(|(log, last)| !log.is_durable(*last) && !log.has_failed());
            logs = self.shared.take_dirty();
        }
        self.shared.put_back(logs, Instant::now());
        Ok(())
    }

    /// Writes all there is, when nothing more comes.
    fn write_rest(&mut self) -> Result<(), StoreError> {
        loop {
            let logs = self.shared.take_dirty();
            if logs.is_empty() {
                return Ok(());
            }
            self.commit(logs)?;
        }
    }

    fn write(&mut self) {
        let logs = self.shared.take_dirty();
        // A fault is known to whoever waits.
        self.commit(logs).ok();
    }

    /// Writes what waits of some logs, as much as one commit takes. What is left waits again.
    fn commit(&mut self, logs: Vec<Arc<Log>>) -> Result<(), StoreError> {
        let mut batches: Vec<(Arc<Log>, Vec<Admitted>)> = Vec::new();
        let each = |all: usize, least: usize| (all / logs.len().max(1)).max(least);
        let (events, bytes) = (each(COMMIT_EVENTS, 256), each(COMMIT_BYTES, 64 << 10));
        for log in logs {
            if log.has_failed() {
                continue;
            }
            let batch = log.waiting(events, bytes);
            if !batch.is_empty() {
                batches.push((log, batch));
            }
        }
        let mut paused = Vec::new();
        loop {
            if batches.is_empty() {
                // What could not be written is not wanted any more; whether the next can be is seen then.
                self.shared.clear_fault();
                return Ok(());
            }
            match self.transaction(&batches, &mut paused) {
                Ok(()) => break,
                Err((index, error @ StoreError::Unwritable { .. })) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "a session's log ends here");
                    let (log, _) = batches.swap_remove(index);
                    log.fail(error);
                }
                Err((_, error)) => {
                    self.fault(&error, batches.into_iter().map(|(log, _)| log).collect());
                    return Err(error);
                }
            }
        }
        self.not_before = None;
        if self.shared.clear_fault() {
            tracing::info!("the store writes again");
        }
        let mut more = Vec::new();
        for (log, batch) in batches {
            let last = batch.last().map_or(0, |admitted| admitted.seq);
            if log.committed(last) {
                more.push(log);
            }
        }
        self.shared.put_back(more, Instant::now() + self.shared.options.linger);
        paused.dedup();
        for root in paused {
            self.retain(root);
        }
        Ok(())
    }

    /// Writes some batches, or none. An error is of the batch with the index.
    fn transaction(
        &mut self,
        batches: &[(Arc<Log>, Vec<Admitted>)],
        paused: &mut Vec<i64>,
    ) -> Result<(), (usize, StoreError)> {
        paused.clear();
        let written = self.try_transaction(batches, paused);
        if written.is_err() {
            // What was noted of them is of rows that are not there.
            for (log, _) in batches {
                *log.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        written
    }

    fn try_transaction(
        &mut self,
        batches: &[(Arc<Log>, Vec<Admitted>)],
        paused: &mut Vec<i64>,
    ) -> Result<(), (usize, StoreError)> {
        let of_all = |error: rusqlite::Error| (0, error.into());
        if self.file.is_none() || FileIdentity::of(&self.shared.path) != self.file {
            return Err((0, StoreError::Gone { path: self.shared.path.clone() }));
        }
        let now = now();
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.map_err(of_all)?;
        let encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => Encoder::start().map_err(|error| (0, error))?,
        };
        let written =
            encoder.each(batches.iter().map(|(_, batch)| batch.as_slice()), |index, events, made| {
                let Some((log, _)) = batches.get(index) else { return Ok(()) };
                let mut known = log.known.lock().unwrap_or_else(PoisonError::into_inner);
                let known = match &mut *known {
                    Some(known) => known,
                    none @ None => none.insert(Known::load(&transaction, log.root, &log.id)?),
                };
                if known.insert(&transaction, (log.root, &log.id), events, made, now)? == Rest::Paused {
                    paused.push(log.root);
                }
                Ok(())
            });
        // Not after a panic, which leaves something under way.
        self.encoder = Some(encoder);
        written?;
        transaction.commit().map_err(of_all)
    }

    /// What waits is not written now, and tried again in a while.
    fn fault(&mut self, error: &StoreError, logs: Vec<Arc<Log>>) {
        // Another program's transaction ends by itself, and what waits may wait as long as there is room.
        let may_wait = matches!(error, StoreError::Locked(_)) && logs.iter().all(|log| log.has_room());
        if may_wait {
            tracing::warn!("another program keeps the store locked; what is appended waits");
        } else if !matches!(self.shared.fault(), Some(StoreError::Closed)) {
            tracing::error!(error = error as &dyn std::error::Error, "the store does not write");
            self.shared.set_fault(error);
        }
        if !may_wait {
            for log in &logs {
                log.faulty(error);
            }
        }
        let again = Instant::now() + if may_wait { RETRY / 20 } else { RETRY };
        self.not_before = Some(again);
        self.shared.put_back(logs, again);
    }

    /// After a panic: what it was about is rolled back, and read anew.
    fn reset(&mut self) {
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").ok();
        }
        for log in self.logs.values().filter_map(Weak::upgrade) {
            *log.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
            // Those that were taken out to be written are not lost.
            if log.is_waiting() {
                self.shared.put_back([log], Instant::now() + RETRY);
            }
        }
    }

    /// The log of a session that is there.
    pub(crate) fn log(&mut self, id: &SessionId) -> Result<Arc<Log>, StoreError> {
        if let Some(log) = self.logs.get(id).and_then(Weak::upgrade) {
            return Ok(log);
        }
        let found = insert::root(&self.connection, id)?;
        let (root, epoch, last, forgotten) =
            found.ok_or_else(|| StoreError::NoSession { session: id.clone() })?;
        let ids = insert::last_ids(&self.connection, root, LAST_IDS)?;
        let log = Log::new((id.clone(), epoch, root), (last, forgotten), ids, &self.shared.options);
        let log = Arc::new(log);
        self.logs.retain(|_, log| log.strong_count() > 0);
        self.logs.insert(id.clone(), Arc::downgrade(&log));
        Ok(log)
    }

    /// The log of a session that is made.
    pub(crate) fn create(&mut self, new: &NewRoot) -> Result<Arc<Log>, StoreError> {
        let id = &new.id;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if insert::root(&transaction, id)?.is_some() {
            return Err(StoreError::Exists { session: id.clone() });
        }
        if let Some(session) = insert::labelled(&transaction, new)? {
            return Err(StoreError::Labelled { session });
        }
        Known::create(&transaction, new, &Ulid::generate().to_string(), time())?;
        transaction.commit()?;
        self.log(id)
    }

    /// Deletes a session and all that it had.
    pub(crate) fn delete(&mut self, id: &SessionId) -> Result<bool, StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Some((root, ..)) = insert::root(&transaction, id)? else { return Ok(false) };
        for table in ["event", "pause", "session"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE root = ?1"), [root])?;
        }
        transaction.execute("DELETE FROM root WHERE number = ?1", [root])?;
        transaction.commit()?;
        self.garbage.retain(|garbage| garbage.root != root);
        if let Some(log) = self.logs.remove(id).and_then(|log| log.upgrade()) {
            log.fail(StoreError::Deleted { session: id.clone() });
            self.shared.forget(root);
        }
        Ok(true)
    }

    /// Forgets what is beyond the retention, in all sessions. Says how many events.
    pub(crate) fn retain_all(&mut self) -> Result<u64, StoreError> {
        self.write_all()?;
        let roots: Vec<i64> = {
            let mut query = self.connection.prepare_cached("SELECT DISTINCT root FROM pause")?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut forgotten = 0;
        for root in roots {
            forgotten += self.try_retain(root)?;
        }
        while !self.garbage.is_empty() {
            self.sweep()?;
        }
        Ok(forgotten)
    }

    fn retain(&mut self, root: i64) {
        if let Err(error) = self.try_retain(root) {
            tracing::warn!(error = &error as &dyn std::error::Error, "nothing was forgotten of a session");
        }
    }

    fn try_retain(&mut self, root: i64) -> Result<u64, StoreError> {
        let Some(done) = forget::forget(&mut self.connection, root, self.shared.options.retention, now())?
        else {
            return Ok(0);
        };
        if let Some(log) = self.logs.get(&done.session).and_then(Weak::upgrade) {
            log.forget(done.garbage.upto);
        }
        self.garbage.push(done.garbage);
        Ok(done.events)
    }

    /// What can wait until there is nothing else to do.
    fn rest(&mut self) {
        if self.garbage.is_empty() {
            self.look_for_old();
        } else if let Err(error) = self.sweep() {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "forgotten events are still in the file"
            );
            self.garbage.clear();
        }
    }

    /// Takes some of what was forgotten out of the file.
    fn sweep(&mut self) -> Result<(), StoreError> {
        if let Some(garbage) = self.garbage.last()
            && garbage.sweep(&mut self.connection)?
        {
            self.garbage.pop();
        }
        Ok(())
    }

    fn look_for_old(&mut self) {
        let Some(age) = self.shared.options.retention.age else { return };
        self.ages_at = Some(Instant::now() + AGE_INTERVAL.min(age.max(RETRY)));
        let before = now().saturating_sub(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
        let old = || -> rusqlite::Result<Vec<i64>> {
            let mut query = self.connection.prepare_cached(
                "SELECT DISTINCT pause.root FROM pause JOIN root ON root.number = pause.root \
                 WHERE pause.at <= ?1 AND pause.seq > root.forgotten",
            )?;
            let rows = query.query_map(params![before], |row| row.get(0))?;
            rows.collect()
        };
        match old() {
            Ok(roots) => roots.into_iter().for_each(|root| self.retain(root)),
            Err(error) => tracing::warn!(%error, "the store could not look for what is old"),
        }
    }
}

/// Now.
fn time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
