//! Answers to interrupts.

use anabranch_adapters::{
    ag_ui::{self, ResumeEntry, ResumeStatus},
    intent::Asked,
};
use anabranch_proto::ToolChunk;
use anabranch_runtime::Answer;
use tokio_util::sync::CancellationToken;

use super::{
    input::Prompt,
    talk::{State, Talk},
};
use crate::http::Refusal;

/// Answers all that a thread waits for, and says to its run what the user says beside that. Gives what stops the run; nothing
/// where the thread waits for nothing.
///
/// All or nothing: where an interrupt has no entry, nothing is answered. An entry of no interrupt is left aside, as the protocol
/// wants it: clients keep interrupts of a run whose end they did not read, and cannot go on without an entry for each.
pub(super) fn give(
    talk: &mut Talk,
    mut entries: Vec<ResumeEntry>,
    beside: Option<&Prompt>,
) -> Result<Option<CancellationToken>, Refusal> {
    let (stop, asked) = match &talk.state {
        State::Asking { stop, interrupts } => (Some(stop.clone()), interrupts.clone()),
        State::Idle | State::Running | State::Left | State::Dead => (None, Vec::new()),
    };
    entries.retain(|ResumeEntry { interrupt_id: id, .. }| {
        let is_asked = asked.contains(id);
        if !is_asked {
            tracing::warn!(interrupt = id, "an answer is of no interrupt that its thread waits for");
        }
        is_asked
    });
    let is_answered = |id: &String| entries.iter().any(|entry| entry.interrupt_id == *id);
    if !asked.iter().all(is_answered) {
        return Err(Refusal::Unanswered { interrupts: asked });
    }
    // Before the answers, so that the next call of a model has it.
    if let Some(prompt) = beside.filter(|_| stop.is_some()) {
        talk.steer(prompt);
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
