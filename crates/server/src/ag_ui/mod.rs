//! `POST /ag-ui`: runs of AG-UI.

mod answers;
mod input;
mod run;
mod talk;
mod terminal;
mod threads;

pub use input::{InputMessage, RunAgentInput};

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use anabranch_adapters::ag_ui::{Mode, RunIds};
use anabranch_runtime::Agent;
use anabranch_session::MemoryLog;
use axum::{
    body::Body,
    http::{HeaderName, header},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use self::{
    input::Wanted,
    run::Run,
    talk::{State, Talk},
    threads::{Lease, Threads},
};
use crate::{Limits, Tenant, http::Refusal};

/// Makes the agent of a thread.
pub(crate) type MakeAgent = dyn Fn(&RunAgentInput) -> Agent + Send + Sync;

/// The threads, and how their runs are served.
pub(crate) struct Runs {
    make: Box<MakeAgent>,
    mode: Mode,
    limits: Limits,
    threads: Threads,
    /// Stops every run.
    stop: CancellationToken,
}

impl Runs {
    pub(crate) fn new(make: Box<MakeAgent>, mode: Mode, limits: Limits) -> Self {
        Self { make, mode, limits, threads: Threads::new(limits.threads), stop: CancellationToken::new() }
    }

    /// Serves the run that a body asks for.
    pub(crate) async fn serve(&self, tenant: Tenant, body: &[u8]) -> Result<Response, Refusal> {
        let mut input = RunAgentInput::read(body)?;
        input.tenant = tenant;
        let wanted = input.wanted()?;
        let mut lease = self.threads.take(&input.tenant, &input.thread_id, || self.begin(&input))?;
        tokio::time::timeout(self.limits.settle, lease.settle()).await.map_err(|_| Refusal::Settling)?;
        let stop = match wanted {
            Wanted::Prompt(text) => self.prompt(&mut lease, text).await?,
            Wanted::Resume(entries) => answers::give(&mut lease, entries)?,
        };
        tracing::info!(session = %lease.session.id(), "a run begins");
        let ids = RunIds::new(input.thread_id, input.run_id);
        let run = Run::new(lease, ids, stop, self.limits.keep_alive);
        Ok(response(run))
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
        Talk::new(session, self.mode)
    }

    /// Prompts a thread that is idle. Gives what stops the run.
    async fn prompt(&self, lease: &mut Lease, text: String) -> Result<CancellationToken, Refusal> {
        if let State::Asking { interrupts, .. } = &lease.state {
            return Err(Refusal::Unanswered { interrupts: interrupts.clone() });
        }
        let stop = self.stop.child_token();
        // Its events are read from the log, so that a run can outlive the response.
        let reply = lease.session.prompt_until(text, &stop).await;
        match reply {
            Ok(_) => Ok(stop),
            Err(error) => {
                tracing::warn!(%error, "a session took no prompt");
                lease.state = State::Dead;
                Err(Refusal::Ended)
            }
        }
    }
}

fn response(run: Run) -> Response {
    const HEADERS: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        // Proxies that gather what they pass on would hold frames back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (HEADERS, Body::from_stream(run.into_stream().map(Ok::<_, Infallible>))).into_response()
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("mode", &self.mode).field("limits", &self.limits).finish_non_exhaustive()
    }
}
