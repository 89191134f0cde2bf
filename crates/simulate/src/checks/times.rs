//! When deadlines pass.

use anabranch_proto::{Admitted, EventKind, Outcome, SpawnMechanism, Timestamp};

use super::{Story, ensure, pauses::paused, story::Run};
use crate::{
    plan::{Pace, Plan, WINDOW},
    run::MODEL_CALL,
    stamp::START,
};

/// How much later than its deadline a run may end although nobody holds it up: clocks tick in milliseconds.
const TICK: u64 = 1;

/// How many milliseconds the time that is left after questions may be off.
const PAUSED: u64 = 8;

/// A run that timed out did so at its deadline, and a model that was silent at its own: nobody who has room holds time up.
pub(super) fn deadlines_are_kept(story: &Story<'_>) -> Result<(), String> {
    let slack = TICK + held_up(story.plan);
    for run in &story.runs {
        let Some((end, complete)) = run.terminal() else { continue };
        let timeout = run.spawn.and_then(|spawn| spawn.timeout);
        let is_models =
            run.error().is_some_and(|error| error.message.starts_with("the model did not finish within"));
        if complete.outcome == Outcome::TimedOut
            && !is_models
            && let (Some(timeout), Some(announced)) = (timeout, announced(run))
        {
            let took = between(announced, end.event.created_at);
            // Its time stands still while somebody is asked.
            let until = u64::try_from(end.event.created_at.unix_millis()).unwrap_or(0);
            let paused = paused(story, run, until);
            // Each question begins and ends at a tick, and is noticed when nobody holds the run up.
            let (early, late) = if paused > 0 { (PAUSED + held_up(story.plan), PAUSED) } else { (0, 0) };
            let timeout = timeout + paused;
            let allowed = timeout.saturating_sub(early)..=timeout + slack + late;
            ensure(allowed.contains(&took), || {
                format!("{} timed out after {took} ms, not {timeout}", run.name)
            })?;
        }
        if is_models {
            let is_call = |admitted: &&&Admitted| matches!(admitted.event.kind, EventKind::ModelCallStart(_));
            let asked = run.events.iter().rev().find(is_call);
            let took = asked.map(|asked| between(asked.event.created_at, end.event.created_at));
            ensure(took.is_some_and(|took| (MODEL_CALL..=MODEL_CALL + slack).contains(&took)), || {
                format!("the model of {} was given {took:?} ms, not {MODEL_CALL}", run.name)
            })?;
        }
    }
    Ok(())
}

/// Where no reader may hold anybody up, each event reaches the log when it happens.
pub(super) fn nobody_is_held_up(story: &Story<'_>) -> Result<(), String> {
    if held_up(story.plan) > 0 {
        return Ok(());
    }
    for (admitted, appended) in story.record.log.iter().zip(&story.record.times) {
        // Foreign events bring their own times, all the same.
        let happened = u64::try_from(admitted.event.created_at.unix_millis() - START * 1_000).unwrap_or(0);
        if happened > 0 {
            ensure(*appended <= happened + TICK, || {
                format!("{} happened at {happened} ms and was logged at {appended}", admitted.seq)
            })?;
        }
    }
    Ok(())
}

/// When a run was announced; none where the processor did it, by the time of a foreign event.
fn announced(run: &Run<'_>) -> Option<Timestamp> {
    let event = &run.announced?.event;
    let EventKind::SpawnSessionStart(spawn) = &event.kind else { return None };
    (spawn.spawn_mechanism != SpawnMechanism::Manual).then_some(event.created_at)
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.unix_millis() - from.unix_millis()).unwrap_or(0)
}

/// For how many stall limits a slow reader may hold a child up before it looks at its time: it moves and is waited for again,
/// behind what others had ready before. One that stands still is waited for once.
const SLOW_HOLDS: u64 = 2;

/// For how many milliseconds readers may hold a child back before it looks at its time.
pub(super) fn held_up(plan: &Plan) -> u64 {
    let replies = plan.prompts.iter().map(|prompt| (true, prompt.reply.pace));
    let readers = plan.readers.iter().map(|reader| (reader.lossless, reader.pace));
    let holds = replies.chain(readers).filter(|(lossless, _)| *lossless).map(|(_, pace)| match pace {
        Pace::Fast => 0,
        Pace::Slow(_) => SLOW_HOLDS,
        Pace::Never => 1,
    });
    if plan.limits.window < WINDOW { holds.max().unwrap_or(0) * plan.limits.stall } else { 0 }
}
