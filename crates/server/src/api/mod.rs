//! `/sessions`: sessions that clients create, prompt, read from any position, answer, stop and delete.

mod answer;
mod cancel;
mod create;
mod cursor;
mod entry;
mod events;
mod logs;
mod look;
mod prompt;
mod registry;

pub use create::{NewSession, Unusable};
pub use cursor::{Epoch, InvalidEpoch};
pub use logs::{OpenLog, SessionLogs};

pub(crate) use logs::MemoryLogs;

use std::{fmt, sync::Arc};

use anabranch_adapters::ag_ui::Mode;
use anabranch_runtime::{Agent, SystemStamp};
use axum::{
    Router,
    extract::{Extension, FromRequestParts, Path, State},
    http::{StatusCode, request::Parts},
    routing::{get, post},
};
use futures::future::join_all;

use self::{entry::Entry, events::Seats, registry::Registry};
use crate::{
    Limits, Tenant,
    http::{Refusal, Shared},
};

/// The longest id of a session in a path, in bytes. Ours have 30.
const LONGEST_ID: usize = 64;

/// Makes the agent of a session.
pub(crate) type MakeSession = dyn Fn(&NewSession) -> Result<Agent, Unusable> + Send + Sync;

/// The sessions, and how they are served.
pub(crate) struct Api {
    make: Box<MakeSession>,
    logs: Arc<dyn SessionLogs>,
    mode: Mode,
    stamp: SystemStamp,
    registry: Arc<Registry>,
    seats: Arc<Seats>,
}

impl Api {
    pub(crate) fn new(
        make: Box<MakeSession>,
        logs: Arc<dyn SessionLogs>,
        mode: Mode,
        limits: &Limits,
    ) -> Self {
        Self {
            make,
            logs,
            mode,
            stamp: SystemStamp::new(),
            registry: Arc::new(Registry::new(limits.sessions_of_tenant, limits.sessions)),
            seats: Arc::new(Seats::new(limits.readers)),
        }
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

/// The routes of sessions.
pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/sessions", post(create::create).get(look::list))
        .route("/sessions/{id}", get(look::look).delete(remove))
        .route("/sessions/{id}/prompt", post(prompt::prompt))
        .route("/sessions/{id}/answer", post(answer::answer))
        .route("/sessions/{id}/cancel", post(cancel::cancel))
        .route("/sessions/{id}/events", get(events::events))
}

/// The session that a path names, where its tenant has it.
struct Found {
    entry: Arc<Entry>,
    tenant: Tenant,
}

impl FromRequestParts<Shared> for Found {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refusal> {
        let Extension(tenant) = whose(parts, shared).await?;
        // What is no id names no session, as what is somebody else's does not.
        let Path(id) =
            Path::<String>::from_request_parts(parts, shared).await.map_err(|_| Refusal::NoSuchSession)?;
        let known = if is_id(&id) { shared.api()?.registry.get(&tenant, &id) } else { None };
        known.map(|entry| Self { entry, tenant }).ok_or(Refusal::NoSuchSession)
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

/// `DELETE /sessions/{id}`: ends a session and forgets it.
async fn remove(State(shared): State<Shared>, found: Found) -> Result<StatusCode, Refusal> {
    let Found { entry, tenant } = found;
    let (api, session) = (shared.api()?, entry.session.id());
    // Who comes second finds nothing.
    api.registry.remove(&tenant, session).ok_or(Refusal::NoSuchSession)?;
    if tokio::time::timeout(shared.limits.settle, entry.session.close()).await.is_err() {
        tracing::warn!(%session, "a session that was deleted does not end in time");
    }
    api.logs.remove(session).await;
    tracing::info!(%session, %tenant, "a session is deleted");
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
