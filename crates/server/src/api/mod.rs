//! `/sessions`: sessions that clients create, prompt, read from any position, answer, stop and delete.

mod answer;
mod cancel;
mod content;
mod create;
mod cursor;
mod entry;
mod events;
mod look;
mod prompt;
mod registry;
mod sessions;

pub use create::Unusable;
pub use cursor::{Epoch, InvalidEpoch};
pub use sessions::Sessions;

use std::{error::Error, fmt, sync::Arc, time::Duration};

use anabranch_adapters::ag_ui::Mode;
use anabranch_proto::SessionId;
use anabranch_runtime::SystemStamp;
use anabranch_session::{EventLog, LogError};
use axum::{
    extract::{Extension, FromRequestParts, Path, State},
    http::{Method, StatusCode, request::Parts},
    routing::{delete, get, post},
};
use futures::future::join_all;
use schemars::SchemaGenerator;
use serde_json::json;

use self::{
    entry::Entry,
    events::Seats,
    registry::{Change, Found as LookedUp, Registry, Removed},
    sessions::{Make, Watch},
};
use crate::{
    Limits, NewSession, SessionLogs, Tenant,
    http::{Content, Operation, Refusal, Shared},
};

/// The longest id of a session in a path, in bytes. Ours have 30.
const LONGEST_ID: usize = 64;

/// The sessions, and how they are served.
pub(crate) struct Api {
    make: Box<Make>,
    watch: Box<Watch>,
    logs: Arc<dyn SessionLogs>,
    mode: Mode,
    stamp: SystemStamp,
    registry: Arc<Registry>,
    seats: Arc<Seats>,
}

impl Api {
    /// Serves these sessions, whose events are kept in `logs` where they have none of their own.
    pub(crate) fn new(sessions: Sessions, mode: Mode, limits: &Limits, logs: &Arc<dyn SessionLogs>) -> Self {
        let Sessions { make, watch, logs: own } = sessions;
        let logs = own.unwrap_or_else(|| Arc::clone(logs));
        Self {
            make,
            watch,
            registry: Arc::new(Registry::new(limits, logs.outlive())),
            logs,
            mode,
            stamp: SystemStamp::new(),
            seats: Arc::new(Seats::new(limits.readers)),
        }
    }

    /// Takes the sessions that are kept from before, and closes what was running in them.
    pub(crate) async fn load(&self) -> Result<(), LogError> {
        let kept = self.logs.kept().await?;
        if !kept.is_empty() {
            tracing::info!(sessions = kept.len(), "there are sessions from before");
        }
        self.registry.take(kept);
        Ok(())
    }

    /// Where the events are kept.
    pub(crate) fn logs(&self) -> &Arc<dyn SessionLogs> {
        &self.logs
    }

    /// Begins a session. Goes on where nobody waits for it any more.
    async fn begin(self: &Arc<Self>, new: NewSession) -> Result<Arc<Entry>, Refusal> {
        let this = Arc::clone(self);
        let begun = tokio::spawn(async move { this.begin_now(&new).await });
        begun.await.unwrap_or(Err(Refusal::LogFailed))
    }

    async fn begin_now(self: &Arc<Self>, new: &NewSession) -> Result<Arc<Entry>, Refusal> {
        let room = self.registry.reserve(&new.tenant, &new.id)?;
        self.make_room(&new.tenant).await?;
        let agent = (self.make)(new).map_err(|Unusable(why)| Refusal::Unusable(why.into()))?;
        let open = self.logs.open(new).await.map_err(|error| log_failed(&new.id, &error))?;
        let started = agent.session_builder().id(&new.id).log(Arc::clone(&open.log)).start();
        let session = started.map_err(|error| log_failed(&new.id, &error))?;
        (self.watch)(new, &session);
        let entry = Arc::new(Entry::new(session, open, new.created_at));
        if let Err(entry) = room.fill(Arc::clone(&entry)) {
            entry.session.close().await;
            self.logs.remove(&new.id).await;
            return Err(Refusal::Stopping);
        }
        Ok(entry)
    }

    /// A tenant's session, which is opened where it is not.
    async fn find(self: &Arc<Self>, tenant: &Tenant, id: &str) -> Result<Arc<Entry>, Refusal> {
        loop {
            match self.registry.look_up(tenant, id).ok_or(Refusal::NoSuchSession)?? {
                LookedUp::Open(entry) => return Ok(entry),
                LookedUp::Changing(done) => done.cancelled().await,
                LookedUp::Closed(change) => {
                    // Goes on where the client has left: nobody else may open it meanwhile.
                    let (this, tenant, ended) = (Arc::clone(self), tenant.clone(), change.ended());
                    let opened = tokio::spawn(async move { this.open(&tenant, change).await });
                    let opened = opened.await.unwrap_or(Err(Refusal::LogFailed));
                    // It can be read still, and says that it has ended.
                    return opened.or_else(|refusal| ended.ok_or(refusal));
                }
            }
        }
    }

