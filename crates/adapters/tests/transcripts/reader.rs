//! A reader of the tool-call frames that was written from their description, not from their types.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Frame {
    ToolCallStart {
        tool_call_id: String,
        title: String,
        kind: String,
        status: String,
        metadata: Start,
    },
    ToolCallUpdate {
        tool_call_id: String,
        title: Option<String>,
        status: Option<String>,
        content: Option<String>,
        metadata: Update,
    },
    AgentMessageChunk {
        text: String,
        message_id: String,
    },
    AgentThoughtChunk {
        text: String,
        message_id: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Start {
    SpawnStart { child_session_id: String, spawn_mechanism: String, depth: u32 },
    ToolCall { child_session_id: Option<String>, depth: u32 },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::enum_variant_names, reason = "the names are those of the frames")]
enum Update {
    SpawnText,
    SpawnThinking,
    SpawnUpdate {
        spawn_mechanism: String,
        description: String,
    },
    SpawnEnd {
        outcome: String,
        error: Option<Problem>,
    },
    ToolCallInput {
        #[expect(dead_code, reason = "what a model writes need not be JSON")]
        input: String,
    },
    ConfirmationRequired,
    ConfirmationResult {
        #[expect(dead_code, reason = "read to be strict about its type")]
        confirmed: bool,
    },
    ExternalExecutionRequired,
    ExternalExecutionResult,
    ToolCallEnd {
        state: String,
        #[expect(dead_code, reason = "read to be strict about its type")]
        response: Option<serde_json::Map<String, Value>>,
    },
    Custom {
        #[expect(dead_code, reason = "an application's own, whatever it is")]
        name: String,
        #[expect(dead_code, reason = "an application's own, whatever it is")]
        value: Value,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Problem {
    r#type: String,
    message: String,
}

const MECHANISMS: [&str; 3] = ["sync", "async_worker", "manual"];

/// Reads a transcript of lines and checks what holds for every stream: a card opens once, before anything else of it,
/// and closes once, after which only what was learnt of its name may come.
pub(crate) fn check(transcript: &str) {
    // Whether a card is open, by its id.
    let mut cards: HashMap<String, bool> = HashMap::new();
    for line in transcript.lines() {
        match serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) {
            Frame::ToolCallStart { tool_call_id, title, kind, status, metadata } => {
                assert_eq!((&*kind, &*status), ("other", "in_progress"), "{line}");
                assert_one_line(&title, line);
                check_start(&tool_call_id, &title, &metadata, line);
                assert_eq!(cards.insert(tool_call_id, true), None, "opened twice: {line}");
            }
            Frame::ToolCallUpdate { tool_call_id, title, status, content, metadata } => {
                let open = cards.get_mut(&tool_call_id).unwrap_or_else(|| panic!("never opened: {line}"));
                assert!(*open || matches!(metadata, Update::SpawnUpdate { .. }), "late: {line}");
                assert!(content.is_none_or(|content| !content.is_empty()), "{line}");
                assert_one_line(title.as_deref().unwrap_or_default(), line);
                check_update(status.as_deref(), &metadata, line);
                *open = *open && status.is_none();
            }
            Frame::AgentMessageChunk { text, message_id } | Frame::AgentThoughtChunk { text, message_id } => {
                assert!(!text.is_empty() && !message_id.is_empty(), "{line}");
            }
        }
    }
}

fn check_start(id: &str, title: &str, metadata: &Start, line: &str) {
    match metadata {
        Start::SpawnStart { child_session_id, spawn_mechanism, depth } => {
            assert!(title.starts_with("Spawned: ") && *depth > 0, "{line}");
            assert!(id.starts_with(&format!("spawn:{child_session_id}")), "{line}");
            assert!(MECHANISMS.contains(&&**spawn_mechanism), "{line}");
        }
        Start::ToolCall { child_session_id, depth } => {
            assert_eq!(child_session_id.is_none(), *depth == 0, "{line}");
            assert!(child_session_id.iter().all(|child| id.starts_with(child)), "{line}");
        }
    }
}

fn check_update(status: Option<&str>, metadata: &Update, line: &str) {
    let expected = match metadata {
        Update::SpawnEnd { outcome, error } => {
            assert!(error.iter().all(|error| !error.r#type.is_empty() && !error.message.is_empty()));
            Some(if outcome == "completed" { "completed" } else { "failed" })
        }
        Update::ToolCallEnd { state, .. } => {
            // An end that says `running` is an end all the same.
            Some(if ["success", "running"].contains(&&**state) { "completed" } else { "failed" })
        }
        Update::SpawnUpdate { spawn_mechanism, description } => {
            assert!(MECHANISMS.contains(&&**spawn_mechanism), "{line}");
            assert_one_line(description, line);
            None
        }
        Update::ToolCallInput { .. }
        | Update::SpawnText
        | Update::SpawnThinking
        | Update::Custom { .. }
        | Update::ConfirmationRequired
        | Update::ConfirmationResult { .. }
        | Update::ExternalExecutionRequired
        | Update::ExternalExecutionResult => None,
    };
    assert_eq!(status, expected, "{line}");
}

fn assert_one_line(text: &str, line: &str) {
    assert!(!text.contains(|c: char| c.is_control()), "{line}");
}
