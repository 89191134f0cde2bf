//! The database's schema and its versions.

use std::{io, path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::{Safety, StoreError, StoreOptions};

/// Says in the file's header whose it is: "anab".
const APPLICATION: i64 = 0x616e_6162;

/// What leads from each version to the next. Never changed once released: a later version is a further entry.
const MIGRATIONS: &[&str] =
    &[include_str!("../schema/1.sql"), include_str!("../schema/2.sql"), include_str!("../schema/3.sql")];

/// What others read, as the latest version has it.
const VIEWS: &str = include_str!("../schema/views.sql");

/// How many statements a connection keeps prepared: as many as there are.
const STATEMENTS: usize = 64;

/// The latest version.
pub(crate) fn latest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Opens the connection that writes, and brings the file to the latest version.
pub(crate) fn open_writer(path: &Path, options: &StoreOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = open(path, flags, options.lock_wait)?;
    migrate(&mut connection, path)?;
    // A property of the file, which readers of other programs find set.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    let synchronous = match options.safety {
        Safety::PowerLoss => "FULL",
        Safety::ProcessEnd => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // Whoever deletes a row here deletes what refers to it first; that a row is there to refer to would be looked up with
    // every event, and with every session that is deleted all events would be gone through.
    connection.pragma_update(None, "foreign_keys", false)?;
    if let Some(bytes) = options.file_bytes {
        let page: u32 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let pages = i64::try_from(bytes / u64::from(page.max(1))).unwrap_or(i64::MAX).max(1);
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    Ok(connection)
}

/// Opens a connection that only reads.
pub(crate) fn open_reader(path: &Path, lock_wait: Duration) -> Result<Connection, StoreError> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, lock_wait)?;
    let (found, known) = (version(&connection, path)?, latest());
    match found {
        Some(found) if found > known => Err(StoreError::Newer { found, known }),
        Some(found) if found < known => Err(StoreError::Older { found, known }),
        Some(_) => Ok(connection),
        None => Err(StoreError::Foreign { path: path.to_owned() }),
    }
}

fn open(path: &Path, flags: OpenFlags, lock_wait: Duration) -> Result<Connection, StoreError> {
    if path.is_dir() {
        return Err(StoreError::cannot_open(path, io::ErrorKind::IsADirectory.into()));
    }
    // Each connection is used by one thread at a time, and a path is a path.
    let opened = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let connection = opened.map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) => StoreError::cannot_open(path, io::Error::other(error)),
        Some(_) | None => error.into(),
    })?;
    connection.busy_timeout(lock_wait)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// The file's version; none where it is empty.
fn version(connection: &Connection, path: &Path) -> Result<Option<i64>, StoreError> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id").map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::Foreign { path: path.to_owned() },
        Some(ErrorCode::CannotOpen) => StoreError::cannot_open(path, io::Error::other(error)),
        Some(_) | None => error.into(),
    })?;
    let found = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    match application {
        APPLICATION => Ok(Some(found)),
        0 if found == 0 && tables == 0 => Ok(None),
        _ => Err(StoreError::Foreign { path: path.to_owned() }),
    }
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    // Read first, so that a file of another program is refused without having been written to.
    version(connection, path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (found, known) = (version(&transaction, path)?.unwrap_or(0), latest());
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(migration)?;
    }
    if found < known {
        transaction.execute_batch(VIEWS)?;
    }
    // Also where nothing changes: a file that cannot be written is refused here, and not at the first event.
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}
