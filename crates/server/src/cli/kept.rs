//! Where sessions and threads are kept.

use std::{path::PathBuf, time::Duration};

use anabranch_store::{Retention, Store, StoreError};

use super::serve::Options;
use crate::{Limits, MemoryLogs, Server, StoreLogs};

/// How many threads of a tenant are in the file, where no more may be open.
const THREADS: usize = 1_000;

/// Where sessions and threads are kept.
#[derive(Debug)]
pub(super) enum Kept {
    InFile(StoreLogs, Store),
    InMemory(MemoryLogs),
}

/// The file of sessions cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeptError {
    /// It could not be opened.
    #[error("sessions cannot be kept in `{}`; choose another file with --store, or keep none with --memory", path.display())]
    Open { path: PathBuf, source: StoreError },
    /// Something was not written.
    #[error("not all events could be written to `{}`", path.display())]
    Close { path: PathBuf, source: StoreError },
}

impl Kept {
    pub(super) async fn open(options: &Options) -> Result<Self, KeptError> {
        let [events, bytes, age] = [options.keep_events, options.keep_bytes, options.keep_for];
        if options.memory {
            let few = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            let logs = MemoryLogs::new(bytes.map_or(Limits::default().log, |bytes| few(bytes.get())));
            let logs = events.map_or(logs.clone(), |events| logs.events(few(events.get())));
            let logs = age.map_or(logs.clone(), |age| logs.age(Duration::from_secs(age.get())));
            return Ok(Self::InMemory(logs));
        }
        let retention = Retention::all();
        let retention = events.map_or(retention, |events| retention.events(events.get()));
        let retention = bytes.map_or(retention, |bytes| retention.bytes(bytes.get()));
        let retention = age.map_or(retention, |age| retention.age(Duration::from_secs(age.get())));
        let store = StoreLogs::options().retention(retention);
        let store = match options.max_store {
            Some(bytes) => store.file_bytes(bytes.get()),
            None => store,
        };
        let path = options.store.clone();
        let store = Store::open(&path, store).await.map_err(|source| KeptError::Open { path, source })?;
        tracing::info!(file = %store.path().display(), "sessions are kept");
        let threads = options.max_threads.get().max(THREADS);
        Ok(Self::InFile(StoreLogs::new(store.clone()).threads(threads), store))
    }

    /// A server that keeps its sessions and threads so.
    pub(super) fn serve(&self, server: Server) -> Server {
        match self {
            Self::InFile(logs, _) => server.logs(logs.clone()),
            Self::InMemory(logs) => server.logs(logs.clone()),
        }
    }

    /// Writes what is still to be written.
    pub(super) async fn close(self) -> Result<(), KeptError> {
        let Self::InFile(_, store) = self else { return Ok(()) };
        store.close().await.map_err(|source| KeptError::Close { path: store.path().to_owned(), source })
    }
}
