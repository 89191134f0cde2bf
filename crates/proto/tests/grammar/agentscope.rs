//! agentscope's own streams.

use std::sync::Arc;

use anabranch_proto::{
    ChildScope, Event, EventKind, FinishedReason, Metadata, Scope, Timestamp, ToolCallBlock, ToolResultState,
    event::{
        ConfirmResult, Custom, ExternalExecutionResult, ModelCallStart, ReplyEnd, ReplyStart,
        RequireExternalExecution, TextBlockStart, ToolCallEnd, ToolCallStart, ToolResultEnd, ToolResultStart,
        ToolResultTextDelta, UserConfirmResult, UserInterrupt,
    },
    grammar::{Profile, Rule, Violation},
};

use crate::support::{files, read, verdict};

fn agentscope(events: &[Arc<Event>]) -> Result<(), Violation> {
    verdict(Profile::Agentscope, events.iter().map(|event| &**event))
}

#[test]
fn every_captured_stream_is_well_formed() {
    for file in files("agentscope/streams") {
        let events = read(&file);
        assert!(!events.is_empty(), "{}", file.display());
        assert_eq!(agentscope(&events), Ok(()), "{}", file.display());
    }
}

#[test]
fn a_parked_reply_and_what_resumes_it_are_well_formed_as_one_stream() {
    let all: Vec<_> = files("agentscope/streams")
        .iter()
        .filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("06"))
        .flat_map(|file| read(file))
        .collect();
    assert_eq!(agentscope(&all), Ok(()));
}

#[test]
fn one_of_them_is_not_one_of_ours() {
    let events = read(&files("agentscope/streams")[0]);
    let violation = verdict(Profile::Native, events.iter().map(|event| &**event)).unwrap_err();
    assert_eq!(violation.rule, Rule::PromptFirst);
}

#[test]
fn without_a_start_an_end_or_a_result_line_they_are_not() {
    // The rest of a reply may begin within a result, so the resumed stream is left out.
    let files = files("agentscope/streams");
    let whole = files.iter().filter(|file| !file.file_name().unwrap().to_str().unwrap().starts_with("06"));
    for file in whole {
        let events = read(file);
        for at in 0..events.len() {
            let mut rest = events.clone();
            let removed = rest.remove(at);
            let is_piece = removed.kind.tag().ends_with("_DELTA");
            let verdict = agentscope(&rest);
            assert_eq!(verdict.is_ok(), is_piece, "{} without {at}: {verdict:?}", file.display());
        }
    }
}

fn events(scope: &Scope, kinds: Vec<EventKind>) -> Vec<Arc<Event>> {
    let at = Timestamp::from_unix(0, 0);
    kinds
        .into_iter()
        .map(|kind| Arc::new(Event::new("e", at, scope.clone(), Metadata::default(), kind)))
        .collect()
}

fn reply_start() -> EventKind {
    ReplyStart::new("s", "r", "m").into()
}

fn reply_end() -> EventKind {
    ReplyEnd::new("s", "r", FinishedReason::Completed).into()
}

fn external_call() -> Vec<EventKind> {
    vec![
        reply_start(),
        ToolCallStart::new("r", "c", "browse").into(),
        ToolCallEnd::new("r", "c").into(),
        ToolResultStart::new("r", "c", "browse").into(),
        RequireExternalExecution::new("r", vec![ToolCallBlock::new("c", "browse", "{}")]).into(),
    ]
}

fn external_rest() -> Vec<EventKind> {
    vec![
        ToolResultTextDelta::new("r", "c", "a page").into(),
        ToolResultEnd::new("r", "c", ToolResultState::Success).into(),
        reply_end(),
    ]
}

#[test]
fn a_result_from_elsewhere_begins_before_the_question_and_goes_on_in_the_next_stream() {
    let (first, rest) = (external_call(), external_rest());
    for stream in [first.clone(), rest.clone(), [first, rest].concat()] {
        assert_eq!(agentscope(&events(&Scope::Root, stream)), Ok(()));
    }
}

