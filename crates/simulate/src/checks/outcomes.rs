//! How runs end.

use anabranch_proto::{ErrorInfo, EventKind, Outcome};

use super::{
    Story, ensure,
    expected::{Natural, is_left_alone, loses_terminal, natural},
    story::{Run, Who},
};
use crate::seen::Cancel;

/// Each run ends with exactly one terminal, and that is its last event.
pub(super) fn each_run_has_one_terminal(story: &Story<'_>) -> Result<(), String> {
    for run in &story.runs {
        let is_terminal = |kind: &EventKind| matches!(kind, EventKind::StreamComplete(_));
        let count = run.events.iter().filter(|admitted| is_terminal(&admitted.event.kind)).count();
        ensure(count == 1, || format!("{} has {count} terminals", run.name))?;
        let last = run.events.last();
        ensure(last.is_some_and(|last| is_terminal(&last.event.kind)), || {
            format!("the last event of {} is no terminal", run.name)
        })?;
    }
    let (roots, prompts) =
        (story.runs.iter().filter(|run| run.prompt.is_some()).count(), story.record.prompts);
    let is_closed = story.record.seen.cancels.iter().any(|cancel| cancel.closes);
    ensure(roots == prompts || (is_closed && roots < prompts), || {
        format!("{prompts} prompts were taken and {roots} answered")
    })
}

/// Each run ends as the plan has it, or as whoever stopped it has it.
pub(super) fn each_run_ends_as_planned(story: &Story<'_>) -> Result<(), String> {
    for run in &story.runs {
        let Some(outcome) = run.outcome() else { continue };
        if let Who::Unknown = run.who {
            return Err(format!("{} is not in the plan", run.name));
        }
        // Whatever panics in these plans is not ours.
        let is_ours = |error: &&ErrorInfo| {
            error.message.contains("the agent's loop panicked")
                || (error.message.contains("the sub-agent panicked") && !matches!(run.who, Who::Foreign(_)))
        };
        let taken = run.error().filter(is_ours);
        ensure(taken.is_none(), || {
            format!("{} is said to have failed by our own fault: {taken:?}", run.name)
        })?;
        let allowed = allowed(story, run);
        ensure(allowed.contains(&outcome), || {
            let error = run.error().map(|error| format!(" ({})", error.message)).unwrap_or_default();
            format!("{} ended as {outcome}{error}, not as one of {allowed:?}", run.name)
        })?;
    }
    Ok(())
}

fn allowed(story: &Story<'_>, run: &Run<'_>) -> Vec<Outcome> {
    use Outcome::{Completed, ExceedMaxIters, Failed, Interrupted, TimedOut};
    if let Who::Nested = run.who {
        return vec![Completed, ExceedMaxIters, Failed, Interrupted, TimedOut];
    }
    if loses_terminal(story, run) {
        return vec![Failed, Interrupted];
    }
    let mut allowed = match natural(story, run) {
        Natural::As(outcome) => vec![outcome],
        Natural::Never => Vec::new(),
        Natural::Open => vec![Completed, ExceedMaxIters, Failed, TimedOut],
    };
    let is_open = allowed.len() != 1;
    if let Some(prompt) = run.prompt {
        // What is to end by itself needs no last resort.
        let hits = |cancel: &Cancel| {
            (cancel.prompt == Some(prompt) || cancel.closes) && (!cancel.is_last_resort || is_open)
        };
        if story.record.seen.cancels.iter().any(hits) {
            allowed.push(Interrupted);
        }
        return allowed;
    }
    if story.record.seen.stopped.contains(run.session) {
        allowed.push(Interrupted);
    }
    if run.is_background() {
        let parent = run.parent.and_then(|(parent, _)| story.runs.get(parent));
        match parent {
            // Stopped with the session or with the reply.
            Some(parent) if parent.depth == 0 => allowed.push(Interrupted),
            // A sub-agent that completes has waited for it.
            Some(parent) if parent.outcome() == Some(Completed) => {}
            // Stopped with the sub-agent whose it is.
            Some(_) | None => allowed.extend([Interrupted, Failed]),
        }
    }
    let team = run.team.and_then(|team| story.runs.get(team));
    if team.is_some_and(|team| team.outcome() != Some(Completed)) {
        // Stopped with its team.
        allowed.extend([Interrupted, Failed]);
    }
    if run.spawn.is_some_and(|spawn| spawn.timeout.is_some()) {
        allowed.push(TimedOut);
    }
    if !is_left_alone(story, run) {
        allowed.extend([Interrupted, Failed]);
    }
    allowed
}
