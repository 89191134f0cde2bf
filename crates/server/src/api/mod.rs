//! `/sessions`: sessions that clients create, prompt, read from any position, answer, stop and delete.

mod answer;
mod cancel;
mod content;
mod create;
mod cursor;
mod entry;
mod events;
mod logs;
mod look;
mod prompt;
mod registry;
mod sessions;

pub use create::{NewSession, Unusable};
pub use cursor::{Epoch, InvalidEpoch};
pub use logs::{OpenLog, SessionLogs};
pub use sessions::Sessions;

use std::{fmt, sync::Arc};

use anabranch_adapters::ag_ui::Mode;
use anabranch_runtime::SystemStamp;
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
    logs::MemoryLogs,
    registry::Registry,
    sessions::{Make, Watch},
};
use crate::{
    Limits, Tenant,
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
    pub(crate) fn new(sessions: Sessions, mode: Mode, limits: &Limits) -> Self {
        let Sessions { make, watch, logs } = sessions;
        Self {
            make,
            watch,
            logs: logs.unwrap_or_else(|| Arc::new(MemoryLogs { retention: limits.log })),
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

/// What can be done with sessions.
pub(crate) fn operations() -> Vec<Operation> {
    let of_session = |method, path, name, summary, route| {
        Operation::new(method, path, name, summary, route)
            .refuses(404, "There is no such session; nor is somebody else's.")
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
        of_session(
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
        of_session(
            Method::POST,
            "/sessions/{id}/prompt",
            "promptSession",
            "Asks the agent. A prompt that comes while another is answered waits for its turn.",
            post(prompt::prompt),
        )
        .body(SchemaGenerator::subschema_for::<prompt::PromptBody>, json!({ "content": "Compare them." }))
        .answers::<prompt::Accepted>(202, "The prompt is taken.")
        .refuses(409, "As many prompts wait as may, or the session has ended."),
        of_session(
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
        of_session(
            Method::POST,
            "/sessions/{id}/cancel",
            "cancelSession",
            "Stops the run of the session, or of one below it.",
            post(cancel::cancel),
        )
        .body(SchemaGenerator::subschema_for::<cancel::Cancel>, json!({}))
        .answers::<cancel::Cancelled>(202, "The run is being stopped.")
        .refuses(409, "Nothing runs there now."),
        of_session(
            Method::GET,
            "/sessions/{id}/events",
            "readEvents",
            "Reads a session's events behind a position, and those that are still to come.",
            get(events::events),
        )
        .query::<events::EventsQuery>()
        .header(events::LAST_EVENT_ID, "The id of the last event that was read; before `after`.")
        .answer(200, "Server-sent events, as docs/server.md has them.", Content::Events(events::event_schema))
        .refuses(400, "The query is not what is described.")
        .refuses(503, "The session's events cannot be read now."),
    ]
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
