//! `GET /sessions` and `GET /sessions/{id}`: what there is.

use anabranch_proto::{Outcome, SourceType, SpawnMechanism, Timestamp, Usage};
use anabranch_runtime::{Question, QuestionKind};
use anabranch_session::{SessionRecord, Status};
use axum::{
    Extension,
    extract::{Query, State, rejection::QueryRejection},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Found, cursor::Cursor, entry::Entry, is_id, registry::Listed};
use crate::{
    KeptSession, Tenant,
    http::{Answered, Refusal, Shared},
};

/// The most sessions that one answer lists.
const PAGE: usize = 256;

/// Which sessions are listed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Those that were created after this one.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9A-Za-z_-]{1,64}$"))]
    after: Option<String>,
    /// At most so many.
    #[serde(default = "page")]
    #[schemars(range(min = 1, max = PAGE))]
    limit: usize,
}

fn page() -> usize {
    PAGE
}

/// A tenant's sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct List {
    /// The sessions, in the order in which they were created.
    sessions: Vec<Brief>,
    /// Where there are more: what to give as `after` to see them.
    next: Option<String>,
}

/// A session in brief.
#[derive(Debug, Serialize, JsonSchema)]
struct Brief {
    /// The session's id.
    id: String,
    /// When it was created.
    #[schemars(with = "String", extend("format" = "date-time"))]
    created_at: Timestamp,
    /// Whether a prompt is being answered.
    state: Activity,
    /// The position behind its last event.
    cursor: String,
}

/// Whether a session is at work.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Activity {
    /// No prompt is being answered.
    Idle,
    /// A prompt is being answered, or is about to be.
    Running,
    /// It could not go on, and takes no prompts: its log took no more.
    Ended,
}

/// A session and all below it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Look {
    /// The session's id.
    id: String,
    /// When it was created.
    #[schemars(with = "String", extend("format" = "date-time"))]
    created_at: Timestamp,
    /// Whether a prompt is being answered.
    state: Activity,
    /// How many prompts were taken and are not answered yet.
    prompts: usize,
    /// What the numbers of its events belong to.
    epoch: String,
    /// A position that all of this is as new as; events behind it may be in it or not.
    cursor: String,
    /// What waits for an answer, in the order in which it was asked.
    questions: Vec<Asked>,
    /// The root, and all below it in the order in which they became known.
    tree: Vec<Node>,
}

/// A question about a call.
#[derive(Debug, Serialize, JsonSchema)]
struct Asked {
    /// The session whose call it is.
    session: String,
    /// The call.
    call: String,
    /// The tool's name.
    tool: String,
    /// The arguments as the model wrote them: JSON text, perhaps malformed.
    input: String,
    /// What is asked.
    kind: Kind,
}

/// What is asked about a call.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "QuestionKind")]
enum Kind {
    /// Whether it may run.
    Confirm,
    /// What it came to, which the client is to run.
    External,
}

/// A session of the tree.
#[derive(Debug, Serialize, JsonSchema)]
struct Node {
    /// The session.
    id: String,
    /// The session that spawned it; none for the root.
    parent: Option<String>,
    /// How deep it lies: 0 for the root.
    depth: u32,
    /// The sub-agent as the application knows it; none for the root.
    subagent_id: Option<String>,
    /// The name of the agent or team.
    name: String,
    /// What runs in it.
    #[schemars(with = "String")]
    source_type: SourceType,
    /// What created its last run; none for the root.
    #[schemars(with = "Option<String>")]
    spawn_mechanism: Option<SpawnMechanism>,
    /// What it is to do, for people.
    description: String,
    /// The parent's call that spawned its last run, where one did.
    tool_call_id: Option<String>,
    /// How many runs it has had.
    runs: u32,
    /// How it is doing.
    status: NodeStatus,
    /// How its last run ended, where it has.
    #[schemars(with = "Option<String>")]
    outcome: Option<Outcome>,
    /// When its last run began.
    #[schemars(with = "Option<String>")]
    started_at: Option<Timestamp>,
    /// When its last run ended.
    #[schemars(with = "Option<String>")]
    ended_at: Option<Timestamp>,
    /// Tool calls that it and everything below it made.
    tool_calls: u64,
    /// Tokens that it and everything below it used.
    usage: Tokens,
}

