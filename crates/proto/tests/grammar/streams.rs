//! Well-formed streams: written down, and captured from the demo.

use std::{collections::BTreeMap, sync::Arc};

use anabranch_proto::{
    Event, EventKind, Fields, Json, Outcome, SourceType, SpawnMechanism, TextOrBlocks, ToolCallBlock,
    ToolResultBlock, ToolResultState,
    event::{
        ConfirmResult, Custom, DataBlockDelta, DataBlockEnd, DataBlockStart, DataPart, ExceedMaxIters,
        ExternalExecutionResult, HintBlockEvent, MessageOrigin, ModelCallEnd, ModelCallStart, ReplyEnd,
        ReplyStart, RequireExternalExecution, RequireUserConfirm, StreamComplete, ToolCallDelta, ToolCallEnd,
        ToolCallStart, ToolResultDataDelta, ToolResultEnd, ToolResultStart, ToolResultTextDelta, Unknown,
        UserConfirmResult, UserInterrupt, UserMessage,
    },
};
use anabranch_testkit::{Broken, Stage};

use crate::support::{files, native, read};

/// A stream by its name.
pub(crate) type Named = (String, Vec<Arc<Event>>);

/// Every well-formed stream of these tests.
pub(crate) fn all() -> Vec<Named> {
    let scripts = SCRIPTS.iter().map(|(name, script)| {
        let stage = Stage::new();
        script(&stage);
        ((*name).to_owned(), stage.events())
    });
    let mended = Broken::all().into_iter().map(|broken| {
        let events = broken.mended.iter().map(|admitted| Arc::clone(&admitted.event)).collect();
        (format!("mended: {}", broken.flaw), events)
    });
    let demo = files("demo").into_iter().map(|file| {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        (name, read(&file))
    });
    // Several flaws are of the same stream.
    let mut seen = Vec::new();
    scripts
        .chain(mended)
        .chain(demo)
        .filter(|(_, events)| {
            let tags: Vec<_> = events.iter().map(|event| event.kind.tag().to_owned()).collect();
            let new = !seen.contains(&tags);
            seen.push(tags);
            new
        })
        .collect()
}

type Script = fn(&Stage);

const SCRIPTS: &[(&str, Script)] = &[
    ("every_kind", every_kind),
    ("parallel", parallel),
    ("nested_team", nested_team),
    ("second_run_of_a_child", second_run_of_a_child),
    ("background_outlives_the_reply", background_outlives_the_reply),
    ("announced_late", announced_late),
    ("external_execution", external_execution),
    ("stopped", stopped),
    ("two_replies", two_replies),
    ("before_the_first_prompt", before_the_first_prompt),
];

#[test]
fn all_are_well_formed() {
    for (name, events) in all() {
        assert_eq!(native(&events), Ok(()), "{name}");
    }
}

