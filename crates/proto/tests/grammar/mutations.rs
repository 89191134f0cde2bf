//! Well-formed streams with one thing wrong: a line removed, repeated, or out of order.

use std::{fmt, sync::Arc};

use anabranch_proto::{
    Event, EventKind,
    event::MessageOrigin,
    grammar::{Rule, Violation},
};

use crate::{order, streams, support::native};

/// What is to come of a mutation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Valid,
    /// One of these rules is named.
    Named(&'static [Rule]),
    /// Some rule is.
    SomeNamed,
}

/// How many mutations had which verdict.
#[derive(Default)]
struct Tally {
    all: usize,
    named: usize,
    valid: usize,
}

impl Tally {
    fn add(&mut self, result: &Result<(), Violation>) {
        self.all += 1;
        *(if result.is_err() { &mut self.named } else { &mut self.valid }) += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mutations, {} named, {} valid", self.all, self.named, self.valid)
    }
}

fn assert_verdict(result: &Result<(), Violation>, expected: &Verdict, mutation: &str) {
    let fits = match (expected, result) {
        (Verdict::Valid, Ok(())) | (Verdict::SomeNamed, Err(_)) => true,
        (Verdict::Named(rules), Err(violation)) => rules.contains(&violation.rule),
        (Verdict::Valid, Err(_)) | (Verdict::Named(_) | Verdict::SomeNamed, Ok(())) => false,
    };
    assert!(fits, "{mutation}: expected {expected:?}, found {result:?}");
}

/// What comes of a stream without this event.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others are pieces")]
fn without(event: &Event, rest: &[Arc<Event>]) -> Verdict {
    use EventKind as E;
    use Rule as R;
    Verdict::Named(match &event.kind {
        E::SpawnSessionStart(_) => &[R::Announced],
        E::StreamComplete(_) => &[R::Terminal, R::ChildWithinCall, R::ChildrenFirst, R::OneRunAtATime],
        E::ReplyStart(_) => &[R::WithinReply],
        E::ReplyEnd(_) => &[R::RunClosed, R::OneReplyAtATime],
        E::ModelCallStart(_) => &[R::WithinModelCall],
        E::ModelCallEnd(_) => &[R::WithinModelCall, R::ReplyClosed],
        E::TextBlockStart(_) | E::ThinkingBlockStart(_) | E::DataBlockStart(_) => &[R::WithinBlock],
        E::TextBlockEnd(_) | E::ThinkingBlockEnd(_) | E::DataBlockEnd(_) | E::ToolResultEnd(_) => {
            &[R::ReplyClosed]
        }
        E::ToolCallStart(_) => &[R::WithinCall],
        E::ToolCallEnd(_) => &[R::ResultAfterCall, R::ChildWithinCall, R::QuestionOfCall],
        E::ToolResultStart(_) => &[R::WithinResult],
        E::UserMessage(prompt) if prompt.origin != MessageOrigin::Steering => {
            &[R::PromptFirst, R::AfterTerminal]
        }
        // Somebody else's result may be told by events too; else it is the only one.
        E::ExternalExecutionResult(result) => {
            let call = &result.execution_results[0].id;
            let is_told = |event: &Arc<Event>| matches!(&event.kind, E::ToolResultEnd(end) if end.tool_call_id == *call);
            if rest.iter().any(is_told) {
                return Verdict::Valid;
            }
            &[R::ReplyClosed]
        }
        // An answer has had its question.
        E::RequireUserConfirm(_) | E::RequireExternalExecution(_) => &[R::QuestionOfCall],
        _ => return Verdict::Valid,
    })
}

/// What comes of a stream in which this event is twice.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others come once")]
fn twice(event: &Event) -> Verdict {
    use EventKind as E;
    match &event.kind {
        E::TextBlockDelta(_)
        | E::ThinkingBlockDelta(_)
        | E::DataBlockDelta(_)
        | E::ToolCallDelta(_)
        | E::ToolResultTextDelta(_)
        | E::ToolResultDataDelta(_)
        | E::Custom(_)
        | E::Unknown(_)
        | E::SessionUpdated(_)
        | E::UserInterrupt(_)
        | E::ExceedMaxIters(_) => Verdict::Valid,
        E::UserMessage(prompt) if prompt.origin == MessageOrigin::Steering => Verdict::Valid,
        _ => Verdict::SomeNamed,
    }
}

#[test]
fn removing_what_begins_or_ends_something_is_named_and_removing_a_piece_is_not() {
    let mut tally = Tally::default();
    for (name, events) in streams::all() {
        for at in 0..events.len() {
            let mut rest = events.clone();
            let removed = rest.remove(at);
            let result = native(&rest);
            tally.add(&result);
            let mutation = format!("{name} without event {at}, {}", removed.kind.tag());
            assert_verdict(&result, &without(&removed, &rest[at..]), &mutation);
        }
    }
    println!("removals: {tally}");
    assert!(tally.named > 500 && tally.valid > 500, "{tally}");
}

#[test]
fn repeating_anything_but_a_piece_is_named() {
    let mut tally = Tally::default();
    for (name, events) in streams::all() {
        for at in 0..events.len() {
            let mut more = events.clone();
            more.insert(at, Arc::clone(&events[at]));
            let result = native(&more);
            tally.add(&result);
            let mutation = format!("{name} with event {at} twice, {}", events[at].kind.tag());
            assert_verdict(&result, &twice(&events[at]), &mutation);
        }
    }
    println!("repetitions: {tally}");
    assert!(tally.named > 500 && tally.valid > 500, "{tally}");
}

#[test]
fn exchanging_two_neighbours_of_a_session_has_the_verdict_of_the_table() {
    let mut tally = Tally::default();
    for (name, events) in streams::all() {
        for (first, second) in order::neighbours(&events) {
            let mut exchanged = events.clone();
            exchanged.swap(first, second);
            let result = native(&exchanged);
            tally.add(&result);
            let (a, b) = (&events[first], &events[second]);
            let mutation = format!("{name}, {first} {} <-> {second} {}", a.kind.tag(), b.kind.tag());
            assert_verdict(&result, &order::exchanged(a, b), &mutation);
        }
    }
    println!("exchanges: {tally}");
    assert!(tally.named > 200 && tally.valid > 200, "{tally}");
}
