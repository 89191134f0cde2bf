//! Events as rows.

use std::collections::{HashMap, HashSet};

use anabranch_proto::{
    Admitted, Event, EventId, EventKind, Json, Outcome, Scope, SessionId, SpawnMechanism, Timestamp,
    event::MessageOrigin,
};
use rusqlite::{
    Connection, ErrorCode, OptionalExtension as _, ToSql, params,
    types::{ToSqlOutput, ValueRef},
};

use crate::{NewRoot, StoreError, encode::Encoded};

/// What the database has of one tree.
#[derive(Debug)]
pub(crate) struct Known {
    /// The sessions' numbers.
    sessions: HashMap<SessionId, i64>,
    root_session: i64,
    /// Those with an open run.
    running: HashSet<i64>,
    /// The bytes of the JSON of all events.
    bytes: u64,
}

/// What is written by a batch that ends where nothing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// A run ended within it, and nothing ran then.
    Paused,
    Unchanged,
}

/// Text that is bytes of JSON.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

impl Known {
    /// Makes a root session, which is its tree's first session.
    pub(crate) fn create(
        connection: &Connection,
        new: &NewRoot,
        epoch: &str,
        now: Timestamp,
    ) -> rusqlite::Result<i64> {
        let NewRoot { id, owner, label, origin, created_at } = new;
        connection
            .prepare_cached(
                "INSERT INTO root (id, epoch, owner, label, origin, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                id.as_str(),
                epoch,
                owner,
                label,
                origin.as_ref().map(Json::as_str),
                created_at.unwrap_or(now).to_string()
            ])?;
        let root = connection.last_insert_rowid();
        connection
            .prepare_cached(
                "INSERT INTO session (root, id, depth, name, task, status, runs) VALUES (?1, ?2, 0, '', '', 'idle', 0)",
            )?
            .execute(params![root, id.as_str()])?;
        Ok(root)
    }

    /// Reads what the database has.
    pub(crate) fn load(connection: &Connection, root: i64, id: &SessionId) -> rusqlite::Result<Self> {
        let bytes: i64 = connection
            .prepare_cached("SELECT bytes FROM root WHERE number = ?1")?
            .query_row([root], |row| row.get(0))?;
        let mut query = connection
            .prepare_cached("SELECT number, id, status = 'running' FROM session WHERE root = ?1")?;
        let mut rows = query.query([root])?;
        let (mut sessions, mut running) = (HashMap::new(), HashSet::new());
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            sessions.insert(SessionId::from(row.get::<_, String>(1)?), number);
            if row.get(2)? {
                running.insert(number);
            }
        }
        let root_session = sessions.get(id).copied().ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(Self { sessions, root_session, running, bytes: u64::try_from(bytes).unwrap_or(0) })
    }

    /// Writes some events within a transaction.
    pub(crate) fn insert(
        &mut self,
        connection: &Connection,
        (root, id): (i64, &SessionId),
        events: &[Admitted],
        made: Result<Encoded, (u64, String)>,
        now: i64,
    ) -> Result<Rest, StoreError> {
        let unwritable = |seq, problem| StoreError::Unwritable { session: id.clone(), seq, problem };
        let made = made.map_err(|(seq, problem)| unwritable(seq, problem))?;
        let mut rest = Rest::Unchanged;
        let mut insert = connection.prepare_cached(
            "INSERT INTO event (root, seq, session, kind, at, json) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        // Mostly that of the last.
        let mut last: Option<(&Scope, i64)> = None;
        for (Admitted { seq, event, .. }, (json, at)) in events.iter().zip(made.texts()) {
            let session = match last {
                Some((scope, session)) if scope.same_run(&event.scope) => session,
                Some(_) | None => self.session(connection, root, event)?,
            };
            last = Some((&event.scope, session));
            let number = i64::try_from(*seq).unwrap_or(i64::MAX);
            let row = params![root, number, session, event.kind.tag(), at, Text(json)];
            insert.execute(row).map_err(|error| match error.sqlite_error_code() {
                Some(ErrorCode::TooBig | ErrorCode::ConstraintViolation) => {
                    unwritable(*seq, error.to_string())
                }
                Some(_) | None => error.into(),
            })?;
            self.bytes += json.len() as u64;
            if self.note(connection, root, session, event, at)? == Rest::Paused {
                let mut pause = connection
                    .prepare_cached("INSERT INTO pause (root, seq, bytes, at) VALUES (?1, ?2, ?3, ?4)")?;
                pause.execute(params![root, number, i64::try_from(self.bytes).unwrap_or(i64::MAX), now])?;
                rest = Rest::Paused;
            }
        }
        connection
            .prepare_cached("UPDATE root SET bytes = ?2 WHERE number = ?1")?
            .execute(params![root, i64::try_from(self.bytes).unwrap_or(i64::MAX)])?;
        Ok(rest)
    }

    /// The number of the session whose an event is. One that nobody announced is added.
    fn session(&mut self, connection: &Connection, root: i64, event: &Event) -> rusqlite::Result<i64> {
        let Scope::Child(child) = &event.scope else { return Ok(self.root_session) };
        if let Some(number) = self.sessions.get(&child.child_session_id) {
            return Ok(*number);
        }
        self.add(
            connection,
            root,
            &child.child_session_id,
            &child.parent_session_id,
            child.depth,
            &child.source_name,
        )
    }

    fn add(
        &mut self,
        connection: &Connection,
        root: i64,
        id: &SessionId,
        parent: &SessionId,
        depth: u32,
        name: &str,
    ) -> rusqlite::Result<i64> {
        connection
            .prepare_cached(
                "INSERT INTO session (root, id, parent, depth, name, task, status, runs) \
                 VALUES (?1, ?2, ?3, ?4, ?5, '', 'idle', 0)",
            )?
            .execute(params![root, id.as_str(), parent.as_str(), depth, name])?;
        let number = connection.last_insert_rowid();
        self.sessions.insert(id.clone(), number);
        Ok(number)
    }

    /// Takes note of what an event says of a session.
    fn note(
        &mut self,
        connection: &Connection,
        root: i64,
        session: i64,
        event: &Event,
        at: &str,
    ) -> rusqlite::Result<Rest> {
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            let known = self.sessions.get(&spawn.child_session_id).copied();
            let child = match known {
                Some(child) => child,
                None => self.add(
                    connection,
                    root,
                    &spawn.child_session_id,
                    &spawn.parent_session_id,
                    spawn.depth,
                    &spawn.source_name,
                )?,
            };
            connection
                .prepare_cached(
                    "UPDATE session SET parent = ?2, depth = ?3, name = ?4, mechanism = ?5, task = ?6, \
                     status = 'running', runs = ?7, started_at = ?8, ended_at = NULL WHERE number = ?1",
                )?
                .execute(params![
                    child,
                    spawn.parent_session_id.as_str(),
                    spawn.depth,
                    &*spawn.source_name,
                    spawn.spawn_mechanism.as_str(),
                    spawn.description,
                    spawn.run.unwrap_or(1),
                    at,
                ])?;
            self.running.insert(child);
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            connection
                .prepare_cached(
                    "UPDATE session SET name = coalesce(?3, name), task = coalesce(?4, task), \
                     mechanism = coalesce(?5, mechanism) WHERE root = ?1 AND id = ?2",
                )?
                .execute(params![
                    root,
                    update.child_session_id.as_str(),
                    update.source_name.as_deref(),
                    update.description,
                    update.spawn_mechanism.map(SpawnMechanism::as_str),
                ])?;
        } else if let EventKind::UserMessage(prompt) = &event.kind {
            if session == self.root_session && prompt.origin != MessageOrigin::Steering {
                connection
                    .prepare_cached(
                        "UPDATE session SET status = 'running', runs = runs + 1, started_at = ?2, ended_at = NULL \
                         WHERE number = ?1",
                    )?
                    .execute(params![session, at])?;
                self.running.insert(session);
            }
        } else if let EventKind::ReplyStart(start) = &event.kind {
            if session == self.root_session {
                connection
                    .prepare_cached("UPDATE session SET name = ?2 WHERE number = ?1 AND name <> ?2")?
                    .execute(params![session, &*start.name])?;
            }
        } else if let EventKind::StreamComplete(end) = &event.kind {
            connection
                .prepare_cached("UPDATE session SET status = ?2, ended_at = ?3 WHERE number = ?1")?
                .execute(params![session, end.outcome.as_str(), at])?;
            self.running.remove(&session);
            if self.running.is_empty() {
                return Ok(Rest::Paused);
            }
        }
        Ok(Rest::Unchanged)
    }
}