#[test]
fn a_parked_reply_has_nothing_else_under_way() {
    let mut kinds = external_call();
    kinds.push(TextBlockStart::new("r", "b").into());
    let violation = agentscope(&events(&Scope::Root, kinds)).unwrap_err();
    assert_eq!(violation.rule, Rule::Terminal);
}

#[test]
fn an_answer_alone_is_what_the_next_stream_goes_on_from() {
    let answers: [EventKind; 2] =
        [UserInterrupt::new("r").into(), ExternalExecutionResult::new("r", []).into()];
    for answer in answers {
        assert_eq!(agentscope(&events(&Scope::Root, vec![answer.clone()])), Ok(()));
        // What follows an answer has an end.
        let follows = vec![answer, ToolResultTextDelta::new("r", "c", "a page").into()];
        assert_eq!(agentscope(&events(&Scope::Root, follows)).unwrap_err().rule, Rule::Terminal);
    }
}

#[test]
fn the_rest_of_a_reply_may_stop_where_nothing_of_it_is_open() {
    let call = || ToolCallBlock::new("c", "look", "{}");
    // Of two calls that wait one is answered, and has its result.
    let rest: Vec<EventKind> = vec![
        UserConfirmResult::new("r", vec![ConfirmResult::new(true, call())]).into(),
        ToolResultStart::new("r", "c", "look").into(),
        ToolResultEnd::new("r", "c", ToolResultState::Success).into(),
    ];
    assert_eq!(agentscope(&events(&Scope::Root, rest.clone())), Ok(()));
    assert_eq!(agentscope(&events(&Scope::Root, rest[1..].to_vec())), Ok(()));
    for open in [
        TextBlockStart::new("r", "b").into(),
        ModelCallStart::new("r", "model").into(),
        ToolCallStart::new("r", "d", "look").into(),
    ] {
        let stream = [rest.clone(), vec![open]].concat();
        assert_eq!(agentscope(&events(&Scope::Root, stream)).unwrap_err().rule, Rule::Terminal);
    }
    // A whole reply says itself what it waits for.
    let whole = vec![reply_start()];
    assert_eq!(agentscope(&events(&Scope::Root, whole)).unwrap_err().rule, Rule::Terminal);
}

#[test]
fn replies_follow_one_another_and_customs_come_at_any_time() {
    let custom = || Custom::new("state_updated", anabranch_proto::Json::from(serde_json::json!({}))).into();
    let kinds = vec![custom(), reply_start(), custom(), reply_end(), custom(), reply_start(), reply_end()];
    assert_eq!(agentscope(&events(&Scope::Root, kinds)), Ok(()));
    let kinds = vec![reply_start(), reply_end(), TextBlockStart::new("r", "b").into()];
    assert_eq!(agentscope(&events(&Scope::Root, kinds)).unwrap_err().rule, Rule::AfterTerminal);
    let kinds = vec![TextBlockStart::new("r", "b").into()];
    assert_eq!(agentscope(&events(&Scope::Root, kinds)).unwrap_err().rule, Rule::WithinReply);
}

#[test]
fn sub_agents_come_unannounced_and_end() {
    let child = Scope::from(ChildScope::new("child", "s", "sa", "worker"));
    let mut stream = events(&Scope::Root, vec![reply_start()]);
    stream.extend(events(&child, vec![reply_start()]));
    stream.extend(events(&Scope::Root, vec![reply_end()]));
    assert_eq!(
        agentscope(&stream).unwrap_err().to_string(),
        "the end of the stream of child breaks `terminal`: expected REPLY_END, or a question with nothing else under way, of run 1"
    );
    stream.extend(events(&child, vec![reply_end(), reply_start(), reply_end()]));
    assert_eq!(agentscope(&stream), Ok(()));
    let renamed = Scope::from(ChildScope::new("child", "s", "other", "worker"));
    stream.extend(events(&renamed, vec![reply_start()]));
    assert_eq!(agentscope(&stream).unwrap_err().rule, Rule::ScopeAsAnnounced);
    let deep = Scope::from(ChildScope::new("deep", "s", "sa", "worker").depth(6));
    assert_eq!(agentscope(&events(&deep, vec![reply_start()])).unwrap_err().rule, Rule::DepthLimit);
}
