//! How a run must end where nobody stops it.

use anabranch_proto::Outcome;

use super::story::{Call, Run, Story, Who};
use crate::{
    fakes::agent_name,
    plan::{
        AgentPlan, CallPlan, Child, ForeignEnd, ForeignPlan, Meddling, Part, SpawnPlan, TeamPlan, TurnEnd,
        Work,
    },
};

/// How a run ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Natural {
    /// With this outcome.
    As(Outcome),
    /// Never.
    Never,
    /// That depends on when others end, or on what is said to it meanwhile.
    Open,
}

/// How a run ends by itself, given how what it spawned came out.
pub(super) fn natural(story: &Story<'_>, run: &Run<'_>) -> Natural {
    if story.record.seen.steered.contains(run.session) || has_background(run) {
        return Natural::Open;
    }
    match run.who {
        Who::Agent(agent) => {
            let mut calls = run.calls.iter();
            for (number, turn) in (0_u32..).zip(&agent.turns) {
                if number >= story.plan.limits.iterations {
                    return Natural::As(Outcome::ExceedMaxIters);
                }
                match turn.end {
                    TurnEnd::Done => {}
                    TurnEnd::Silent => return Natural::As(Outcome::TimedOut),
                    TurnEnd::Error | TurnEnd::Panic | TurnEnd::PanicInDrop | TurnEnd::Endless => {
                        return Natural::As(Outcome::Failed);
                    }
                }
                let mut count = 0;
                for plan in turn.parts.iter().filter_map(Part::call) {
                    count += 1;
                    let call = calls.next();
                    match ends(story, plan, call) {
                        Ends::Surely => {}
                        Ends::Perhaps => return Natural::Open,
                        Ends::Never => return Natural::Never,
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
        Who::Team(team) => team_end(story, run, team),
        Who::Nested | Who::Unknown => Natural::Never,
    }
}

/// How a team ends, given how its members did.
fn team_end(story: &Story<'_>, run: &Run<'_>, team: &TeamPlan) -> Natural {
    let mut outcome = Outcome::Completed;
    for member in &team.members {
        let name = agent_name(member.number);
        let member = story.runs.iter().find(|other| other.name == name && other.team.is_some());
        // It may have been refused, or the team stopped before its turn.
        let Some(member) = member else { return Natural::Open };
        if story.record.seen.stopped.contains(member.session) || loses_terminal(story, run) {
            return Natural::Open;
        }
        match natural(story, member) {
            Natural::As(Outcome::Completed) => {}
            Natural::As(_) => {
                outcome = Outcome::Failed;
                if !team.parallel {
                    break;
                }
            }
            other @ (Natural::Never | Natural::Open) => return other,
        }
    }
    Natural::As(outcome)
}

fn foreign_end(foreign: &ForeignPlan) -> Natural {
    match foreign.end {
        ForeignEnd::Terminal(outcome) => Natural::As(outcome),
        ForeignEnd::Reply | ForeignEnd::PanicInDrop => Natural::As(Outcome::Completed),
        ForeignEnd::Cut | ForeignEnd::Panic => Natural::As(Outcome::Failed),
        ForeignEnd::Never => Natural::Never,
    }
}

/// Whether a run has children that it does not wait for: it is told of their ends, and goes on.
fn has_background(run: &Run<'_>) -> bool {
    let mut plans = run.calls.iter().filter_map(|call| call.plan);
    plans.any(|plan| matches!(&plan.work, Work::Spawn(spawn) if spawn.way.is_background()))
}

/// Whether a call ends by itself.
enum Ends {
    Surely,
    Perhaps,
    Never,
}

fn ends(story: &Story<'_>, plan: &CallPlan, call: Option<&Call<'_>>) -> Ends {
    let child = call.and_then(|call| story.runs.get(call.child?));
    let by_plan = || if call_ends(plan, story.plan.limits.iterations) { Ends::Surely } else { Ends::Never };
    match (&plan.work, child) {
        (Work::Spawn(spawn), Some(child)) if !spawn.way.is_background() => match natural(story, child) {
            _ if spawn.timeout.is_some() || story.record.seen.stopped.contains(child.session) => Ends::Surely,
            Natural::As(_) => Ends::Surely,
            Natural::Open => Ends::Perhaps,
            Natural::Never => Ends::Never,
        },
        // Refused by a limit, or not there yet.
        (Work::Spawn(_), _) if call.is_some_and(|call| call.is_natural) => Ends::Surely,
        _ => by_plan(),
    }
}

/// Whether a child ends by itself, by the plan alone.
fn spawn_ends(spawn: &SpawnPlan, iterations: u32) -> bool {
    if spawn.timeout.is_some() || spawn.way.is_background() {
        return true;
    }
    match &spawn.child {
        Child::Foreign(foreign) => foreign_end(foreign) != Natural::Never,
        Child::Team(team) => team.members.iter().all(|member| agent_ends(member, iterations)),
        Child::Agent(agent) => agent_ends(agent, iterations),
    }
}

fn agent_ends(agent: &AgentPlan, iterations: u32) -> bool {
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

fn call_ends(call: &CallPlan, iterations: u32) -> bool {
    if call.ask.is_some_and(|ask| !ask.allows()) {
        return true;
    }
    match &call.work {
        Work::Tool { behaviour, .. } => behaviour.state().is_some(),
        Work::Refused(_) | Work::External(_) => true,
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