#[test]
fn together_they_have_every_kind_of_event() {
    let mut counts = BTreeMap::<String, usize>::new();
    for event in all().iter().flat_map(|(_, events)| events) {
        *counts.entry(event.kind.tag().to_owned()).or_default() += 1;
    }
    let missing: Vec<_> = EventKind::TAGS.iter().filter(|tag| !counts.contains_key(**tag)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(counts.contains_key("FROM_THE_FUTURE"));
}

fn every_kind(stage: &Stage) {
    let root = stage.root();
    root.begin("Show all");
    let reply = root.reply();
    root.emit(ModelCallStart::new(reply.clone(), "model"));
    root.think("So many.");
    root.say("Here they are.");
    root.emit(DataBlockStart::new(reply.clone(), "data", "image/png"));
    for piece in ["AAAA", "BBBB"] {
        root.emit(DataBlockDelta::new(
            reply.clone(),
            "data",
            "image/png",
            DataPart::Base64(piece.to_owned()),
        ));
    }
    root.emit(DataBlockEnd::new(reply.clone(), "data"));
    let calls = ["a", "b"];
    for call in calls {
        root.emit(ToolCallStart::new(reply.clone(), call, "look"));
        root.emit(ToolCallDelta::new(reply.clone(), call, "{"));
        root.emit(ToolCallDelta::new(reply.clone(), call, "}"));
    }
    for call in calls {
        root.emit(ToolCallEnd::new(reply.clone(), call));
    }
    root.emit(ModelCallEnd::new(reply.clone(), 1_u64, 2_u64));
    let asked: Vec<_> = calls.iter().map(|call| ToolCallBlock::new(*call, "look", "{}")).collect();
    root.emit(RequireUserConfirm::new(reply.clone(), asked.clone()));
    for call in asked {
        root.emit(UserConfirmResult::new(reply.clone(), vec![ConfirmResult::new(true, call)]));
    }
    for call in calls {
        root.emit(ToolResultStart::new(reply.clone(), call, "look"));
    }
    root.emit(ToolResultTextDelta::new(reply.clone(), "b", "one "));
    root.emit(ToolResultTextDelta::new(reply.clone(), "b", "two"));
    let data = DataPart::Url("https://example.org/a.png".to_owned());
    root.emit(ToolResultDataDelta::new(reply.clone(), "a", "out", "image/png", data));
    root.emit(Custom::new("progress", Json::from(serde_json::json!({"done": 1}))));
    root.emit(ToolResultEnd::new(reply.clone(), "b", ToolResultState::Success));
    root.emit(ToolResultEnd::new(reply.clone(), "a", ToolResultState::Denied));
    let hint = TextOrBlocks::Text("Mind the time.".to_owned());
    root.emit(HintBlockEvent::new(reply.clone(), "hint", Some("clock".to_owned()), hint));
    root.emit(UserMessage::new("steering", [], MessageOrigin::Steering));
    root.emit(Unknown::new("FROM_THE_FUTURE", Fields::default()));
    root.emit(ExceedMaxIters::new(reply.clone(), "master"));
    root.emit(UserInterrupt::new(reply));
    root.end(Outcome::ExceedMaxIters);
}

fn parallel(stage: &Stage) {
    let root = stage.root();
    root.begin("Compare");
    let calls = [root.call("spawn_subagent", "{}"), root.call("spawn_subagent", "{}")];
    for call in &calls {
        root.emit(ToolResultStart::new(root.reply(), call, "spawn_subagent"));
    }
    let children = calls.each_ref().map(|call| root.spawning("n").call(call).now());
    for child in &children {
        child.begin("Look");
    }
    let reads = children.each_ref().map(|child| child.call("read", "{}"));
    for (child, read) in children.iter().zip(&reads) {
        child.result(read, "read", ToolResultState::Success, "rows");
    }
    let blocks = children.each_ref().map(anabranch_testkit::Actor::open_text);
    for piece in ["so ", "many ", "rows"] {
        for (child, block) in children.iter().zip(&blocks) {
            child.delta(block, piece);
        }
    }
    for ((child, block), call) in children.iter().zip(&blocks).zip(&calls).rev() {
        child.close_text(block);
        child.end_saying(Outcome::Completed, "so many rows");
        root.emit(ToolResultTextDelta::new(root.reply(), call, "so many rows"));
        root.emit(ToolResultEnd::new(root.reply(), call, ToolResultState::Success));
    }
    root.say("Many.");
    root.end(Outcome::Completed);
}

fn nested_team(stage: &Stage) {
    let root = stage.root();
    root.begin("Ask the team");
    let call = root.call("team", "{}");
    let team = root.spawning("team").source_type(SourceType::TeamSequential).call(&call).now();
    team.begin("Two steps");
    for name in ["first", "second"] {
        let member = team.spawning(name).mechanism(SpawnMechanism::Manual).now();
        member.begin("Do it");
        let call = member.call("spawn_subagent", "{}");
        let helper = member.spawning("helper").call(&call).now();
        helper.begin("Help");
        helper.use_tool("read", "{}", "a");
        helper.end(Outcome::Failed);
        member.result(&call, "spawn_subagent", ToolResultState::Error, "no");
        member.end(Outcome::Completed);
    }
    team.end(Outcome::Completed);
    root.result(&call, "team", ToolResultState::Success, "done");
    root.end(Outcome::Completed);
}

fn second_run_of_a_child(stage: &Stage) {
    let root = stage.root();
    root.begin("Look");
    let call = root.call("spawn_subagent", "{}");
    let first = root.spawning("n1").call(&call).now();
    first.begin("Look");
    first.end(Outcome::Completed);
    root.result(&call, "spawn_subagent", ToolResultState::Success, "");
    let call = root.call("spawn_subagent", "{}");
    let second = root.spawning("n1").again(&first).call(&call).now();
    second.begin("Look again");
    second.say("Still there.");
    second.end(Outcome::TimedOut);
    root.result(&call, "spawn_subagent", ToolResultState::Error, "too late");
    root.end(Outcome::Completed);
    root.begin("And now?");
    root.end(Outcome::Completed);
}

fn background_outlives_the_reply(stage: &Stage) {
    let root = stage.root();
    root.begin("Start it");
    let call = root.call("spawn_subagent", r#"{"background":true}"#);
    let worker = root.spawning("worker").mechanism(SpawnMechanism::AsyncWorker).call(&call).now();
    root.result(&call, "spawn_subagent", ToolResultState::Success, "task_1");
    worker.begin("Work");
    root.end(Outcome::Completed);
    worker.say("Half.");
    let call = worker.call("spawn_subagent", "{}");
    let helper = worker.spawning("helper").call(&call).now();
    helper.begin("Help");
    root.begin("How far?");
    helper.end(Outcome::Completed);
    worker.result(&call, "spawn_subagent", ToolResultState::Success, "");
    root.say("Half.");
    root.end(Outcome::Completed);
    worker.end(Outcome::Interrupted);
}

fn announced_late(stage: &Stage) {
    let root = stage.root();
    root.begin("Go");
    let call = root.call("spawn_subagent", "{}");
    // As the processor writes a spawn that it did not see: manual, with the name of the scope.
    let child = root.spawning("agent").mechanism(SpawnMechanism::Manual).now();
    child.begin("");
    root.update(&child, |update| {
        update.spawn_mechanism(Some(SpawnMechanism::Sync)).tool_call_id(Some(call.clone()))
    });
    child.end(Outcome::Completed);
    root.update(&child, |update| update.description(Some("Learnt too late".to_owned())));
    root.result(&call, "spawn_subagent", ToolResultState::Success, "");
    root.end(Outcome::Completed);
    root.update(&child, |update| update.description(Some("Later still".to_owned())));
}

fn external_execution(stage: &Stage) {
    let root = stage.root();
    root.begin("Ask the browser");
    // As a result alone, as one that is then told by events, and as one whose start came before the question.
    for told in ["alone", "after", "around"] {
        let call = root.call("browse", "{}");
        if told == "around" {
            root.emit(ToolResultStart::new(root.reply(), &call, "browse"));
        }
        let block = ToolCallBlock::new(&call, "browse", "{}");
        root.emit(RequireExternalExecution::new(root.reply(), vec![block]));
        let result = ToolResultBlock::new(&call, "browse");
        root.emit(ExternalExecutionResult::new(root.reply(), vec![result]));
        if told == "after" {
            root.result(&call, "browse", ToolResultState::Success, "a page");
        } else if told == "around" {
            root.emit(ToolResultEnd::new(root.reply(), &call, ToolResultState::Success));
        }
    }
    root.end(Outcome::Completed);
}

fn stopped(stage: &Stage) {
    let root = stage.root();
    root.begin("Go");
    let call = root.call("spawn_subagent", "{}");
    let child = root.spawning("n1").call(&call).now();
    child.begin("Look");
    let block = child.open_text();
    child.delta(&block, "I was about to");
    let read = child.call("read", "{}");
    // As the processor closes: what is written, then calls, then the reply, deepest first.
    child.close_text(&block);
    child.result(&read, "read", ToolResultState::Interrupted, "stopped");
    child.end(Outcome::Interrupted);
    let queued = root.spawn("n2");
    queued.emit(UserMessage::new("queued", [], MessageOrigin::Parent));
    queued.emit(StreamComplete::new(Outcome::Interrupted));
    root.result(&call, "spawn_subagent", ToolResultState::Interrupted, "stopped");
    root.end(Outcome::Interrupted);
}

fn two_replies(stage: &Stage) {
    let root = stage.root();
    root.begin("Twice");
    root.say("One.");
    let (session, first) = (root.session().clone(), root.reply());
    let reason = Outcome::Completed.finished_reason();
    root.emit(ReplyEnd::new(session.clone(), first, reason));
    root.emit(ReplyStart::new(session.clone(), "second", "master"));
    root.emit(ReplyEnd::new(session, "second", reason));
    root.emit(StreamComplete::new(Outcome::Completed));
}

fn before_the_first_prompt(stage: &Stage) {
    let root = stage.root();
    let watcher = root.spawning("watcher").mechanism(SpawnMechanism::AsyncWorker).now();
    watcher.begin("Watch");
    root.begin("Go");
    watcher.end(Outcome::Completed);
    root.end(Outcome::Completed);
}
