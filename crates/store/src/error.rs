//! What can go wrong with a store.

use std::{io, path::PathBuf, sync::Arc};

use anabranch_proto::SessionId;

/// Why a store cannot be opened, read or written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another store, perhaps of another process, has the file open: a file has one writer.
    #[error("`{}` is open in another store; close that one first, or open this one to read only", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// The file, or the one beside it that says who writes, cannot be opened.
    #[error("`{}` cannot be opened; its folder must exist, and both must be accessible", path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// The file is no database, or one of something else.
    #[error("`{}` is not a store of events; choose another file", path.display())]
    Foreign {
        /// The database file.
        path: PathBuf,
    },
    /// A later version of this crate wrote the file.
    #[error("the file has version {found} of the schema and this program knows {known}; use a later program")]
    Newer {
        /// The file's version.
        found: i64,
        /// The latest that is known here.
        known: i64,
    },
    /// An earlier version of this crate wrote the file, which is opened to read only.
    #[error(
        "the file has version {found} of the schema and this program reads {known}; open it for writing once"
    )]
    Older {
        /// The file's version.
        found: i64,
        /// The one that is read here.
        known: i64,
    },
    /// The disk has no room, or the file has grown as large as it may.
    #[error("the disk is full, or the file is as large as it may be; make room")]
    DiskFull(#[source] Arc<rusqlite::Error>),
    /// The file may not be written.
    #[error("the file is read-only; make it and its folder writable")]
    ReadOnly(#[source] Arc<rusqlite::Error>),
    /// Another program kept the database locked for longer than the store waits.
    #[error("another program keeps the database locked; end its transaction")]
    Locked(#[source] Arc<rusqlite::Error>),
    /// The file is damaged.
    #[error("the file is damaged; what can be read of it can be saved with `sqlite3 FILE .recover`")]
    Damaged(#[source] Arc<rusqlite::Error>),
    /// The file was moved, replaced or deleted while the store was open.
    #[error("`{}` was moved, replaced or deleted while it was open; what was appended since is not kept", path.display())]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// Another fault of the database or of the disk.
    #[error("the database failed")]
    Database(#[source] Arc<rusqlite::Error>),
    /// There is no such session.
    #[error("the store has no root session `{session}`")]
    NoSession {
        /// The session.
        session: SessionId,
    },
    /// There is such a session already.
    #[error("the store has a root session `{session}` already")]
    Exists {
        /// The session.
        session: SessionId,
    },
    /// The owner has another session with the label.
    #[error("the owner of the new session has another with its label, `{session}`")]
    Labelled {
        /// The other session.
        session: SessionId,
    },
    /// The session was deleted while its log was open.
    #[error("the session `{session}` was deleted")]
    Deleted {
        /// The session.
        session: SessionId,
    },
    /// Something in the file is none that can be read.
    #[error("event {seq} of the session `{session}` cannot be read: {problem}")]
    Unreadable {
        /// The root session.
        session: SessionId,
        /// The event's number; 0 where what is wrong is in the session's own record.
        seq: u64,
        /// What is wrong.
        problem: String,
    },
    /// An event cannot be written: as JSON, or because it is larger than a database may have.
    #[error("event {seq} of the session `{session}` cannot be written: {problem}")]
    Unwritable {
        /// The root session.
        session: SessionId,
        /// The event's number.
        seq: u64,
        /// What is wrong.
        problem: String,
    },
    /// A thread could not be started, or ended before its time.
    #[error("a thread of the store does not run: {0}")]
    Thread(String),
    /// The store was closed.
    #[error("the store was closed; open it again")]
    Closed,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase, PermissionDenied, ReadOnly,
        };
        let code = error.sqlite_error_code();
        let error = Arc::new(error);
        match code {
            Some(DiskFull) => Self::DiskFull(error),
            Some(ReadOnly | PermissionDenied) => Self::ReadOnly(error),
            Some(DatabaseBusy | DatabaseLocked) => Self::Locked(error),
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged(error),
            Some(_) | None => Self::Database(error),
        }
    }
}

impl StoreError {
    /// The file could not be opened.
    pub(crate) fn cannot_open(path: &std::path::Path, source: io::Error) -> Self {
        Self::CannotOpen { path: path.to_owned(), source: Arc::new(source) }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn what_the_disk_says_is_told_apart() {
        let of = |code| StoreError::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        assert!(matches!(of(ffi::SQLITE_FULL), StoreError::DiskFull(_)));
        for code in [ffi::SQLITE_READONLY, ffi::SQLITE_READONLY_DIRECTORY, ffi::SQLITE_PERM] {
            assert!(matches!(of(code), StoreError::ReadOnly(_)), "{code}");
        }
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED] {
            assert!(matches!(of(code), StoreError::Locked(_)), "{code}");
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_CORRUPT_INDEX, ffi::SQLITE_NOTADB] {
            assert!(matches!(of(code), StoreError::Damaged(_)), "{code}");
        }
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC] {
            assert!(matches!(of(code), StoreError::Database(_)), "{code}");
        }
    }
}
