//! What calls come to.

use std::collections::HashSet;

use anabranch_proto::{ContentBlock, EventKind, Outcome, ToolResultState};

use super::{
    Story, ensure,
    expected::loses_terminal,
    story::{Call, Run, Who},
};
use crate::plan::{self, CallPlan, Meddling, Work};

/// Each call has exactly one result, and its id is its own.
pub(super) fn each_call_has_its_result(story: &Story<'_>) -> Result<(), String> {
    let mut ids = HashSet::new();
    for run in story.runs.iter().filter(|run| matches!(run.who, Who::Agent(_))) {
        for call in &run.calls {
            ensure(call.plan.is_some(), || {
                format!("{} made a call that is not planned: {}", run.name, call.id)
            })?;
            ensure(ids.insert((run.session, call.id)), || format!("{} used {} twice", run.name, call.id))?;
            let results = run.events.iter().filter(|admitted| {
                matches!(&admitted.event.kind, EventKind::ToolResultEnd(end) if end.tool_call_id == *call.id)
            });
            let count = results.count();
            // What somebody else gave is a result too, where the call was stopped just then.
            let is_given = run.events.iter().any(|admitted| {
                matches!(&admitted.event.kind, EventKind::ExternalExecutionResult(given)
                    if given.execution_results.iter().any(|result| result.id == *call.id))
            });
            ensure(count == 1 || (count == 0 && is_given), || {
                format!("{} of {} has {count} results", call.id, run.name)
            })?;
        }
    }
    Ok(())
}

/// A call that needs leave runs once it was given and not before, and no call runs twice.
pub(super) fn what_may_not_run_does_not(story: &Story<'_>) -> Result<(), String> {
    let mut ran = HashSet::new();
    for number in &story.record.seen.ran {
        ensure(ran.insert(number), || format!("call {number} ran twice"))?;
    }
    for plan in plan::calls(story.plan).filter(|plan| plan.ask.is_some_and(|ask| !ask.allows())) {
        ensure(!ran.contains(&plan.number), || format!("call {} ran without leave", plan.number))?;
    }
    Ok(())
}

/// A call that ended by itself has the result that is planned, whatever its siblings did.
pub(super) fn each_result_is_as_planned(story: &Story<'_>) -> Result<(), String> {
    for run in story.runs.iter().filter(|run| matches!(run.who, Who::Agent(_))) {
        for call in &run.calls {
            let (Some(plan), Some(state)) = (call.plan, call.state()) else { continue };
            let expected = expected(story, run, call, plan);
            let stopped = [ToolResultState::Interrupted, ToolResultState::Error];
            let is_right = expected.is_none_or(|expected| state == expected)
                || (!call.is_natural && stopped.contains(&state));
            ensure(is_right, || {
                format!("{} of {} is {state:?}, not {expected:?}: {:?}", call.id, run.name, call.text)
            })?;
            if call.is_natural {
                check_text(story, run, call, plan)
                    .map_err(|what| format!("{} of {} {what}: {:?}", call.id, run.name, call.text))?;
            }
        }
    }
    Ok(())
}

/// The state of a call's result, where it is certain.
fn expected(story: &Story<'_>, run: &Run<'_>, call: &Call<'_>, plan: &CallPlan) -> Option<ToolResultState> {
    // Whether it may run is asked around all layers.
    if plan.ask.is_some_and(|ask| !ask.allows()) {
        return Some(ToolResultState::Denied);
    }
    if plan.meddling.breaks_call() {
        return Some(ToolResultState::Error);
    }
    match &plan.work {
        Work::Tool { behaviour, .. } => behaviour.state(),
        Work::External(answered) => {
            Some(if answered.is_some() { ToolResultState::Success } else { ToolResultState::Error })
        }
        Work::Refused(_) => Some(ToolResultState::Error),
        // Without a child it was refused, or its announcement was lost on the way.
        Work::Spawn(spawn) if spawn.way.is_background() => call.child.map(|_| ToolResultState::Success),
        Work::Spawn(_) => match call.child.and_then(|child| story.runs.get(child)) {
            None => (call.is_natural || run.outcome() == Some(Outcome::Completed))
                .then_some(ToolResultState::Error),
            Some(child) if loses_terminal(story, child) => None,
            Some(child) => child.outcome().map(Outcome::result_state),
        },
    }
}

fn check_text(story: &Story<'_>, run: &Run<'_>, call: &Call<'_>, plan: &CallPlan) -> Result<(), String> {
    let text = &call.text;
    let has = |part: &str| ensure(text.contains(part), || format!("does not say `{part}`"));
    if let Some(ask) = plan.ask.filter(|ask| !ask.allows()) {
        return has(ask.says());
    }
    if plan.meddling == Meddling::LosesResponse {
        has("ended without a response")?;
    }
    match &plan.work {
        Work::Tool { behaviour, .. } => {
            has(&behaviour.says(plan.number))?;
            ensure(!text.contains("too late"), || "says what came too late".to_owned())?;
            let name = format!("report {}", plan.number);
            let reports = run.events.iter().filter(
                |admitted| matches!(&admitted.event.kind, EventKind::Custom(custom) if *custom.name == *name),
            );
            let said = story.record.seen.reports.get(&plan.number).copied().unwrap_or(0);
            let count = reports.count();
            ensure(count == said, || format!("made {said} reports, and {count} are seen"))
        }
        Work::External(Some(_)) => has(&format!("<{}>", plan.number)),
        Work::External(None) => has("nobody gave the result"),
        Work::Refused(refusal) => has(refusal.says()),
        Work::Spawn(spawn) if spawn.way.is_background() => {
            if call.child.is_some() {
                has("works in the background")
            } else {
                Ok(())
            }
        }
        Work::Spawn(_) => match call.child.and_then(|child| story.runs.get(child)) {
            None => check_refusal(story, run, text),
            Some(child) if loses_terminal(story, child) => Ok(()),
            Some(child) => check_child(child, text),
        },
    }
}

/// What a child came to is what its parent's model reads.
fn check_child(child: &Run<'_>, text: &str) -> Result<(), String> {
    let Some((_, complete)) = child.terminal() else { return Ok(()) };
    let message = complete.message.iter().flat_map(|message| &message.content);
    for said in message.filter_map(ContentBlock::as_text) {
        ensure(text.contains(said), || format!("does not have what the child said, {said:?}"))?;
    }
    let error = complete.error.as_ref().map(|error| error.message.as_str());
    ensure(error.is_none_or(|error| text.contains(error)), || format!("does not say {error:?}"))
}

/// A child that was not spawned was refused by a limit that is small enough to.
fn check_refusal(story: &Story<'_>, run: &Run<'_>, text: &str) -> Result<(), String> {
    let limits = story.plan.limits;
    let is_right = if text.contains("would be at depth") {
        run.depth + 1 > limits.depth
    } else if text.contains(" running, which is the limit") {
        limits.running < 64
    } else if text.contains("have been spawned in this session, which is the limit") {
        limits.spawned < 10_000
    } else if text.contains("the session is being stopped") {
        // What stops in the middle of the driver's turn may be noticed when the run has ended.
        !story.record.seen.cancels.is_empty() || !story.record.seen.stopped.is_empty()
    } else {
        false
    };
    ensure(is_right, || "was refused for no good reason".to_owned())
}