    async fn open(self: &Arc<Self>, tenant: &Tenant, change: Change) -> Result<Arc<Entry>, Refusal> {
        self.make_room(tenant).await?;
        let id = change.session().clone();
        let reopened = self.logs.reopen(&id).await.map_err(|error| log_failed(&id, &error))?;
        let (new, open) = reopened.ok_or(Refusal::NoSuchSession)?;
        let agent = (self.make)(&new).map_err(|Unusable(why)| Refusal::Unusable(why.into()))?;
        let resumed = agent.session_builder().id(&id).log(Arc::clone(&open.log)).resume().await;
        let session = resumed.map_err(|error| log_failed(&id, &error))?;
        if let Err(error) = all_is_readable(&*open.log).await {
            session.close().await;
            return Err(log_failed(&id, &error));
        }
        (self.watch)(&new, &session);
        let entry = Arc::new(Entry::new(session, open, new.created_at));
        if let Err(refusal) = change.opened(&entry) {
            entry.session.close().await;
            return Err(refusal);
        }
        tracing::debug!(session = %id, "a session is opened");
        Ok(entry)
    }

    /// Closes idle sessions, where as many are open as may.
    async fn make_room(&self, tenant: &Tenant) -> Result<(), Refusal> {
        while let Some((entry, change)) = self.registry.make_room(tenant)? {
            let closing = tokio::spawn(async move {
                entry.session.close().await;
                tracing::debug!(session = %entry.session.id(), "an idle session is closed");
                change.closed(entry.last());
            });
            closing.await.map_err(|_| Refusal::LogFailed)?;
        }
        Ok(())
    }

    /// Ends a session and forgets it.
    async fn remove(
        self: &Arc<Self>,
        tenant: Tenant,
        id: SessionId,
        settle: Duration,
    ) -> Result<(), Refusal> {
        let removed = loop {
            // Who comes second finds nothing.
            match self.registry.remove(&tenant, id.as_str()).ok_or(Refusal::NoSuchSession)? {
                Removed::NotYet(done) => done.cancelled().await,
                removed @ (Removed::Open(_) | Removed::Closed) => break removed,
            }
        };
        if let Removed::Open(entry) = removed
            && tokio::time::timeout(settle, entry.session.close()).await.is_err()
        {
            tracing::warn!(session = %id, "a session that was deleted does not end in time");
        }
        self.logs.remove(&id).await;
        tracing::info!(session = %id, %tenant, "a session is deleted");
        Ok(())
    }

    /// Ends all sessions, each when it has answered its prompts.
    pub(crate) async fn finish(&self) {
        join_all(self.registry.all().iter().map(|entry| entry.finish())).await;
    }

