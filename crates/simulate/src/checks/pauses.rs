//! For how long a run's time stood still because somebody was asked.

use anabranch_proto::{EventKind, ToolCallId};

use super::story::{Run, Story};

/// For how many milliseconds up to its end the time of a run stood still: while it, or a run below it that it waits for,
/// asked somebody.
pub(super) fn paused(story: &Story<'_>, run: &Run<'_>, until: u64) -> u64 {
    let mut pauses: Vec<(u64, u64)> = Vec::new();
    for other in story.runs.iter().filter(|other| is_below(story, other, run)) {
        pauses.extend(questions(other, until));
    }
    pauses.sort_unstable();
    let (mut sum, mut latest) = (0, 0);
    for (from, to) in pauses {
        sum += to.saturating_sub(from.max(latest));
        latest = latest.max(to);
    }
    sum
}

/// Whether a run is another, or below it and waited for.
fn is_below(story: &Story<'_>, run: &Run<'_>, top: &Run<'_>) -> bool {
    let mut below = run;
    while !std::ptr::eq(below, top) {
        // A sub-agent waits for its own background children, the root for none.
        let is_waited_for = !below.is_background() || below.depth > 1;
        let above = below.parent.filter(|_| is_waited_for).map(|(above, _)| above);
        let Some(above) = below.team.or(above).and_then(|above| story.runs.get(above)) else { return false };
        below = above;
    }
    true
}

/// From when to when each question of a run was open.
fn questions(run: &Run<'_>, until: u64) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for (place, admitted) in run.events.iter().enumerate() {
        for call in asked(&admitted.event.kind) {
            let later = run.events.get(place..).unwrap_or_default().iter();
            let end = later.clone().find(|later| ends(&later.event.kind, call)).map(|end| time(end));
            found.push((time(admitted), end.unwrap_or(until).min(until)));
        }
    }
    found
}

fn asked(kind: &EventKind) -> Vec<&ToolCallId> {
    if let EventKind::RequireUserConfirm(require) = kind {
        require.tool_calls.iter().map(|call| &call.id).collect()
    } else if let EventKind::RequireExternalExecution(require) = kind {
        require.tool_calls.iter().map(|call| &call.id).collect()
    } else {
        Vec::new()
    }
}

/// Whether a question about a call is over: it was answered, or its call has a result.
fn ends(kind: &EventKind, call: &ToolCallId) -> bool {
    if let EventKind::UserConfirmResult(answer) = kind {
        answer.confirm_results.iter().any(|result| result.tool_call.id == *call)
    } else if let EventKind::ExternalExecutionResult(answer) = kind {
        answer.execution_results.iter().any(|result| result.id == *call)
    } else if let EventKind::ToolResultEnd(end) = kind {
        end.tool_call_id == *call
    } else {
        false
    }
}

fn time(admitted: &anabranch_proto::Admitted) -> u64 {
    u64::try_from(admitted.event.created_at.unix_millis()).unwrap_or(0)
}
