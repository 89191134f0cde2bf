//! What may not be at once.

use std::collections::HashSet;

use anabranch_proto::{EventKind, ToolCallId};

use super::{
    Story, ensure,
    story::{Call, Run, Who},
};
use crate::plan::{self, Behaviour, CallPlan, Meddling, Way, Work};

/// No more children run at once, and no more are spawned in all, than the limits say.
pub(super) fn limits_are_kept(story: &Story<'_>) -> Result<(), String> {
    let limits = story.plan.limits;
    // What a foreign stream spawns takes no place of ours.
    let spawned = story.runs.iter().filter(|run| {
        matches!(run.who, Who::Agent(_) | Who::Foreign(_) | Who::Team(_)) && run.prompt.is_none()
    });
    let sessions: HashSet<_> = spawned.map(|run| run.session).collect();
    ensure(sessions.len() <= limits.spawned, || {
        format!("{} children were spawned, and {} may be", sessions.len(), limits.spawned)
    })?;
    // A child whose terminal was lost is open for longer than it runs.
    // One on a task of its own has given its place back before its terminal is read.
    let in_task = |call: &CallPlan| !matches!(&call.work, Work::Spawn(spawn) if spawn.way != Way::InTask);
    if plan::calls(story.plan).any(|call| call.meddling == Meddling::DropsTerminals || !in_task(call)) {
        return Ok(());
    }
    let mut open = 0_usize;
    for admitted in &story.record.log {
        if let EventKind::SpawnSessionStart(spawn) = &admitted.event.kind {
            open += usize::from(sessions.contains(&spawn.child_session_id));
            ensure(open <= limits.running, || {
                format!("{open} children run at {}, and {} may", admitted.seq, limits.running)
            })?;
        } else if let (EventKind::StreamComplete(_), Some(scope)) =
            (&admitted.event.kind, admitted.event.scope.child())
        {
            open -= usize::from(sessions.contains(&scope.child_session_id));
        }
    }
    Ok(())
}

/// While a call runs that must run alone no other call of its run does.
pub(super) fn exclusive_calls_run_alone(story: &Story<'_>) -> Result<(), String> {
    for run in &story.runs {
        for call in run.calls.iter().filter(|call| call.is_natural && is_exclusive(call)) {
            let mut is_running = false;
            for admitted in &run.events {
                let Some((id, begins)) = result_of(&admitted.event.kind) else { continue };
                if id == call.id {
                    is_running = begins;
                } else {
                    ensure(!is_running, || at_once(run, call, id, admitted.seq))?;
                }
            }
        }
    }
    Ok(())
}

fn at_once(run: &Run<'_>, call: &Call<'_>, other: &ToolCallId, seq: u64) -> String {
    format!("{other} of {} runs at {seq} beside {}, which must run alone", run.name, call.id)
}

fn is_exclusive(call: &Call<'_>) -> bool {
    let Some(Work::Tool { behaviour, exclusive }) = call.plan.map(|plan| &plan.work) else { return false };
    // An async function runs beside others.
    *exclusive && !matches!(behaviour, Behaviour::Typed | Behaviour::PanicInFuture)
}

/// Whose result begins or ends.
fn result_of(kind: &EventKind) -> Option<(&ToolCallId, bool)> {
    if let EventKind::ToolResultStart(start) = kind {
        Some((&start.tool_call_id, true))
    } else if let EventKind::ToolResultEnd(end) = kind {
        Some((&end.tool_call_id, false))
    } else {
        None
    }
}
