//! What a stage writes down.

use anabranch_adapters::encode::NativeLines;
use anabranch_proto::{Outcome, SpawnMechanism, ToolResultState};
use anabranch_testkit::{Normalizer, Stage, transcript};

#[test]
fn a_child_is_announced_with_its_scope_and_its_events_bear_it() {
    let stage = Stage::new();
    let root = stage.root().with("tenant_id", "acme");
    let call = root.call("spawn_subagent", "{}");
    let child = root
        .spawning("n1")
        .mechanism(SpawnMechanism::AsyncWorker)
        .description("Look")
        .call(&call)
        .with("node_id", "n1")
        .now();
    child.end(Outcome::Completed);
    root.result(&call, "spawn_subagent", ToolResultState::Success, "");
    let lines = transcript(NativeLines, Normalizer::new().events(stage.events()));
    let spawn_and_end: Vec<&str> =
        lines.lines().filter(|line| line.contains("SPAWN") || line.contains("STREAM_COMPLETE")).collect();
    insta::assert_snapshot!(spawn_and_end.join("\n"), @r#"
    {"seq":4,"id":"evt:3","created_at":"2026-01-01T00:00:00Z","metadata":{"tenant_id":"acme","node_id":"n1"},"type":"SPAWN_SESSION_START","child_session_id":"ses:0","parent_session_id":"ses:1","tool_call_id":"call:0","spawn_mechanism":"async_worker","source_name":"n1","source_type":"agent","depth":1,"description":"Look","run":1,"subagent_id":"sub:0"}
    {"seq":6,"type":"SUB_AGENT","child_session_id":"ses:0","run":1,"parent_session_id":"ses:1","subagent_id":"sub:0","tool_call_id":"call:0","source_name":"n1","source_type":"agent","depth":1,"event":{"id":"evt:5","created_at":"2026-01-01T00:00:00Z","metadata":{"tenant_id":"acme","node_id":"n1","subagent_id":"sub:0"},"type":"STREAM_COMPLETE","outcome":"completed"}}
    "#);
}

#[test]
fn a_second_run_has_the_same_session_and_the_next_number() {
    let stage = Stage::new();
    let root = stage.root();
    let first = root.spawn("n1");
    let second = root.spawning("n1").again(&first).now();
    let third = root.spawning("n1").again(&second).now();
    let runs = [&first, &second, &third].map(|actor| actor.scope().child().unwrap().run);
    assert_eq!(runs, [1, 2, 3]);
    assert_eq!(first.session(), third.session());
    assert_ne!(first.reply(), third.reply());
    assert_ne!(first.call("read", ""), third.call("read", ""));
}

#[test]
fn a_grandchild_lies_deeper_and_below_its_parent() {
    let stage = Stage::new();
    let child = stage.root().spawn("n1");
    let grandchild = child.spawn("sub");
    let scope = grandchild.scope().child().unwrap();
    assert_eq!(scope.depth, 2);
    assert_eq!(&scope.parent_session_id, child.session());
}