/// The number of a root session, its epoch, and the numbers of its last event and of the last that was forgotten.
pub(crate) fn root(
    connection: &Connection,
    id: &SessionId,
) -> rusqlite::Result<Option<(i64, String, u64, u64)>> {
    connection
        .prepare_cached(
            "SELECT number, epoch, forgotten, \
             max(forgotten, coalesce((SELECT max(seq) FROM event WHERE event.root = root.number), 0)) \
             FROM root WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| {
            let number = |value: i64| u64::try_from(value).unwrap_or(0);
            Ok((row.get(0)?, row.get(1)?, number(row.get(3)?), number(row.get(2)?)))
        })
        .optional()
}

/// The session of the owner's that has the new one's label.
pub(crate) fn labelled(connection: &Connection, new: &NewRoot) -> rusqlite::Result<Option<SessionId>> {
    connection
        .prepare_cached("SELECT id FROM root WHERE coalesce(owner, '') = coalesce(?1, '') AND label = ?2")?
        .query_row(params![new.owner, new.label], |row| row.get::<_, String>(0).map(SessionId::from))
        .optional()
}

/// The ids of the last events of a root, at most so many, in order.
pub(crate) fn last_ids(connection: &Connection, root: i64, max: u32) -> rusqlite::Result<Vec<EventId>> {
    let mut query = connection.prepare_cached(
        "SELECT coalesce(json ->> '$.event.id', json ->> '$.id') FROM event WHERE root = ?1 ORDER BY seq DESC LIMIT ?2",
    )?;
    let ids = query.query_map(params![root, max], |row| row.get::<_, String>(0).map(EventId::new))?;
    let mut ids: Vec<_> = ids.collect::<Result<_, _>>()?;
    ids.reverse();
    Ok(ids)
}

/// The outcome of that name.
pub(crate) fn outcome(name: &str) -> Option<Outcome> {
    const ALL: [Outcome; 5] = [
        Outcome::Completed,
        Outcome::Failed,
        Outcome::TimedOut,
        Outcome::Interrupted,
        Outcome::ExceedMaxIters,
    ];
    ALL.into_iter().find(|outcome| outcome.as_str() == name)
}
