//! What is asked of the database.

use anabranch_proto::{Admitted, Json, Message, SessionId, SpawnMechanism, Timestamp, native};
use anabranch_session::{Forgotten, Status};
use rusqlite::{Connection, OptionalExtension as _, Row, Rows, params};

use crate::{SessionQuery, StoreError, StoredRoot, StoredSession, insert::outcome, tail::READ_BYTES};

/// The events behind a number up to another, as many as one read gives.
pub(crate) fn events(
    connection: &Connection,
    (root, id): (i64, &SessionId),
    after: u64,
    upto: u64,
) -> Result<Vec<Admitted>, StoreError> {
    let mut query = connection.prepare_cached(
        "SELECT seq, json FROM event WHERE root = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq",
    )?;
    let mut rows = query.query(params![root, signed(after), signed(upto)])?;
    let events = read(&mut rows, id)?;
    for (seq, admitted) in (after + 1..=upto).zip(&events) {
        if admitted.seq != seq {
            return Err(unreadable(id, seq, "it is missing"));
        }
    }
    if events.is_empty() && after < upto {
        return Err(unreadable(id, after + 1, "it is missing"));
    }
    Ok(events)
}

/// The spawns of a session's children, behind a number.
pub(crate) fn spawn_starts(
    connection: &Connection,
    id: &SessionId,
    parent: &SessionId,
    after: u64,
    max: usize,
) -> Result<Vec<Admitted>, StoreError> {
    let mut query = connection.prepare_cached(
        "SELECT event.seq, event.json FROM root \
         JOIN session ON session.root = root.number AND session.id = ?2 \
         JOIN event ON event.root = root.number AND event.session = session.number \
         WHERE root.id = ?1 AND event.kind = 'SPAWN_SESSION_START' \
         AND event.seq > max(root.forgotten, ?3) ORDER BY event.seq LIMIT ?4",
    )?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let mut rows = query.query(params![id.as_str(), parent.as_str(), signed(after), max])?;
    read(&mut rows, id)
}

fn read(rows: &mut Rows<'_>, id: &SessionId) -> Result<Vec<Admitted>, StoreError> {
    let mut reader = native::Reader::default();
    let (mut events, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let seq = unsigned(row.get(0)?);
        let json = row.get_ref(1)?.as_str().map_err(|error| unreadable(id, seq, error.to_string()))?;
        let line = reader.read(json).map_err(|error| unreadable(id, seq, error.to_string()))?;
        events.push(Admitted::new(seq, line.event.into()));
        bytes += json.len();
        if bytes >= READ_BYTES {
            break;
        }
    }
    Ok(events)
}

/// What the forgotten events of a session came to.
pub(crate) fn forgotten(connection: &Connection, id: &SessionId) -> Result<Option<Forgotten>, StoreError> {
    let found = connection
        .prepare_cached("SELECT forgotten, conversation FROM root WHERE id = ?1 AND forgotten > 0")?
        .query_row([id.as_str()], |row| Ok((unsigned(row.get(0)?), row.get::<_, String>(1)?)))
        .optional()?;
    let Some((upto, conversation)) = found else { return Ok(None) };
    let conversation: Vec<Message> =
        serde_json::from_str(&conversation).map_err(|error| unreadable(id, 0, error.to_string()))?;
    Ok(Some(Forgotten::new(upto, conversation)))
}

/// The root's number, and up to where it was forgotten.
pub(crate) fn place(connection: &Connection, id: &SessionId) -> Result<(i64, u64, u64), StoreError> {
    let found = crate::insert::root(connection, id)?;
    let (root, _, last, forgotten) = found.ok_or_else(|| StoreError::NoSession { session: id.clone() })?;
    Ok((root, last, forgotten))
}

const ROOTS: &str = "SELECT root.id, root.epoch, root.owner, session.name, session.status, root.forgotten, \
    max(root.forgotten, coalesce((SELECT max(seq) FROM event WHERE event.root = root.number), 0)), \
    root.bytes - coalesce((SELECT bytes FROM pause WHERE pause.root = root.number AND pause.seq = root.forgotten), 0), \
    EXISTS (SELECT 1 FROM session WHERE session.root = root.number AND session.status = 'running'), \
    session.started_at, session.ended_at, root.created_at, root.label, root.origin IS NOT NULL \
    FROM root JOIN session ON session.root = root.number AND session.id = root.id";