    /// Ends all sessions.
    pub(crate) async fn close(&self) {
        self.registry.close().await;
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("logs", &self.logs).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// What can be done with sessions.
pub(crate) fn operations() -> Vec<Operation> {
    let of_session = |method, path, name, summary, route| {
        Operation::new(method, path, name, summary, route)
            .refuses(404, "There is no such session; nor is somebody else's.")
    };
    let of_open = |method, path, name, summary, route| {
        of_session(method, path, name, summary, route)
            .refuses(422, "No agent can be made any more of what the session was created with.")
            .refuses(503, "The session's events cannot be read now, or as many sessions are open as may be.")
    };
    vec![
        Operation::new(Method::POST, "/sessions", "createSession", "Begins a session.", post(create::create))
            .body(SchemaGenerator::subschema_for::<create::Create>, json!({}))
            .answers::<create::Created>(201, "The session has begun; `Location` is its path.")
            .with_links()
            .refuses(409, "There are as many sessions as there may be.")
            .refuses(422, "No agent can be made of the options."),
        Operation::new(Method::GET, "/sessions", "listSessions", "Lists the sessions.", get(look::list))
            .query::<look::ListQuery>()
            .answers::<look::List>(200, "The sessions, in the order in which they were created.")
            .refuses(400, "The query is not what is described."),
        of_open(
            Method::GET,
            "/sessions/{id}",
            "getSession",
            "Looks at a session: its tree, its open questions and how far it is.",
            get(look::look),
        )
        .answers::<look::Look>(200, "The session and all below it."),
        of_session(
            Method::DELETE,
            "/sessions/{id}",
            "deleteSession",
            "Ends a session, with all that runs in it, and forgets it.",
            delete(remove),
        )
        .answer(204, "The session is gone.", Content::Nothing),
        of_open(
            Method::POST,
            "/sessions/{id}/prompt",
            "promptSession",
            "Asks the agent. A prompt that comes while another is answered waits for its turn.",
            post(prompt::prompt),
        )
        .body(SchemaGenerator::subschema_for::<prompt::PromptBody>, json!({ "content": "Compare them." }))
        .answers::<prompt::Accepted>(202, "The prompt is taken.")
        .refuses(409, "As many prompts wait as may, or the session has ended."),
        of_open(
            Method::POST,
            "/sessions/{id}/answer",
            "answerSession",
            "Answers questions about calls: all answers are taken, or none.",
            post(answer::answer),
        )
        .body(
            SchemaGenerator::subschema_for::<answer::Answers>,
            json!({
                "answers": [{ "session": "ses_01JDXA0000000000000000000A", "call": "call_0", "allow": {} }],
            }),
        )
        .answers::<answer::Taken>(200, "All answers are taken.")
        .refuses(409, "A question is not open, or has its answer; nothing has changed.")
        .refuses(422, "An answer does not fit its question; nothing has changed."),
        of_open(
            Method::POST,
            "/sessions/{id}/cancel",
            "cancelSession",
            "Stops the run of the session, or of one below it.",
            post(cancel::cancel),
        )
        .body(SchemaGenerator::subschema_for::<cancel::Cancel>, json!({}))
        .answers::<cancel::Cancelled>(202, "The run is being stopped.")
        .refuses(409, "Nothing runs there now."),
        of_open(
            Method::GET,
            "/sessions/{id}/events",
            "readEvents",
            "Reads a session's events behind a position, and those that are still to come.",
            get(events::events),
        )
        .query::<events::EventsQuery>()
        .header(events::LAST_EVENT_ID, "The id of the last event that was read; before `after`.")
        .answer(200, "Server-sent events, as docs/server.md has them.", Content::Events(events::event_schema))
        .refuses(400, "The query is not what is described."),
    ]
}

/// The session that a path names, whether or not there is one.
struct Named {
    id: SessionId,
    tenant: Tenant,
}

impl FromRequestParts<Shared> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refusal> {
        let Extension(tenant) = whose(parts, shared).await?;
        // What is no id names no session, as what is somebody else's does not.
        let Path(id) =
            Path::<String>::from_request_parts(parts, shared).await.map_err(|_| Refusal::NoSuchSession)?;
        if is_id(&id) { Ok(Self { id: id.into(), tenant }) } else { Err(Refusal::NoSuchSession) }
    }
}

/// The session that a path names, where its tenant has it.
struct Found {
    entry: Arc<Entry>,
    tenant: Tenant,
}

impl FromRequestParts<Shared> for Found {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refusal> {
        let Named { id, tenant } = Named::from_request_parts(parts, shared).await?;
        let entry = shared.api()?.find(&tenant, id.as_str()).await?;
        Ok(Self { entry, tenant })
    }
}

async fn whose(parts: &mut Parts, shared: &Shared) -> Result<Extension<Tenant>, Refusal> {
    // The guard has put it there.
    Extension::from_request_parts(parts, shared).await.map_err(|_| Refusal::Unauthorized)
}

/// Whether the text can be the id of a session.
fn is_id(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    is_plain && (1..=LONGEST_ID).contains(&text.len())
}

/// Waits until readers see all that was appended: what was closed is behind nobody's next cursor.
async fn all_is_readable(log: &dyn EventLog) -> Result<(), LogError> {
    let mut readable = log.appended();
    loop {
        let seen = *readable.borrow_and_update();
        if seen >= log.last() {
            return Ok(());
        }
        // Says why, where it will give no more.
        log.read(seen, 1).await?;
        if readable.changed().await.is_err() {
            return Ok(());
        }
    }
}

fn log_failed(session: &SessionId, error: &(dyn Error + 'static)) -> Refusal {
    tracing::error!(%session, error, "a session has no log");
    Refusal::LogFailed
}

/// `DELETE /sessions/{id}`: ends a session and forgets it.
async fn remove(State(shared): State<Shared>, named: Named) -> Result<StatusCode, Refusal> {
    let Named { id, tenant } = named;
    let (api, settle) = (Arc::clone(shared.api()?), shared.limits.settle);
    // Goes on where the client has left: half of it would be back with the next server.
    let removed = tokio::spawn(async move { api.remove(tenant, id, settle).await });
    removed.await.unwrap_or(Err(Refusal::LogFailed))?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_letters_digits_and_two_marks() {
        for id in ["ses_01JDXA0000000000000000000A", "a", "A-b_9"] {
            assert!(is_id(id), "{id}");
        }
        let long = "x".repeat(LONGEST_ID + 1);
        for id in ["", ".", "..", "../x", "a/b", "a\\b", "a b", "a\n", "a\0", "ä", "a%2f", &long] {
            assert!(!is_id(id), "{id:?}");
        }
    }
}
