//! One session that is kept.

use std::sync::Arc;

use anabranch_proto::Timestamp;
use anabranch_runtime::{Prompt, Session};
use anabranch_session::{Batch, EventLog};
use tokio::sync::Mutex;

use super::cursor::{Cursor, Epoch};
use crate::{KeptSession, OpenLog, Tenant, http::Refusal};

/// One session that is kept.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) session: Session,
    pub(super) log: Arc<dyn EventLog>,
    pub(super) epoch: Epoch,
    pub(super) created_at: Timestamp,
    /// Held while a prompt is taken, so that the bound holds.
    prompting: Mutex<()>,
}

/// What a cursor of a client's is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The log has had the event, and nothing is known to be wrong with the cursor.
    Known,
    /// It is of another counting.
    ForeignEpoch,
    /// No event has had this number.
    Ahead,
}

impl Entry {
    pub(super) fn new(session: Session, open: OpenLog, created_at: Timestamp) -> Self {
        let OpenLog { log, epoch } = open;
        Self { session, log, epoch, created_at, prompting: Mutex::new(()) }
    }

    /// Whether nothing runs in it and nothing waits, so that it can be closed and opened again with nobody the wiser but its
    /// sub-agents, which cannot go on then.
    pub(super) fn is_idle(&self) -> bool {
        let session = &self.session;
        session.has_ended()
            || (session.prompts_open() == 0
                && session.questions().is_empty()
                && session.children_running() == 0
                && session.detached() == 0)
    }

    /// The session as it is kept when it is closed.
    pub(super) fn kept(&self, tenant: Tenant) -> KeptSession {
        let (id, epoch) = (self.session.id().clone(), self.epoch.clone());
        KeptSession::new(id, tenant, epoch, self.last(), self.created_at)
    }

    /// The position behind the last event.
    pub(super) fn cursor(&self) -> Cursor {
        self.at(self.last())
    }

    /// The number of the last event.
    pub(super) fn last(&self) -> u64 {
        *self.log.appended().borrow()
    }

    /// The position behind an event.
    pub(super) fn at(&self, seq: u64) -> Cursor {
        Cursor { epoch: self.epoch.clone(), seq }
    }

    /// What a cursor is to the log.
    pub(super) async fn look_up(&self, cursor: &Cursor) -> Result<Position, Refusal> {
        if cursor.epoch != self.epoch {
            return Ok(Position::ForeignEpoch);
        }
        // Whether there is such an event is for the log to say: what is appended can be read before it is announced.
        let Some(before) = cursor.seq.checked_sub(1) else { return Ok(Position::Known) };
        let batch = self.log.read(before, 1).await.map_err(|error| {
            tracing::error!(session = %self.session.id(), %error, "a log could not be read");
            Refusal::LogFailed
        })?;
        Ok(match batch {
            Batch::Events(events) if events.is_empty() => Position::Ahead,
            Batch::Events(_) | Batch::Gap { .. } => Position::Known,
        })
    }

    /// Takes a prompt, where fewer than so many are open. Gives the position behind which its events come.
    pub(super) async fn prompt(&self, prompt: Prompt, most: usize) -> Result<Cursor, Refusal> {
        let _prompting = self.prompting.lock().await;
        // What was taken and not begun when it ended is answered by nobody, and is in nobody's way.
        if self.session.has_ended() {
            return Err(Refusal::SessionEnded);
        }
        if self.session.prompts_open() >= most {
            return Err(Refusal::TooManyPrompts { bound: most });
        }
        let cursor = self.cursor();
        // Its events are read from the log.
        self.session.prompt(prompt).await.map(drop).map_err(|error| {
            tracing::warn!(session = %self.session.id(), %error, "a session took no prompt");
            Refusal::SessionEnded
        })?;
        Ok(cursor)
    }

    /// Ends the session when all its prompts are answered.
    pub(super) async fn finish(&self) {
        let mut appended = self.log.appended();
        loop {
            appended.mark_unchanged();
            // A prompt is answered before its run's end is appended.
            if self.session.prompts_open() == 0 || appended.changed().await.is_err() {
                break;
            }
        }
        self.session.close().await;
    }
}
