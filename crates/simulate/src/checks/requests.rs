//! What models are asked.

use std::collections::HashSet;

use anabranch_proto::{ContentBlock, EventKind, Message, Outcome, Scope, ToolCallId, event::MessageOrigin};
use anabranch_session::MessageAccumulator;

use super::{Story, ensure, story::Who};
use crate::{
    plan::{self, Meddling, Way, Work},
    seen::Request,
};

/// Each model is asked with the messages that a replay of the log builds.
pub(super) fn models_see_what_a_replay_builds(story: &Story<'_>) -> Result<(), String> {
    // The root's conversation goes on from run to run; a child's begins with its run.
    let mut conversation = MessageAccumulator::new();
    let runs_ahead = plan::calls(story.plan)
        .any(|call| matches!(&call.work, Work::Spawn(spawn) if spawn.way != Way::InTask));
    for run in &story.runs {
        let Who::Agent(agent) = run.who else { continue };
        if run.prompt.is_none() {
            conversation = MessageAccumulator::new();
        }
        // A layer that keeps the ends of blocks to itself is not seen by the agent, and by a replay it is.
        let loses_ends = story.any_call_above(run, |_, call| {
            call.plan.is_some_and(|plan| plan.meddling == Meddling::DropsEnds)
        });
        if loses_ends {
            continue;
        }
        let forks = run.spawn.is_some_and(|spawn| spawn.fork);
        let mut turn = 0;
        for admitted in &run.events {
            conversation.apply(&admitted.event);
            if let EventKind::ModelCallStart(_) = &admitted.event.kind {
                let asked = story.record.seen.requests.iter().find(|request| is(request, agent.number, turn));
                let built: Vec<_> =
                    conversation.messages().iter().filter(|message| !message.content.is_empty()).collect();
                let asked = asked.map(|request| request.messages.iter().collect::<Vec<_>>());
                // What a fork starts from is in its parent's events.
                let asked = asked.map(|asked| {
                    let before = if forks { asked.len().saturating_sub(built.len()) } else { 0 };
                    asked.into_iter().skip(before).collect::<Vec<_>>()
                });
                ensure(asked.as_ref() == Some(&built), || {
                    let asked = asked.unwrap_or_default();
                    let same = asked.iter().zip(&built).take_while(|(asked, built)| asked == built).count();
                    let (asked, built) = (asked.get(same), built.get(same));
                    format!(
                        "in model call {turn} of {} message {same} was\n{asked:?}\nand in a replay\n{built:?}",
                        run.name
                    )
                })?;
                turn += 1;
            }
        }
        let asked = story.record.seen.requests.iter().filter(|request| request.agent == agent.number).count();
        // One more where the run was stopped before it could be said; more where it was ahead of the stream.
        let most = if runs_ahead { u32::MAX } else { turn + 1 };
        ensure((turn..=most).contains(&u32::try_from(asked).unwrap_or(0)), || {
            format!("{} has {turn} model calls and its model was asked {asked} times", run.name)
        })?;
    }
    Ok(())
}

fn is(request: &Request, agent: u32, turn: u32) -> bool {
    request.agent == agent && request.turn == turn
}

/// What is said to a run that completes is read, once; what is said to one that is stopped may not be.
pub(super) fn what_is_said_is_read(story: &Story<'_>) -> Result<(), String> {
    let steered = &story.record.seen.steered;
    for run in story.runs.iter().filter(|run| run.prompt.is_none()) {
        let said = steered.iter().filter(|session| *session == run.session).count();
        let is_steering = |kind: &EventKind| matches!(kind, EventKind::UserMessage(message) if message.origin == MessageOrigin::Steering);
        let read = run.events.iter().filter(|admitted| is_steering(&admitted.event.kind)).count();
        let is_right = if run.outcome() == Some(Outcome::Completed) { read == said } else { read <= said };
        ensure(is_right, || format!("of {said} things said to {} it read {read}", run.name))?;
    }
    Ok(())
}

/// Of each background child an agent is told once.
pub(super) fn hints_come_once(story: &Story<'_>) -> Result<(), String> {
    for run in &story.runs {
        let mut told = HashSet::new();
        for admitted in &run.events {
            if let EventKind::HintBlock(hint) = &admitted.event.kind {
                ensure(told.insert(&hint.source), || {
                    format!("{} is told of {:?} again at {}", run.name, hint.source, admitted.seq)
                })?;
            }
        }
    }
    Ok(())
}

/// In what a model is asked there is one result for each call, in the order of the calls and behind them; they are the
/// plan's calls.
pub(super) fn results_come_in_call_order(story: &Story<'_>) -> Result<(), String> {
    for request in &story.record.seen.requests {
        for message in &request.messages {
            let (calls, results) = ids(message);
            ensure(calls == results, || {
                format!("the model of {} saw results {results:?} of calls {calls:?}", request.agent)
            })?;
        }
        let agent = plan::agents(story.plan).into_iter().find(|agent| agent.number == request.agent);
        let turns = agent.into_iter().flat_map(|agent| &agent.turns).take(request.turn as usize);
        let planned: Vec<_> = turns
            .flat_map(|turn| &turn.parts)
            .filter_map(|part| if let crate::plan::Part::Call(call) = part { Some(call) } else { None })
            .collect();
        let (calls, _) = request.messages.last().map(ids).unwrap_or_default();
        let said = |request: &Request| {
            request.messages.last().is_some_and(|message| message.role != anabranch_proto::Role::User)
        };
        let expected = if said(request) { planned.len() } else { 0 };
        ensure(request.turn == 0 || calls.len() == expected, || {
            format!(
                "the model of {} saw {} calls in turn {}, not {expected}",
                request.agent,
                calls.len(),
                request.turn
            )
        })?;
    }
    Ok(())
}

fn ids(message: &Message) -> (Vec<&ToolCallId>, Vec<&ToolCallId>) {
    let mut ids = (Vec::new(), Vec::new());
    for block in &message.content {
        if let ContentBlock::ToolCall(call) = block {
            ids.0.push(&call.id);
        } else if let ContentBlock::ToolResult(result) = block {
            ids.1.push(&result.id);
        }
    }
    ids
}

/// What the session itself says of its conversation is what a replay builds.
pub(super) fn conversation(story: &Story<'_>) -> Vec<Message> {
    let mut conversation = MessageAccumulator::new();
    for admitted in story.record.log.iter().filter(|admitted| admitted.event.scope == Scope::Root) {
        conversation.apply(&admitted.event);
    }
    conversation.completed().to_vec()
}
