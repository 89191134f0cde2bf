//! What the tests share.

use std::path::PathBuf;

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
