//! Questions that end a run, and how their answers find the call.

use std::{fmt::Write as _, sync::Arc};

use anabranch_proto::{Json, SessionId, ToolCallId};
use serde::Deserialize;

use super::frame::Interrupt;
use crate::{intent::Asked, sanitize};

/// An entry of `resume` in the next run's `RunAgentInput`: the answer to one interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResumeEntry {
    /// The interrupt that is answered.
    pub interrupt_id: String,
    /// Whether it was answered or given up.
    pub status: ResumeStatus,
    /// The answer.
    #[serde(default)]
    pub payload: Option<Json>,
}

/// Whether an interrupt was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the protocol's two")]
pub enum ResumeStatus {
    /// It was answered.
    Resolved,
    /// It was given up.
    Cancelled,
}

/// An answer, and the call that waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The session that asked: the root's or a child's.
    pub session: SessionId,
    /// The call that waits, as that session knows it.
    pub tool_call_id: ToolCallId,
    /// Whom it waited for.
    pub asked: Asked,
    /// Whether the call may run, or was run. Only `"approved": true` in the payload of a confirmation allows it.
    pub approved: bool,
    /// The whole payload: of an execution elsewhere, what the call came to.
    pub payload: Option<Json>,
}

/// An answer that belongs to no question of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{interrupt_id}` is no interrupt of this server")]
#[non_exhaustive]
pub struct UnknownInterrupt {
    /// The id that was answered.
    pub interrupt_id: String,
}

const CONFIRM: &str = "confirm";
const EXECUTE: &str = "execute";

/// The id of the question that a session's call asks.
///
/// It names both, so that an answer finds the call even in a process that did not ask.
fn id(session: &SessionId, call: &ToolCallId, asked: Asked) -> String {
    let mut id = match asked {
        Asked::Person => CONFIRM.to_owned(),
        Asked::Executor => EXECUTE.to_owned(),
    };
    id.push(':');
    for c in session.as_str().chars() {
        match c {
            '%' => id.push_str("%25"),
            ':' => id.push_str("%3A"),
            c => id.push(c),
        }
    }
    // Writing to a text does not fail.
    write!(id, ":{call}").ok();
    id
}

/// Finds the call that an entry of `resume` answers.
///
/// # Errors
/// When the interrupt's id is not of ours.
///
/// ```
/// use anabranch_adapters::ag_ui::{self, ResumeEntry};
///
/// let entry: ResumeEntry = serde_json::from_str(
///     r#"{"interruptId":"confirm:ses_1:call_0","status":"resolved","payload":{"approved":true}}"#,
/// )?;
/// let answer = ag_ui::answer(entry)?;
/// assert_eq!((answer.session.as_str(), answer.tool_call_id.as_str()), ("ses_1", "call_0"));
/// assert!(answer.approved);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn answer(entry: ResumeEntry) -> Result<Answer, UnknownInterrupt> {
    #[derive(Deserialize)]
    struct Approval {
        approved: bool,
    }
    let Some((asked, session, call)) = parts(&entry.interrupt_id) else {
        return Err(UnknownInterrupt { interrupt_id: entry.interrupt_id });
    };
    let is_approved = || {
        let payload = entry.payload.as_ref();
        payload.and_then(|payload| payload.to::<Approval>().ok()).is_some_and(|approval| approval.approved)
    };
    let approved = entry.status == ResumeStatus::Resolved && (asked == Asked::Executor || is_approved());
    Ok(Answer { session, tool_call_id: call, asked, approved, payload: entry.payload })
}

fn parts(id: &str) -> Option<(Asked, SessionId, ToolCallId)> {
    let (asked, rest) = id.split_once(':')?;
    let (session, call) = rest.split_once(':')?;
    let asked = match asked {
        CONFIRM => Asked::Person,
        EXECUTE => Asked::Executor,
        _ => return None,
    };
    Some((asked, session.replace("%3A", ":").replace("%25", "%").into(), call.into()))
}

/// What the client is told of a question: `child` asks, where that is to be said, and the call is known to it by `id`.
pub(super) fn of_question(
    (session, call, asked): (&SessionId, &ToolCallId, Asked),
    child: Option<Arc<str>>,
    tool_call_id: &Arc<str>,
    name: &str,
) -> Interrupt {
    let name = sanitize::line(name);
    let (reason, message, schema) = match asked {
        Asked::Person => (
            "tool_call",
            format!("May `{name}` run?"),
            r#"{"type":"object","properties":{"approved":{"type":"boolean"}},"required":["approved"]}"#,
        ),
        Asked::Executor => ("external_execution", format!("`{name}` is to be run elsewhere"), "{}"),
    };
    Interrupt {
        subagent_run_id: child,
        id: id(session, call, asked),
        reason,
        message,
        tool_call_id: Arc::clone(tool_call_id),
        response_schema: Json::parse(schema).unwrap_or_else(|_| Json::from(serde_json::Value::Null)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_session_and_call_whatever_they_are_called() {
        for session in ["ses_1", "", ":", "%", "%3A", "a:b%25:", "ü"] {
            for call in ["call_0", "", ":", "functions.read:0", "%3A"] {
                for asked in [Asked::Person, Asked::Executor] {
                    let (session, call) = (SessionId::new(session), ToolCallId::new(call));
                    assert_eq!(parts(&id(&session, &call, asked)), Some((asked, session, call)));
                }
            }
        }
    }

    #[test]
    fn only_a_clear_yes_allows_a_call() {
        let entry = |status, payload: &str| ResumeEntry {
            interrupt_id: "confirm:s:c".to_owned(),
            status,
            payload: Some(Json::parse(payload).unwrap()),
        };
        assert!(answer(entry(ResumeStatus::Resolved, r#"{"approved":true}"#)).unwrap().approved);
        for payload in [r#"{"approved":false}"#, "{}", "true", "null", r#"{"approved":"true"}"#] {
            assert!(!answer(entry(ResumeStatus::Resolved, payload)).unwrap().approved, "{payload}");
        }
        assert!(!answer(entry(ResumeStatus::Cancelled, r#"{"approved":true}"#)).unwrap().approved);
    }

    #[test]
    fn an_id_of_others_is_refused() {
        for id in ["", "confirm", "confirm:ses_1", "ask:ses_1:call_0"] {
            let entry =
                ResumeEntry { interrupt_id: id.to_owned(), status: ResumeStatus::Resolved, payload: None };
            assert_eq!(answer(entry).unwrap_err().interrupt_id, id);
        }
    }
}
