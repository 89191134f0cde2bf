//! When deadlines pass.

use anabranch_proto::{EventKind, Outcome, SpawnMechanism, Timestamp};

use super::{Story, ensure, story::Run};
use crate::{
    plan::{Pace, Plan, WINDOW},
    run::MODEL_CALL,
};

/// How much later than its deadline a run may end although nobody holds it up: clocks tick in milliseconds.
const TICK: u64 = 1;

/// A run that timed out did so at its deadline, and a model that was silent at its own: nobody who has room holds time up.
pub(super) fn deadlines_are_kept(story: &Story<'_>) -> Result<(), String> {
    let slack = TICK + held_up(story.plan);
    let asks = story.record.log.iter().any(|admitted| {
        let kind = &admitted.event.kind;
        matches!(kind, EventKind::RequireUserConfirm(_) | EventKind::RequireExternalExecution(_))
    });
    for run in &story.runs {
        let Some((end, complete)) = run.terminal() else { continue };
        let timeout = run.spawn.and_then(|spawn| spawn.timeout);
        if complete.outcome == Outcome::TimedOut
            && let (Some(timeout), Some(announced)) = (timeout, announced(run))
        {
            let took = between(announced, end.event.created_at);
            // Its time stands still while somebody is asked.
            let latest = if asks { u64::MAX } else { timeout + slack };
            ensure((timeout..=latest).contains(&took), || {
                format!("{} timed out after {took} ms, not {timeout}", run.name)
            })?;
        }
        if run.error().is_some_and(|error| error.message.starts_with("the model did not finish within")) {
            let asked = run
                .events
                .iter()
                .rev()
                .find(|admitted| matches!(admitted.event.kind, EventKind::ModelCallStart(_)));
            let took = asked.map(|asked| between(asked.event.created_at, end.event.created_at));
            ensure(took.is_some_and(|took| (MODEL_CALL..=MODEL_CALL + slack).contains(&took)), || {
                format!("the model of {} was given {took:?} ms, not {MODEL_CALL}", run.name)
            })?;
        }
    }
    Ok(())
}

/// When a run was announced; none where the processor did it, by the time of a foreign event.
fn announced(run: &Run<'_>) -> Option<Timestamp> {
    let event = &run.announced?.event;
    let EventKind::SpawnSessionStart(spawn) = &event.kind else { return None };
    (spawn.spawn_mechanism == SpawnMechanism::Sync).then_some(event.created_at)
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.unix_millis() - from.unix_millis()).unwrap_or(0)
}

/// For how many milliseconds readers may hold producers back.
fn held_up(plan: &Plan) -> u64 {
    let replies = plan.prompts.iter().map(|prompt| (true, prompt.reply.pace));
    let readers = plan.readers.iter().map(|reader| (reader.lossless, reader.pace));
    let has_slow = replies.chain(readers).any(|(lossless, pace)| lossless && pace != Pace::Fast);
    if has_slow && plan.limits.window < WINDOW { 4 * plan.limits.stall } else { 0 }
}
