//! Sessions' events in files, as their logs admit them.

use std::{
    error::Error,
    fs, io, mem,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anabranch_adapters::{Encode as _, EncodeError, encode::NativeLines};
use anabranch_remote::nats::Produced;
use anabranch_runtime::{Order, Read, Reader, Session};
use futures::StreamExt as _;
use tokio::{
    fs::File,
    io::AsyncWriteExt as _,
    task::{JoinError, JoinSet},
};

use super::nats::file_name;

/// How many events are written at once, where so many are at hand.
const BATCH: usize = 64;

/// How long what is not written yet may take when the sessions have ended.
const ENDING: Duration = Duration::from_secs(5);

/// A folder with a file for each session, of native lines.
#[derive(Debug)]
pub(super) struct EventLogs {
    folder: PathBuf,
    writers: Mutex<Writers>,
}

/// Who writes.
#[derive(Debug)]
struct Writers {
    running: JoinSet<Result<(), EventLogError>>,
    /// What came of those that are gone: the first failure, where there was one.
    ended: Result<(), EventLogError>,
}

impl Default for Writers {
    fn default() -> Self {
        Self { running: JoinSet::new(), ended: Ok(()) }
    }
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
    BrokenOff(#[from] JoinError),
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
        while let Some(ended) = writers.running.try_join_next() {
            writers.ended = mem::replace(&mut writers.ended, Ok(())).and(flat(ended));
        }
        writers.running.spawn(async {
            let written = write(reader, path).await;
            if let Err(error) = &written {
                tracing::error!(error = error as &dyn Error, "the events of a session are not kept");
            }
            written
        });
    }

    /// Waits for what is still to be written; the sessions have to have ended.
    pub(super) async fn end(&self) -> Result<(), EventLogError> {
        let Writers { mut running, mut ended } =
            mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        let all_written = async {
            while let Some(written) = running.join_next().await {
                ended = ended.and(flat(written));
            }
            ended
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
        let mut file = fs::File::create(&path).inspect_err(|error| not_written(&path, error)).ok();
        let mut line = Vec::new();
        Box::new(move |event| {
            line.clear();
            let Some(open) = &mut file else { return };
            let written = NativeLines
                .event(Some(event.seq), &event.event, &mut line)
                .map_err(io::Error::other)
                .and_then(|()| io::Write::write_all(open, &line));
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
    // Disks are waited for on other threads.
    let mut file = File::create(&path).await.map_err(|source| unwritable(&path, source))?;
    let mut lines = Vec::new();
    let mut batches = reader.ready_chunks(BATCH);
    let mut is_first = true;
    while let Some(batch) = batches.next().await {
        lines.clear();
        for read in batch {
            match read {
                Read::Event(admitted) => {
                    NativeLines.event(Some(admitted.seq), &admitted.event, &mut lines)?;
                }
                // A session that was opened again had forgotten them before.
                Read::Gap { to, .. } if is_first => {
                    tracing::info!(to, path = %path.display(), "the first events had been forgotten before");
                }
                Read::Gap { from, to } => return Err(EventLogError::Forgotten { path, from, to }),
            }
            is_first = false;
        }
        file.write_all(&lines).await.map_err(|source| unwritable(&path, source))?;
    }
    // What was written may still be on its way.
    file.flush().await.map_err(|source| unwritable(&path, source))
}

fn flat(ended: Result<Result<(), EventLogError>, JoinError>) -> Result<(), EventLogError> {
    ended?
}

fn unwritable(path: &Path, source: io::Error) -> EventLogError {
    EventLogError::Io { path: path.to_owned(), source }
}
