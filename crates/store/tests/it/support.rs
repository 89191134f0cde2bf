//! What the tests share.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_store::{SessionLog, Store, StoreOptions};
use tempfile::TempDir;

/// A folder that goes with the test, and a file in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::with_prefix_in("store-", env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sessions.db")
    }

    pub(crate) async fn open(&self, options: StoreOptions) -> Store {
        Store::open(self.path(), options).await.unwrap()
    }

    /// The log of a new session in a new store.
    pub(crate) async fn log(&self, options: StoreOptions) -> SessionLog {
        self.open(options).await.create("ses_root").await.unwrap()
    }
}

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// Another program that keeps the file locked for writing.
pub(crate) struct Hold(rusqlite::Connection);

impl Hold {
    pub(crate) fn of(path: &Path) -> Self {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}
