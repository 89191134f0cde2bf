//! What a stage writes down is well formed.

use anabranch_proto::{
    Outcome, SpawnMechanism, ToolResultState,
    grammar::{Profile, Verifier},
};
use anabranch_testkit::{Broken, Stage};

fn assert_well_formed(stage: &Stage) {
    let mut verifier = Verifier::new(Profile::Native);
    for event in stage.events() {
        verifier.check(&event).unwrap();
    }
    verifier.finish().unwrap();
}

#[test]
fn a_stage_with_children_of_every_mechanism_is_well_formed() {
    let stage = Stage::new();
    let root = stage.root().with("tenant_id", "acme");
    root.begin("Go");
    root.think("Three ways.");
    let call = root.call("spawn_subagent", "{}");
    let mechanisms = [SpawnMechanism::Sync, SpawnMechanism::AsyncWorker, SpawnMechanism::Manual];
    let children =
        mechanisms.map(|mechanism| root.spawning("n").mechanism(mechanism).call(&call).with("k", 1).now());
    for child in &children {
        child.begin("Look");
        child.use_tool("read", r#"{"path":"a"}"#, "a");
        child.say_in(&["It says ", "a."]);
        let grandchild = child.spawn("sub");
        grandchild.begin("Look closer");
        grandchild.end(Outcome::TimedOut);
        child.end_saying(Outcome::Completed, "It says a.");
    }
    root.result(&call, "spawn_subagent", ToolResultState::Success, "a");
    root.end(Outcome::Completed);
    assert_well_formed(&stage);
}

#[test]
fn a_stage_with_several_runs_is_well_formed() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let first = root.spawn("n1");
    first.begin("Look");
    first.say("Once.");
    first.end(Outcome::Failed);
    let second = root.spawning("n1").again(&first).now();
    second.begin("Look again");
    second.say("Twice.");
    second.end(Outcome::Completed);
    root.end(Outcome::Completed);
    root.begin("Go on");
    root.update(&second, |update| update.description(Some("Known late".to_owned())));
    root.say("Done.");
    root.end(Outcome::Completed);
    assert_well_formed(&stage);
}

#[test]
fn every_broken_stream_differs_from_its_mended_one() {
    for broken in Broken::all() {
        assert_ne!(broken.events, broken.mended, "{}", broken.flaw);
        assert_eq!(broken.flaw, Broken::of(broken.rule).flaw);
    }
}
