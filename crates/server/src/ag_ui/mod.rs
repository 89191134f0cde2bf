//! `POST /ag-ui`: runs of AG-UI.

mod answers;
mod attended;
mod input;
mod run;
mod talk;
mod terminal;
mod threads;

pub use input::{InputMessage, RunAgentInput};

use std::{fmt, sync::Arc, time::Duration};

use anabranch_adapters::ag_ui::{Mode, RunIds};
use anabranch_runtime::{Agent, Session};
use anabranch_session::MemoryLog;
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
use crate::{Limits, Tenant, http::Refusal};

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
    threads: Threads,
    /// Stops every run.
    stop: CancellationToken,
    /// The runs under way, from their requests on.
    under_way: TaskTracker,
}

impl Runs {
    pub(crate) fn new(make: Box<MakeAgent>, watch: Box<Watch>, mode: Mode, limits: Limits) -> Self {
        let threads = Threads::new(limits.threads);
        let (stop, under_way) = (CancellationToken::new(), TaskTracker::new());
        Self { make, watch, mode, limits, threads, stop, under_way }
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
        &self,
        tenant: Tenant,
        body: &[u8],
        under_way: TaskTrackerToken,
    ) -> Result<Response, Refusal> {
        let mut input = RunAgentInput::read(body)?;
        input.tenant = tenant;
        let wanted = input.wanted()?;
        let patience = self.limits.patience;
        let begin = || self.begin(&input);
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

    fn begin(&self, input: &RunAgentInput) -> Talk {
        let log = Arc::new(MemoryLog::with_retention(self.limits.log));
        let agent = (self.make)(input);
        let session = agent.session_builder().log(log).start().unwrap_or_else(|error| {
            debug_assert!(false, "a new log has no events: {error}");
            agent.session()
        });
        (self.watch)(input, &session);
        Talk::new(session, self.mode)
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
                lease.prompted_by = id;
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
