//! Faults that people reported in other products, as scripts: what reaches a frontend when it is done right.

use anabranch_proto::{
    Outcome, SpawnMechanism, TextOrBlocks, ToolCallBlock, ToolResultState,
    event::{ConfirmResult, Custom, HintBlockEvent, RequireUserConfirm, StreamComplete, UserConfirmResult},
};
use anabranch_testkit::{Actor, Stage};

fn hint(speaker: &Actor, block: &str, text: &str) {
    let hint = TextOrBlocks::Text(text.to_owned());
    speaker.emit(HintBlockEvent::new(speaker.reply(), block, Some("team".to_owned()), hint));
}

fn ask(speaker: &Actor, tool: &str) -> ToolCallBlock {
    let call = speaker.call(tool, "{}");
    let block = ToolCallBlock::new(&call, tool, "{}");
    speaker.emit(RequireUserConfirm::new(speaker.reply(), vec![block.clone()]));
    block
}

fn answer(speaker: &Actor, block: &ToolCallBlock, allowed: bool) {
    let results = vec![ConfirmResult::new(allowed, block.clone())];
    speaker.emit(UserConfirmResult::new(speaker.reply(), results));
}

/// Row 1: hints come before the end of the child that they are for.
pub(crate) fn hints_before_the_end(stage: &Stage) {
    let root = stage.root();
    let call = root.call("spawn_subagent", "{}");
    let child = root.spawning("n1").call(&call).now();
    hint(&child, "h1", "one");
    hint(&child, "h2", "two");
    child.end(Outcome::Completed);
    root.result(&call, "spawn_subagent", ToolResultState::Success, "");
    hint(&child, "h3", "too late");
    root.end(Outcome::Completed);
}

/// Row 2: what a background child reported between two turns is shown before its end, and never after it.
pub(crate) fn progress_before_the_end(stage: &Stage) {
    let root = stage.root();
    root.begin("Go");
    let child = root.spawning("worker").mechanism(SpawnMechanism::AsyncWorker).now();
    root.end(Outcome::Completed);
    for done in [1, 2, 3] {
        child.emit(Custom::new("progress", anabranch_proto::Json::from(serde_json::json!(done))));
    }
    child.end(Outcome::Completed);
    root.begin("And?");
    child.emit(Custom::new("progress", anabranch_proto::Json::from(serde_json::json!("still running"))));
    root.end(Outcome::Completed);
}

/// Row 5: a late duplicate of a spawn changes nothing; a spawn by another call is a new run.
pub(crate) fn late_duplicate_and_new_run(stage: &Stage) {
    let root = stage.root();
    let (one, two) = (root.call("spawn_subagent", "{}"), root.call("send_message", "{}"));
    let child = root.spawning("n1").call(&one).now();
    let spawn = stage.events().pop().map(|spawn| spawn.kind.clone());
    child.say("First.");
    child.end_saying(Outcome::Completed, "First.");
    root.result(&one, "spawn_subagent", ToolResultState::Success, "First.");
    if let Some(spawn) = spawn {
        root.emit(spawn);
    }
    let again = root.spawning("n1").call(&two).again(&child).now();
    again.say("Second.");
    again.end_saying(Outcome::Completed, "Second.");
    root.result(&two, "send_message", ToolResultState::Success, "Second.");
    root.end(Outcome::Completed);
}

/// Row 6: a spawn that is delivered again while the child asks leaves the question open.
pub(crate) fn redelivered_while_it_asks(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("n1");
    let spawn = stage.events().pop().map(|spawn| spawn.kind.clone());
    let block = ask(&child, "delete");
    if let Some(spawn) = spawn {
        root.emit(spawn);
    }
    answer(&child, &block, true);
    child.result(&block.id, "delete", ToolResultState::Success, "gone");
    child.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

/// Row 8: each run of a grandchild ends below the child that started it.
pub(crate) fn grandchild_goes_on(stage: &Stage) {
    let root = stage.root();
    let a = root.spawn("a");
    let first = a.call("spawn_subagent", "{}");
    let b = a.spawning("b").call(&first).now();
    b.end_saying(Outcome::Completed, "One.");
    a.result(&first, "spawn_subagent", ToolResultState::Success, "One.");
    let second = a.call("send_message", "{}");
    let b = a.spawning("b").call(&second).again(&b).now();
    b.end_saying(Outcome::Completed, "Two.");
    a.result(&second, "send_message", ToolResultState::Success, "Two.");
    a.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

/// Row 14: two children ask; the answer to one leaves the other's question open.
pub(crate) fn two_ask(stage: &Stage) {
    let root = stage.root();
    let (a, b) = (root.spawn("a"), root.spawn("b"));
    let (one, two) = (ask(&a, "delete"), ask(&b, "deploy"));
    answer(&a, &one, true);
    a.result(&one.id, "delete", ToolResultState::Success, "gone");
    a.end(Outcome::Completed);
    answer(&b, &two, false);
    b.result(&two.id, "deploy", ToolResultState::Denied, "nobody answered within an hour");
    b.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

/// Row 15: a call that was allowed is no success yet.
pub(crate) fn allowed_and_failed(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("c");
    let block = ask(&child, "deploy");
    answer(&child, &block, true);
    child.result(&block.id, "deploy", ToolResultState::Error, "no route to host");
    child.use_tool("read", "{}", "never asked about");
    child.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

/// Row 18: the first terminal wins.
pub(crate) fn two_ends(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("c");
    child.emit(StreamComplete::new(Outcome::Completed));
    child.emit(StreamComplete::new(Outcome::Failed));
    root.end(Outcome::Completed);
}

/// Row 20: a child that spoke before its spawn, as the processor admits it: announced once, then called by its name.
pub(crate) fn text_before_its_spawn(stage: &Stage) {
    let root = stage.root();
    let child = root.spawning("sa_1").mechanism(SpawnMechanism::Manual).now();
    child.say("Before.");
    root.update(&child, |update| {
        update.source_name(Some("explorer".into())).description(Some("Look around".to_owned()))
    });
    child.end_saying(Outcome::Completed, "Before.");
    root.end(Outcome::Completed);
}
