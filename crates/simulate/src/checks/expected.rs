//! How a run must end where nobody stops it.

use anabranch_proto::Outcome;

use super::story::{Call, Run, Story, Who};
use crate::plan::{CallPlan, Child, ForeignEnd, ForeignPlan, Meddling, Part, SpawnPlan, TurnEnd, Work};

/// How a run ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Natural {
    /// With this outcome.
    As(Outcome),
    /// Never.
    Never,
}

/// How a run ends by itself, given how what it spawned came out.
pub(super) fn natural(story: &Story<'_>, run: &Run<'_>) -> Natural {
    match run.who {
        Who::Agent(agent) => {
            let mut calls = run.calls.iter();
            for (number, turn) in (0_u32..).zip(&agent.turns) {
                if number >= story.plan.limits.iterations {
                    return Natural::As(Outcome::ExceedMaxIters);
                }
                if turn.end != TurnEnd::Done {
                    return Natural::As(Outcome::Failed);
                }
                let mut count = 0;
                for plan in turn.parts.iter().filter_map(Part::call) {
                    count += 1;
                    let call = calls.next();
                    if !ends(story, &plan.work, call) {
                        return Natural::Never;
                    }
                }
                if count == 0 {
                    let answers = |part: &Part| matches!(part, Part::Text(_) | Part::Thinking(_));
                    let outcome =
                        if turn.parts.iter().any(answers) { Outcome::Completed } else { Outcome::Failed };
                    return Natural::As(outcome);
                }
            }
            let turns = u32::try_from(agent.turns.len()).unwrap_or(u32::MAX);
            let has_turns = turns < story.plan.limits.iterations;
            Natural::As(if has_turns { Outcome::Completed } else { Outcome::ExceedMaxIters })
        }
        Who::Foreign(foreign) => foreign_end(foreign),
        Who::Nested | Who::Unknown => Natural::Never,
    }
}

fn foreign_end(foreign: &ForeignPlan) -> Natural {
    match foreign.end {
        ForeignEnd::Terminal(outcome) => Natural::As(outcome),
        ForeignEnd::Reply | ForeignEnd::PanicInDrop => Natural::As(Outcome::Completed),
        ForeignEnd::Cut | ForeignEnd::Panic => Natural::As(Outcome::Failed),
        ForeignEnd::Never => Natural::Never,
    }
}

/// Whether a call ends by itself.
fn ends(story: &Story<'_>, work: &Work, call: Option<&Call<'_>>) -> bool {
    match work {
        Work::Tool { behaviour, .. } => behaviour.state().is_some(),
        Work::Refused(_) => true,
        Work::Spawn(spawn) => {
            let Some(child) = call.and_then(|call| story.runs.get(call.child?)) else {
                // Refused by a limit, or not there yet.
                return call.is_some_and(|call| call.is_natural)
                    || spawn_ends(spawn, story.plan.limits.iterations);
            };
            spawn.timeout.is_some() || natural(story, child) != Natural::Never
        }
    }
}

/// Whether a child ends by itself, by the plan alone.
fn spawn_ends(spawn: &SpawnPlan, iterations: u32) -> bool {
    if spawn.timeout.is_some() {
        return true;
    }
    match &spawn.child {
        Child::Foreign(foreign) => foreign_end(foreign) != Natural::Never,
        Child::Agent(agent) => {
            for turn in agent.turns.iter().take(usize::try_from(iterations).unwrap_or(usize::MAX)) {
                if turn.end != TurnEnd::Done {
                    return true;
                }
                let calls = turn.parts.iter().filter_map(Part::call);
                if !calls.clone().all(|call| call_ends(call, iterations)) {
                    return false;
                }
                if calls.count() == 0 {
                    return true;
                }
            }
            true
        }
    }
}

fn call_ends(call: &CallPlan, iterations: u32) -> bool {
    match &call.work {
        Work::Tool { behaviour, .. } => behaviour.state().is_some(),
        Work::Refused(_) => true,
        Work::Spawn(spawn) => spawn_ends(spawn, iterations),
    }
}

/// Whether a layer on the way to the root kept the terminal to itself.
pub(super) fn loses_terminal(story: &Story<'_>, run: &Run<'_>) -> bool {
    story.any_call_above(run, |_, call| {
        call.plan.is_some_and(|plan| plan.meddling == Meddling::DropsTerminals)
    })
}

/// Whether every call on the way to the root ended by itself: then nobody stopped the run from above.
pub(super) fn is_left_alone(story: &Story<'_>, run: &Run<'_>) -> bool {
    let is_stopped = |above: &Run<'_>, call: &Call<'_>| {
        // A reply that completed waited for all of its calls.
        !call.is_natural && above.outcome() != Some(Outcome::Completed)
    };
    !story.any_call_above(run, is_stopped)
}
