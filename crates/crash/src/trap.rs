//! Logs that stop on request between an append and its delivery, and say so.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use anabranch_proto::{Admitted, EventKind, SessionId};
use anabranch_server::{KeptSession, NewSession, OpenLog, SessionLogs, StoreLogs, Tenant};
use anabranch_session::{AppendError, Batch, EventLog, Forgotten, LogError};
use clap::ValueEnum;
use futures::{FutureExt as _, future::BoxFuture};
use tokio::sync::watch;

use crate::say::say;

/// The events by which something begins, ends, or waits for somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lifecycle {
    Spawn,
    /// The end of a child's run.
    ChildEnd,
    /// The end of the root's run.
    RootEnd,
    Result,
    /// A question to a person.
    Question,
    Answer,
}

impl Lifecycle {
    fn is(self, admitted: &Admitted) -> bool {
        let event = &admitted.event;
        let is_root = event.scope.child().is_none();
        match self {
            Self::Spawn => matches!(event.kind, EventKind::SpawnSessionStart(_)),
            Self::ChildEnd => !is_root && matches!(event.kind, EventKind::StreamComplete(_)),
            Self::RootEnd => is_root && matches!(event.kind, EventKind::StreamComplete(_)),
            Self::Result => matches!(event.kind, EventKind::ToolResultEnd(_)),
            Self::Question => matches!(event.kind, EventKind::RequireUserConfirm(_)),
            Self::Answer => matches!(event.kind, EventKind::UserConfirmResult(_)),
        }
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) event: Lifecycle,
    /// How many of these pass before.
    pub(crate) skip: u64,
    /// Whether readers are not told of it, nor of what comes behind it.
    pub(crate) hold: bool,
}

/// What all logs of a server look at when they append.
#[derive(Debug, Default)]
pub(crate) struct Trap(Mutex<Option<Wanted>>);

impl Trap {
    pub(crate) fn set(&self, wanted: Wanted) {
        *self.lock() = Some(wanted);
    }

    /// The number of the event of a batch that is waited for, and whether it is to be held. Once.
    fn catches(&self, batch: &[Admitted]) -> Option<(u64, bool)> {
        let mut armed = self.lock();
        let wanted = armed.as_mut()?;
        for admitted in batch.iter().filter(|admitted| wanted.event.is(admitted)) {
            if wanted.skip == 0 {
                let caught = (admitted.seq, wanted.hold);
                *armed = None;
                return Some(caught);
            }
            wanted.skip -= 1;
        }
        None
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Wanted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server's own logs, each with the trap before it.
#[derive(Debug)]
pub(crate) struct TrappedLogs {
    pub(crate) inner: StoreLogs,
    pub(crate) trap: Arc<Trap>,
}

impl TrappedLogs {
    fn wrap(&self, session: &SessionId, open: OpenLog) -> OpenLog {
        OpenLog::new(Arc::new(TrappedLog::new(session.clone(), open.log, Arc::clone(&self.trap))), open.epoch)
    }
}

impl SessionLogs for TrappedLogs {
    fn open<'a>(&'a self, new: &'a NewSession) -> BoxFuture<'a, Result<OpenLog, LogError>> {
        async move { Ok(self.wrap(&new.id, SessionLogs::open(&self.inner, new).await?)) }.boxed()
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        self.inner.remove(session)
    }

    fn outlive(&self) -> bool {
        self.inner.outlive()
    }

    fn kept(&self) -> BoxFuture<'_, Result<Vec<KeptSession>, LogError>> {
        SessionLogs::kept(&self.inner)
    }

    fn reopen<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<(NewSession, OpenLog)>, LogError>> {
        async move {
            let found = SessionLogs::reopen(&self.inner, session).await?;
            Ok(found.map(|(new, open)| (new, self.wrap(session, open))))
        }
        .boxed()
    }

    fn thread<'a>(
        &'a self,
        tenant: &'a Tenant,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<SessionId>, LogError>> {
        self.inner.thread(tenant, thread)
    }
}

/// A log whose events reach readers up to where it is held.
#[derive(Debug)]
struct TrappedLog {
    session: SessionId,
    inner: Arc<dyn EventLog>,
    trap: Arc<Trap>,
    /// The number of the last event that readers may have.
    upto: Arc<AtomicU64>,
    shown: watch::Sender<u64>,
}

impl TrappedLog {
    fn new(session: SessionId, inner: Arc<dyn EventLog>, trap: Arc<Trap>) -> Self {
        let upto = Arc::new(AtomicU64::new(u64::MAX));
        let mut readable = inner.appended();
        let shown = watch::Sender::new(*readable.borrow());
        let (sender, bound) = (shown.clone(), Arc::clone(&upto));
        // Both end with the log.
        tokio::spawn(async move {
            while readable.changed().await.is_ok() {
                let last = (*readable.borrow_and_update()).min(bound.load(Ordering::SeqCst));
                sender.send_modify(|shown| *shown = last.max(*shown));
            }
        });
        let (mut durable, id) = (inner.durable(), session.clone());
        tokio::spawn(async move {
            while durable.changed().await.is_ok() {
                let last = *durable.borrow_and_update();
                say(format_args!("durable {id} {last}"));
            }
        });
        Self { session, inner, trap, upto, shown }
    }
}

impl EventLog for TrappedLog {
    fn append(&self, batch: &[Admitted]) -> Result<(), AppendError> {
        let caught = self.trap.catches(batch);
        if let Some((seq, true)) = caught {
            // Before it is there: nobody is to see it.
            self.upto.fetch_min(seq - 1, Ordering::SeqCst);
        }
        self.inner.append(batch)?;
        if let Some((seq, _)) = caught {
            say(format_args!("caught {} {seq}", self.session));
        }
        Ok(())
    }

    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>> {
        async move {
            let mut batch = self.inner.read(after, max).await?;
            if let Batch::Events(events) = &mut batch {
                let upto = self.upto.load(Ordering::SeqCst);
                events.retain(|admitted| admitted.seq <= upto);
            }
            Ok(batch)
        }
        .boxed()
    }

    fn appended(&self) -> watch::Receiver<u64> {
        self.shown.subscribe()
    }

    fn last(&self) -> u64 {
        self.inner.last()
    }

    fn durable(&self) -> watch::Receiver<u64> {
        self.inner.durable()
    }

    fn room(&self) -> Option<BoxFuture<'_, ()>> {
        self.inner.room()
    }

    fn forgotten(&self) -> BoxFuture<'_, Result<Option<Forgotten>, LogError>> {
        self.inner.forgotten()
    }
}
