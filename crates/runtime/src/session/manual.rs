//! Children that code spawns.

use std::{fmt, sync::Arc};

use anabranch_proto::{Outcome, SessionId};
use tokio::sync::oneshot;

use super::{Session, handle::Core};
use crate::{
    Agent, NotRunning, Prompt, RunResult, SessionError, Spawn, SpawnError, elsewhere::Template, run::Host,
    task::Batch,
};

/// A child that code spawned.
///
/// Dropping it changes nothing for the child.
pub struct ManualChild {
    core: Arc<Core>,
    child: SessionId,
    result: oneshot::Receiver<RunResult>,
}

impl Session {
    /// Runs an agent as a child of the session that no call waits for.
    ///
    /// Its events join the session's stream. A child that is spawned while a reply runs ends before the reply does, which
    /// waits for it; one that is spawned between two replies goes on until it has ended or the session is closed.
    ///
    /// # Errors
    /// When a limit refuses the child, or the session has ended. Nothing was announced then.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the child is not spawned.
    pub async fn spawn(&self, agent: &Agent, prompt: impl Into<Prompt>) -> Result<ManualChild, SpawnError> {
        let spawn = Spawn::under(&self.host(), None, Arc::clone(agent.name()), prompt.into())?;
        self.start(spawn, &Template::Agent(agent.clone())).await
    }

    /// Goes on with a child that has ended: a further run of its session, from where it was, that no call waits for.
    ///
    /// Background children can go on, those that code spawned, and those of a [`SpawnSubagent`](crate::SpawnSubagent) that
    /// is [resumable](crate::SpawnSubagent::resumable).
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn), and when nothing is kept of that session: it is unknown, it runs, or others that ended later took its place.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the child does not go on, and may not be able to later.
    pub async fn spawn_again(
        &self,
        child: &SessionId,
        prompt: impl Into<Prompt>,
    ) -> Result<ManualChild, SpawnError> {
        // Whoever waited for its result hears of it a moment before the session does.
        let tasks = &self.core.tasks;
        let has_ended = self.core.runs.get(child).is_none();
        if let Some(task) = tasks.open_task_of(child).filter(|_| has_ended) {
            tasks.has_ended(task).await;
        }
        let (spawn, template) = Spawn::again_under(&self.host(), None, child, prompt.into())?;
        self.start(spawn, &template).await
    }

    /// The root between its runs, as the parent of what code spawns.
    fn host(&self) -> Arc<Host> {
        Arc::new(Host::silent(self.identity.clone()))
    }

    /// Starts a child that is a task, and that no call waits for.
    pub(crate) async fn start(&self, spawn: Spawn, template: &Template) -> Result<ManualChild, SpawnError> {
        let (number, announcement, child, result) = spawn.manual(template);
        let mut unsent = Unsent { core: &self.core, number: Some(number) };
        if !self.core.ingress.send(number, Batch::of(announcement)).await {
            return Err(SpawnError::Stopping);
        }
        unsent.number = None;
        drop(unsent);
        Ok(ManualChild { core: Arc::clone(&self.core), child, result })
    }
}

impl ManualChild {
    /// The child's session.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.child
    }

    /// Stops the child, as interrupted.
    ///
    /// # Errors
    /// When it does not run.
    pub fn cancel(&self) -> Result<(), NotRunning> {
        self.core.cancel_session(&self.child)
    }

    /// What the child came to; nothing but that it was interrupted where the end of a reply stopped it in mid-work.
    ///
    /// # Errors
    /// When the end of the session stopped it in mid-work.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing for the child.
    pub async fn finished(self) -> Result<RunResult, SessionError> {
        match self.result.await {
            Ok(result) => Ok(result),
            Err(_) if self.core.closing.is_cancelled() || self.core.ended.is_cancelled() => {
                Err(self.core.error())
            }
            Err(_) => Ok(RunResult::new(Outcome::Interrupted)),
        }
    }
}

impl fmt::Debug for ManualChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualChild").field("session_id", &self.child).finish_non_exhaustive()
    }
}

/// A child whose announcement was not sent; dropping it forgets the child.
struct Unsent<'a> {
    core: &'a Core,
    number: Option<usize>,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.core.tasks.discard(number);
        }
    }
}
