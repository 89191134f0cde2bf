//! What a store is told to forget.

use anabranch_proto::{Message, SessionId, native};
use anabranch_session::MessageAccumulator;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::{Retention, StoreError};

/// How many events are taken out of the file at once: others wait meanwhile.
const SWEEP: u32 = 2_000;

/// Events that are forgotten and still in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Garbage {
    pub(crate) root: i64,
    pub(crate) upto: u64,
}

/// What was forgotten.
pub(crate) struct Done {
    pub(crate) session: SessionId,
    pub(crate) garbage: Garbage,
    /// How many events it was.
    pub(crate) events: u64,
}

/// What was forgotten before the store was closed or its process ended, and is still in the file.
pub(crate) fn left_over(connection: &Connection) -> rusqlite::Result<Vec<Garbage>> {
    let mut query = connection.prepare(
        "SELECT number, forgotten FROM root WHERE forgotten > 0 \
         AND EXISTS (SELECT 1 FROM event WHERE event.root = root.number AND event.seq <= root.forgotten)",
    )?;
    let garbage = query.query_map([], |row| {
        let upto: i64 = row.get(1)?;
        Ok(Garbage { root: row.get(0)?, upto: u64::try_from(upto).unwrap_or(0) })
    })?;
    garbage.collect()
}

impl Garbage {
    /// Takes some of it out of the file. Says whether nothing is left.
    pub(crate) fn sweep(&self, connection: &mut Connection) -> Result<bool, StoreError> {
        let upto = i64::try_from(self.upto).unwrap_or(i64::MAX);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let swept = transaction
            .prepare_cached(
                "DELETE FROM event WHERE root = ?1 AND seq <= \
                 min(?2, (SELECT min(seq) + ?3 FROM event WHERE root = ?1))",
            )?
            .execute(params![self.root, upto, SWEEP])?;
        transaction
            .prepare_cached("DELETE FROM pause WHERE root = ?1 AND seq < ?2")?
            .execute(params![self.root, upto])?;
        transaction.commit()?;
        Ok(swept <= SWEEP as usize)
    }
}

/// Forgets what is beyond the retention of one session, and keeps what its conversation came to.
pub(crate) fn forget(
    connection: &mut Connection,
    root: i64,
    retention: Retention,
    now: i64,
) -> Result<Option<Done>, StoreError> {
    if retention == Retention::all() {
        return Ok(None);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(record) = Record::load(&transaction, root)? else { return Ok(None) };
    let cut = record.cut(&transaction, retention, now)?.unwrap_or(0);
    if cut <= record.forgotten {
        return Ok(None);
    }
    let conversation = record.conversation(&transaction, cut)?;
    let conversation = serde_json::to_string(&conversation).map_err(|error| record.unreadable(0, &error))?;
    transaction.execute(
        "UPDATE root SET forgotten = ?2, conversation = ?3 WHERE number = ?1",
        params![root, cut, conversation],
    )?;
    transaction.commit()?;
    let upto = u64::try_from(cut).unwrap_or(0);
    let events = u64::try_from(cut - record.forgotten).unwrap_or(0);
    Ok(Some(Done { session: record.id, garbage: Garbage { root, upto }, events }))
}

/// A root session, as far as forgetting needs it.
struct Record {
    root: i64,
    id: SessionId,
    forgotten: i64,
    last: i64,
    bytes: i64,
    /// How many of them are of events that are forgotten.
    forgotten_bytes: i64,
    conversation: String,
}

impl Record {
    fn load(transaction: &Transaction<'_>, root: i64) -> rusqlite::Result<Option<Self>> {
        transaction
            .prepare_cached(
                "SELECT id, forgotten, bytes, conversation, \
                 max(forgotten, coalesce((SELECT max(seq) FROM event WHERE event.root = root.number), 0)), \
                 coalesce((SELECT bytes FROM pause WHERE pause.root = root.number AND seq = forgotten), 0) \
                 FROM root WHERE number = ?1",
            )?
            .query_row([root], |row| {
                Ok(Self {
                    root,
                    id: SessionId::from(row.get::<_, String>(0)?),
                    forgotten: row.get(1)?,
                    bytes: row.get(2)?,
                    conversation: row.get(3)?,
                    last: row.get(4)?,
                    forgotten_bytes: row.get(5)?,
                })
            })
            .optional()
    }

    /// Up to where to forget.
    fn cut(
        &self,
        transaction: &Transaction<'_>,
        retention: Retention,
        now: i64,
    ) -> rusqlite::Result<Option<i64>> {
        let pause = |sql: &str, value: i64| -> rusqlite::Result<Option<i64>> {
            transaction.prepare_cached(sql)?.query_row(params![self.root, value], |row| row.get(0))
        };
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        // The first pause behind which little enough lies; the end where there is none.
        let mut fits = None;
        if let Some(events) = retention.events
            && let from = self.last.saturating_sub(signed(events))
            && from > self.forgotten
        {
            let found = pause("SELECT min(seq) FROM pause WHERE root = ?1 AND seq >= ?2", from)?;
            fits = fits.max(Some(found.unwrap_or(self.last)));
        }
        if let Some(bytes) = retention.bytes
            && let from = self.bytes.saturating_sub(signed(bytes))
            && from > self.forgotten_bytes
        {
            let found = pause("SELECT min(seq) FROM pause WHERE root = ?1 AND bytes >= ?2", from)?;
            fits = fits.max(Some(found.unwrap_or(self.last)));
        }
        // The last run is kept whatever it has.
        if fits == Some(self.last) {
            fits = pause("SELECT max(seq) FROM pause WHERE root = ?1 AND seq < ?2", self.last)?;
        }
        let mut too_old = None;
        if let Some(age) = retention.age {
            let sql = "SELECT max(seq) FROM pause WHERE root = ?1 AND at <= ?2";
            too_old = pause(sql, now.saturating_sub(signed(age.as_secs())))?;
        }
        Ok(fits.max(too_old))
    }

    /// The root's conversation up to a number.
    fn conversation(&self, transaction: &Transaction<'_>, cut: i64) -> Result<Vec<Message>, StoreError> {
        let before: Vec<Message> =
            serde_json::from_str(&self.conversation).map_err(|error| self.unreadable(0, &error))?;
        let mut messages = MessageAccumulator::from(before);
        let mut query = transaction.prepare_cached(
            "SELECT event.seq, event.json FROM event JOIN session ON session.number = event.session \
             WHERE event.root = ?1 AND event.seq > ?2 AND event.seq <= ?3 AND session.parent IS NULL \
             ORDER BY event.seq",
        )?;
        let mut rows = query.query(params![self.root, self.forgotten, cut])?;
        let mut reader = native::Reader::default();
        while let Some(row) = rows.next()? {
            let json = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            let line = reader.read(json).map_err(|error| self.unreadable(row.get(0).unwrap_or(0), &error))?;
            messages.apply(&line.event);
        }
        Ok(messages.into_messages())
    }

    fn unreadable(&self, seq: i64, problem: &dyn std::error::Error) -> StoreError {
        StoreError::Unreadable {
            session: self.id.clone(),
            seq: u64::try_from(seq).unwrap_or(0),
            problem: problem.to_string(),
        }
    }
}
