//! Answers to interrupts.

use anabranch_adapters::{
    ag_ui::{self, ResumeEntry, ResumeStatus},
    intent::Asked,
};
use anabranch_proto::ToolChunk;
use anabranch_runtime::Answer;
use tokio_util::sync::CancellationToken;

use super::talk::{State, Talk};
use crate::http::Refusal;

/// Answers all that a thread waits for. Gives what stops its run.
///
/// All or nothing: where an entry is of no interrupt, or an interrupt has no entry, nothing is answered.
pub(super) fn give(talk: &mut Talk, entries: Vec<ResumeEntry>) -> Result<CancellationToken, Refusal> {
    let (stop, asked) = match &talk.state {
        State::Asking { stop, interrupts } => (Some(stop.clone()), interrupts.clone()),
        State::Idle | State::Running | State::Left | State::Dead => (None, Vec::new()),
    };
    let strange = entries.iter().find(|entry| !asked.contains(&entry.interrupt_id));
    let (Some(stop), None) = (stop, strange) else {
        let interrupt = strange.or(entries.first()).map(|entry| entry.interrupt_id.clone());
        return Err(Refusal::NotAsked { interrupt: interrupt.unwrap_or_default() });
    };
    let is_answered = |id: &String| entries.iter().any(|entry| entry.interrupt_id == *id);
    if !asked.iter().all(is_answered) {
        return Err(Refusal::Unanswered { interrupts: asked });
    }
    for entry in entries {
        let status = entry.status;
        let answer =
            ag_ui::answer(entry).map_err(|error| Refusal::NotAsked { interrupt: error.interrupt_id })?;
        let given = spoken(&answer, status);
        talk.answer(&answer, given);
    }
    Ok(stop)
}

fn spoken(answer: &ag_ui::Answer, status: ResumeStatus) -> Answer {
    match (answer.asked, status) {
        (Asked::Executor, ResumeStatus::Resolved) => {
            let payload = answer.payload.as_ref();
            let text =
                payload.map(|payload| payload.to::<String>().unwrap_or_else(|_| payload.as_str().to_owned()));
            Answer::output(ToolChunk::text(text.unwrap_or_default()))
        }
        (Asked::Executor, ResumeStatus::Cancelled) => {
            Answer::output(ToolChunk::error("the client gave the call up"))
        }
        _ if answer.approved => Answer::allow(),
        _ => Answer::deny(),
    }
}