/// Root sessions, the newest first.
pub(crate) fn roots(connection: &Connection, query: &SessionQuery) -> Result<Vec<StoredRoot>, StoreError> {
    let sql = format!(
        "{ROOTS} WHERE (?1 IS NULL OR root.owner = ?1) \
         AND (?2 IS NULL OR root.number < (SELECT number FROM root WHERE id = ?2)) \
         AND (?3 = 0 OR root.number IN (SELECT root FROM session WHERE status = 'running')) \
         AND (?5 IS NULL OR root.label = ?5) \
         ORDER BY root.number DESC LIMIT ?4"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let before = query.before.as_ref().map(SessionId::as_str);
    let max = query.max.map_or(-1, |max| i64::try_from(max).unwrap_or(i64::MAX));
    let mut rows = statement.query(params![query.owner, before, query.unfinished, max, query.label])?;
    let mut roots = Vec::new();
    while let Some(row) = rows.next()? {
        roots.push(stored_root(row)?);
    }
    Ok(roots)
}

/// One root session.
pub(crate) fn root(connection: &Connection, id: &SessionId) -> Result<StoredRoot, StoreError> {
    let mut statement = connection.prepare_cached(&format!("{ROOTS} WHERE root.id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    let Some(row) = rows.next()? else { return Err(StoreError::NoSession { session: id.clone() }) };
    stored_root(row)
}

fn stored_root(row: &Row<'_>) -> Result<StoredRoot, StoreError> {
    let id = SessionId::from(row.get::<_, String>(0)?);
    Ok(StoredRoot {
        epoch: row.get(1)?,
        owner: row.get(2)?,
        name: row.get(3)?,
        status: status(&id, &row.get::<_, String>(4)?)?,
        forgotten: unsigned(row.get(5)?),
        last: unsigned(row.get(6)?),
        bytes: unsigned(row.get(7)?),
        is_unfinished: row.get(8)?,
        started_at: time(row, 9)?,
        ended_at: time(row, 10)?,
        created_at: time(row, 11)?,
        label: row.get(12)?,
        has_origin: row.get(13)?,
        id,
    })
}

/// What a root session was made of.
pub(crate) fn origin(connection: &Connection, id: &SessionId) -> Result<Option<Json>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT origin FROM root WHERE id = ?1")?;
    let found = statement.query_row([id.as_str()], |row| row.get::<_, Option<String>>(0)).optional()?;
    let text = found.ok_or_else(|| StoreError::NoSession { session: id.clone() })?;
    text.map(|text| Json::parse(&text).map_err(|error| unreadable(id, 0, error.to_string()))).transpose()
}

/// The sessions of a tree, in the order in which they became known.
pub(crate) fn sessions(connection: &Connection, id: &SessionId) -> Result<Vec<StoredSession>, StoreError> {
    let (root, ..) = place(connection, id)?;
    let mut statement = connection.prepare_cached(
        "SELECT id, parent, depth, name, mechanism, task, status, runs, started_at, ended_at \
         FROM session WHERE root = ?1 ORDER BY number",
    )?;
    let mut rows = statement.query([root])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        let mechanism: Option<String> = row.get(4)?;
        sessions.push(StoredSession {
            id: SessionId::from(row.get::<_, String>(0)?),
            parent: row.get::<_, Option<String>>(1)?.map(SessionId::from),
            depth: row.get(2)?,
            name: row.get(3)?,
            mechanism: mechanism.map(|name| self::mechanism(id, &name)).transpose()?,
            task: row.get(5)?,
            status: status(id, &row.get::<_, String>(6)?)?,
            runs: row.get(7)?,
            started_at: time(row, 8)?,
            ended_at: time(row, 9)?,
        });
    }
    Ok(sessions)
}

/// What is wrong with the file, and with the numbers of its events.
pub(crate) fn check(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut found: Vec<String> = Vec::new();
    for pragma in ["PRAGMA integrity_check(100)", "PRAGMA foreign_key_check"] {
        let mut statement = connection.prepare(pragma)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get_ref(0)?.as_str().unwrap_or("a row").to_owned();
            if text != "ok" {
                found.push(text);
            }
        }
    }
    let mut statement = connection.prepare(
        "SELECT root.id, event.before, event.seq FROM ( \
            SELECT root, seq, lag(seq) OVER (PARTITION BY root ORDER BY seq) AS before FROM event \
         ) AS event JOIN root ON root.number = event.root \
         WHERE event.seq > root.forgotten \
         AND event.seq <> max(coalesce(event.before, 0), root.forgotten) + 1 LIMIT 100",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, before, seq): (String, Option<i64>, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        found.push(format!("the session `{id}` has event {seq} behind {}", before.unwrap_or(0)));
    }
    Ok(found)
}

fn status(root: &SessionId, name: &str) -> Result<Status, StoreError> {
    match name {
        "idle" => Ok(Status::Idle),
        "running" => Ok(Status::Running),
        name => outcome(name)
            .map(Status::Ended)
            .ok_or_else(|| unreadable(root, 0, format!("`{name}` is no status of a session"))),
    }
}

fn mechanism(root: &SessionId, name: &str) -> Result<SpawnMechanism, StoreError> {
    let all = [SpawnMechanism::Sync, SpawnMechanism::AsyncWorker, SpawnMechanism::Manual];
    all.into_iter()
        .find(|mechanism| mechanism.as_str() == name)
        .ok_or_else(|| unreadable(root, 0, format!("`{name}` creates no session")))
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    // One that cannot be read is not known.
    Ok(row.get::<_, Option<String>>(column)?.and_then(|text| text.parse().ok()))
}

pub(crate) fn unreadable(session: &SessionId, seq: u64, problem: impl Into<String>) -> StoreError {
    StoreError::Unreadable { session: session.clone(), seq, problem: problem.into() }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