/// How a session of the tree is doing.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum NodeStatus {
    /// It has had no run.
    Idle,
    /// Its last run is open.
    Running,
    /// Its last run has ended.
    Ended,
}

/// Tokens that models used.
#[derive(Debug, Serialize, JsonSchema)]
struct Tokens {
    /// Read.
    input_tokens: u64,
    /// Written.
    output_tokens: u64,
}

/// `GET /sessions`.
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(tenant): Extension<Tenant>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Answered<List>, Refusal> {
    let Query(ListQuery { after, limit }) =
        query.map_err(|rejection| Refusal::BadQuery(rejection.body_text()))?;
    if !(1..=PAGE).contains(&limit) {
        return Err(Refusal::BadQuery(format!("`limit` is to be 1 to {PAGE}")));
    }
    if after.as_deref().is_some_and(|after| !is_id(after)) {
        return Err(Refusal::BadQuery("`after` is to be the id of a session".to_owned()));
    }
    let after = after.unwrap_or_default();
    let mut entries = shared.api()?.registry.list(&tenant, &after, limit + 1);
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let sessions: Vec<_> = entries.iter().map(brief).collect();
    let next = sessions.last().filter(|_| has_more).map(|brief| brief.id.clone());
    Ok(Answered(List { sessions, next }))
}

/// `GET /sessions/{id}`.
pub(super) async fn look(Found { entry, .. }: Found) -> Answered<Look> {
    // In this order: what is behind the cursor may be in what follows, what is before it is.
    let cursor = entry.cursor();
    let session = &entry.session;
    let tree = session.with_tree(|tree| tree.iter().map(node).collect());
    Answered(Look {
        id: session.id().to_string(),
        created_at: entry.created_at,
        state: activity(&entry),
        prompts: session.prompts_open(),
        epoch: entry.epoch.to_string(),
        cursor: cursor.to_string(),
        questions: session.questions().into_iter().map(asked).collect(),
        tree,
    })
}

fn brief(listed: &Listed) -> Brief {
    match listed {
        Listed::Open(entry) => Brief {
            id: entry.session.id().to_string(),
            created_at: entry.created_at,
            state: activity(entry),
            cursor: entry.cursor().to_string(),
        },
        Listed::Closed(KeptSession { id, epoch, last, created_at, .. }) => Brief {
            id: id.to_string(),
            created_at: *created_at,
            state: Activity::Idle,
            cursor: Cursor { epoch: epoch.clone(), seq: *last }.to_string(),
        },
    }
}

fn activity(entry: &Entry) -> Activity {
    if entry.session.has_ended() {
        Activity::Ended
    } else if entry.session.prompts_open() > 0 {
        Activity::Running
    } else {
        Activity::Idle
    }
}

fn asked(question: Question) -> Asked {
    let Question { session_id, call, kind, .. } = question;
    // A kind that is to come is, until it is known here, one that somebody has to say yes to.
    let kind = if kind == QuestionKind::External { Kind::External } else { Kind::Confirm };
    Asked {
        session: session_id.to_string(),
        call: call.id.to_string(),
        tool: call.name.to_string(),
        input: call.input,
        kind,
    }
}

fn node(record: &SessionRecord) -> Node {
    let Usage { input_tokens, output_tokens, .. } = record.subtree_usage;
    let (status, outcome) = if let Status::Ended(outcome) = record.status {
        (NodeStatus::Ended, Some(outcome))
    } else if record.status == Status::Running {
        (NodeStatus::Running, None)
    } else {
        (NodeStatus::Idle, None)
    };
    Node {
        id: record.id.to_string(),
        parent: record.parent.as_ref().map(ToString::to_string),
        depth: record.depth,
        subagent_id: record.subagent_id.as_ref().map(ToString::to_string),
        name: record.source_name.to_string(),
        source_type: record.source_type,
        spawn_mechanism: record.mechanism,
        description: record.description.clone(),
        tool_call_id: record.tool_call_id.as_ref().map(ToString::to_string),
        runs: record.runs,
        status,
        outcome,
        started_at: record.started_at,
        ended_at: record.ended_at,
        tool_calls: record.subtree_tool_calls,
        usage: Tokens { input_tokens, output_tokens },
    }
}
