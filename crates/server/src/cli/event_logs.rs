//! Sessions' events in files, as their logs admit them.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    mem,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anabranch_adapters::{Encode as _, EncodeError, encode::NativeLines};
use anabranch_remote::nats::Produced;
use anabranch_runtime::{Order, Read, Reader, Session};
use futures::StreamExt as _;
use tokio::{runtime::Handle, task::JoinSet};

use super::nats::file_name;

/// How many events are written at once, where so many are at hand.
const BATCH: usize = 64;

/// How long what is not written yet may take when the sessions have ended.
const ENDING: Duration = Duration::from_secs(5);

/// A folder with a file for each session, of native lines.
#[derive(Debug)]
pub(super) struct EventLogs {
    folder: PathBuf,
    writers: Mutex<JoinSet<Result<(), EventLogError>>>,
}

/// Why a file has not all events of its session.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventLogError {
    #[error("the events cannot be written to {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("an event has no spelling")]
    Spelling(#[from] EncodeError),
    #[error("events {from} to {to} were forgotten before they were written to {}", path.display())]
    Forgotten { path: PathBuf, from: u64, to: u64 },
    #[error("the events were not written in time to {}", .0.display())]
    Late(PathBuf),
    #[error("who writes the events broke off")]
    BrokenOff(#[from] tokio::task::JoinError),
}

impl EventLogs {
    /// Keeps logs in this folder, which is made where it is not there.
    pub(super) fn new(folder: PathBuf) -> Result<Self, EventLogError> {
        fs::create_dir_all(&folder).map_err(|source| unwritable(&folder, source))?;
        Ok(Self { folder, writers: Mutex::default() })
    }

    /// Writes the events of a session from its first, until it ends.
    pub(super) fn keep(&self, session: &Session) {
        let path = self.folder.join(format!("{}.jsonl", session.id()));
        let reader = session.subscribe_lossless(0);
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        // Disks are waited for: on a thread of its own.
        writers.spawn_blocking(move || Handle::current().block_on(write(reader, path)));
    }

    /// Waits for what is still to be written; the sessions have to have ended.
    pub(super) async fn end(&self) -> Result<(), EventLogError> {
        let mut writers = mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        let all_written = async {
            while let Some(written) = writers.join_next().await {
                written??;
            }
            Ok(())
        };
        tokio::time::timeout(ENDING, all_written)
            .await
            .unwrap_or_else(|_| Err(EventLogError::Late(self.folder.clone())))
    }
}

/// A folder with a file for each run of a sub-agent that was ordered, of native lines.
#[derive(Debug)]
pub(super) struct OrderLogs {
    folder: PathBuf,
}

impl OrderLogs {
    /// Keeps logs in this folder, which is made where it is not there.
    pub(super) fn new(folder: PathBuf) -> Result<Self, EventLogError> {
        fs::create_dir_all(&folder).map_err(|source| unwritable(&folder, source))?;
        Ok(Self { folder })
    }

    /// Writes the events of a run, each before it is sent. What cannot be written holds nobody back.
    pub(super) fn keep(&self, order: &Order) -> Produced {
        let Order { session_id, run, attempt, .. } = order;
        let path = self.folder.join(format!("{}.{run}.{attempt}.jsonl", file_name(session_id.as_str())));
        let mut file = File::create(&path).inspect_err(|error| not_written(&path, error)).ok();
        let mut line = Vec::new();
        Box::new(move |event| {
            line.clear();
            let Some(open) = &mut file else { return };
            let written = NativeLines
                .event(Some(event.seq), &event.event, &mut line)
                .map_err(io::Error::other)
                .and_then(|()| open.write_all(&line));
            if let Err(error) = written {
                not_written(&path, &error);
                file = None;
            }
        })
    }
}

fn not_written(path: &Path, error: &io::Error) {
    tracing::warn!(%error, path = %path.display(), "a sub-agent's events are not written");
}

/// What cannot be written holds nobody back: its reader is gone then.
async fn write(reader: Reader, path: PathBuf) -> Result<(), EventLogError> {
    let mut file = File::create(&path).map_err(|source| unwritable(&path, source))?;
    let mut lines = Vec::new();
    let mut batches = reader.ready_chunks(BATCH);
    while let Some(batch) = batches.next().await {
        lines.clear();
        for read in batch {
            match read {
                Read::Event(admitted) => {
                    NativeLines.event(Some(admitted.seq), &admitted.event, &mut lines)?;
                }
                Read::Gap { from, to } => return Err(EventLogError::Forgotten { path, from, to }),
            }
        }
        file.write_all(&lines).map_err(|source| unwritable(&path, source))?;
    }
    Ok(())
}

fn unwritable(path: &Path, source: io::Error) -> EventLogError {
    EventLogError::Io { path: path.to_owned(), source }
}
