//! `POST /ag-ui`: runs of AG-UI.

mod answers;
mod attended;
mod input;
mod run;
mod talk;
mod terminal;
mod threads;

pub use input::{InputMessage, RunAgentInput};

use std::{error::Error, fmt, sync::Arc, time::Duration};

use anabranch_adapters::ag_ui::{Mode, RunIds};
use anabranch_proto::{Json, Stamp as _};
use anabranch_runtime::{Agent, Session, SystemStamp};
use axum::{
    body::Body,
    http::{HeaderName, header},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use self::{
    attended::Attended,
    input::{Prompt, Wanted},
    run::Run,
    talk::{State, Talk},
    threads::{Lease, Threads},
};
use crate::{Limits, NewSession, OpenLog, SessionLogs, Tenant, http::Refusal};

/// Makes the agent of a thread.
pub(crate) type MakeAgent = dyn Fn(&RunAgentInput) -> Agent + Send + Sync;

/// Is shown the session of each thread as it begins.
pub(crate) type Watch = dyn Fn(&RunAgentInput, &Session) + Send + Sync;

/// The threads, and how their runs are served.
pub(crate) struct Runs {
    make: Box<MakeAgent>,
    watch: Box<Watch>,
    mode: Mode,
    limits: Limits,
    threads: Arc<Threads>,
    /// Stops every run.
    stop: CancellationToken,
    logs: Arc<dyn SessionLogs>,
    stamp: SystemStamp,
    /// The runs under way, from their requests on.
    under_way: TaskTracker,
}

impl Runs {
    pub(crate) fn new(
        make: Box<MakeAgent>,
        watch: Box<Watch>,
        mode: Mode,
        limits: Limits,
        logs: Arc<dyn SessionLogs>,
    ) -> Self {
        let threads = Arc::new(Threads::new(limits.threads));
        let (stop, under_way) = (CancellationToken::new(), TaskTracker::new());
        Self { make, watch, mode, limits, threads, stop, logs, stamp: SystemStamp::new(), under_way }
    }

    /// What a run holds from its request to its end.
    pub(crate) fn under_way(&self) -> TaskTrackerToken {
        self.under_way.token()
    }

    /// Waits until no run is under way.
    pub(crate) async fn drained(&self) {
        self.under_way.close();
        self.under_way.wait().await;
    }

    /// Serves the run that a body asks for.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        tenant: Tenant,
        body: &[u8],
        under_way: TaskTrackerToken,
    ) -> Result<Response, Refusal> {
        let mut input = RunAgentInput::read(body)?;
        input.tenant = tenant;
        let wanted = input.wanted()?;
        let patience = self.limits.patience;
        let (this, first) = (Arc::clone(self), input.clone());
        // Where its session outlives this, its agent is made of this again.
        let body = self.logs.outlive().then(|| String::from_utf8_lossy(body).into_owned());
        let begin = async move { this.begin(first, body.as_deref()).await };
        let mut lease = self.threads.take(&input.tenant, &input.thread_id, begin, patience).await?;
        tokio::time::timeout(self.limits.settle, lease.settle()).await.map_err(|_| Refusal::Settling)?;
        let stop = match wanted {
            Wanted::Prompt(prompt) => self.prompt(&mut lease, prompt).await?,
            Wanted::Resume(entries, prompt) => {
                let interrupt = entries.first().map(|entry| entry.interrupt_id.clone());
                let prompt = prompt.filter(|prompt| lease.is_new(prompt));
                match (answers::give(&mut lease, entries, prompt.as_ref())?, prompt) {
                    (Some(stop), _) => stop,
                    (None, Some(prompt)) => self.prompt(&mut lease, prompt).await?,
                    (None, None) => {
                        return Err(Refusal::NotAsked { interrupt: interrupt.unwrap_or_default() });
                    }
                }
            }
        };
        let (thread, run) = (&*input.thread_id, &*input.run_id);
        tracing::info!(thread, run, session = %lease.session.id(), "a run begins");
        let ids = RunIds::new(input.thread_id, input.run_id);
        let run = Run::new(lease, ids, stop, self.limits.keep_alive);
        Ok(response(run, under_way, self.limits.unread))
    }

    /// Stops every run, those that wait for answers too.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Ends all sessions, within a time.
    pub(crate) async fn close(&self, time: Duration) {
        if tokio::time::timeout(time, self.threads.close()).await.is_err() {
            tracing::warn!("some sessions did not end in time");
        }
    }

    /// The talk of a thread that nobody has open: it begins, or goes on where it was kept.
    async fn begin(&self, input: RunAgentInput, body: Option<&str>) -> Result<Talk, Refusal> {
        let (tenant, thread) = (&input.tenant, &input.thread_id);
        let failed = |error| log_failed(thread, &error);
        if let Some(id) = self.logs.thread(tenant, thread).await.map_err(failed)?
            && let Some((new, open)) = self.logs.reopen(&id).await.map_err(failed)?
        {
            return self.go_on(new, open, input).await;
        }
        let new = NewSession {
            id: self.stamp.session_ids().0,
            tenant: tenant.clone(),
            options: body.and_then(|body| Json::parse(body).ok()),
            thread: Some(thread.clone()),
            created_at: self.stamp.now(),
        };
        let open = self.logs.open(&new).await.map_err(failed)?;
        let session = (self.make)(&input).session_builder().id(&new.id).log(open.log).start();
        let session = session.map_err(|error| log_failed(thread, &error))?;
        (self.watch)(&input, &session);
        Ok(Talk::new(session, self.mode))
    }

    async fn go_on(&self, new: NewSession, open: OpenLog, input: RunAgentInput) -> Result<Talk, Refusal> {
        let tenant = input.tenant.clone();
        let first = new.options.and_then(|first| RunAgentInput::read(first.as_str().as_bytes()).ok());
        let mut first = first.unwrap_or(input);
        first.tenant = tenant;
        let resumed =
            (self.make)(&first).session_builder().id(&new.id).log(Arc::clone(&open.log)).resume().await;
        let session = resumed.map_err(|error| log_failed(&first.thread_id, &error))?;
        (self.watch)(&first, &session);
        tracing::info!(thread = first.thread_id, session = %new.id, "a thread goes on that was kept");
        // Nothing is open any more, and nothing begins before this is given out.
        Ok(Talk::kept(session, self.mode, open.log.last()).await)
    }

    /// Prompts a thread that is idle. Gives what stops the run.
    async fn prompt(
        &self,
        lease: &mut Lease,
        Prompt { id, text }: Prompt,
    ) -> Result<CancellationToken, Refusal> {
        if let State::Asking { interrupts, .. } = &lease.state {
            return Err(Refusal::Unanswered { interrupts: interrupts.clone() });
        }
        let stop = self.stop.child_token();
        // Its events are read from the log, so that a run can outlive the response.
        let reply = lease.session.prompt_until(text, &stop).await;
        match reply {
            Ok(_) => {
                lease.was_prompted(id);
                Ok(stop)
            }
            Err(error) => {
                tracing::warn!(%error, "a session took no prompt");
                lease.state = State::Dead;
                Err(Refusal::Ended)
            }
        }
    }
}

fn log_failed(thread: &str, error: &(dyn Error + 'static)) -> Refusal {
    tracing::error!(thread, error, "a thread has no log");
    Refusal::LogFailed
}

fn response(run: Run, under_way: TaskTrackerToken, unread: Duration) -> Response {
    const HEADERS: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        // Proxies that gather what they pass on would hold frames back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let frames = run.into_stream().inspect(move |_| _ = &under_way);
    (HEADERS, Body::from_stream(Attended::new(frames, unread))).into_response()
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("mode", &self.mode).field("limits", &self.limits).finish_non_exhaustive()
    }
}
