//! Who writes: one store at a time, in whatever process.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use crate::StoreError;

/// The right to write to a database file, for as long as this lives.
///
/// A lock of the system on a file beside it, whose name ends in `-lock`: it goes with the process, however that ends. The
/// database's own locks are no use for this, for they are taken and given back with each transaction.
#[derive(Debug)]
pub(crate) struct WriterLock(#[expect(dead_code, reason = "the lock goes with the file")] File);

impl WriterLock {
    /// Takes the lock, or says who has it.
    pub(crate) fn take(database: &Path) -> Result<Self, StoreError> {
        let path = lock_path(database);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| StoreError::cannot_open(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: database.to_owned() }),
            Err(TryLockError::Error(error)) => Err(StoreError::cannot_open(&path, error)),
        }
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = OsString::from(database);
    path.push("-lock");
    path.into()
}

/// Which file a path names: whether the one that is open is still the one that others find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    #[cfg(unix)]
    device_and_number: (u64, u64),
}

impl FileIdentity {
    /// That of the file at a path; none where there is none.
    #[cfg(unix)]
    pub(crate) fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self { device_and_number: (metadata.dev(), metadata.ino()) })
    }

    /// Whether there is one: where an open file can be neither deleted nor replaced, it is the same.
    #[cfg(not(unix))]
    pub(crate) fn of(path: &Path) -> Option<Self> {
        path.exists().then_some(Self {})
    }
}
