//! Children that begin, or change, between the root's runs.

use anabranch_proto::{Outcome, SpawnMechanism, grammar::Rule};
use anabranch_testkit::{Actor, Stage};

use crate::support::broken;

/// A child that begins after so many of the root's runs, and what else is done before its end, after another run.
fn outliving(runs: usize, mechanism: SpawnMechanism, learnt: impl FnOnce(&Actor, &Actor)) -> Option<Rule> {
    let stage = Stage::new();
    let root = stage.root();
    for _ in 0..runs {
        root.begin("Go");
        root.end(Outcome::Completed);
    }
    let child = root.spawning("watch").mechanism(mechanism).now();
    child.begin("Watch");
    learnt(&root, &child);
    root.begin("Go on");
    root.end(Outcome::Completed);
    child.end(Outcome::Completed);
    broken(&stage.events())
}

#[test]
fn what_code_makes_between_the_roots_runs_outlives_the_next_one() {
    for runs in [0, 1] {
        assert_eq!(outliving(runs, SpawnMechanism::AsyncWorker, |_, _| {}), None);
        assert_eq!(outliving(runs, SpawnMechanism::Manual, |_, _| {}), None);
    }
    assert_eq!(outliving(0, SpawnMechanism::Sync, |_, _| {}), Some(Rule::PromptFirst));
    assert_eq!(outliving(1, SpawnMechanism::Sync, |_, _| {}), Some(Rule::BetweenRuns));
}

#[test]
fn between_the_roots_runs_no_child_is_learnt_to_be_waited_for() {
    let learnt = |mechanism: SpawnMechanism| {
        outliving(1, SpawnMechanism::AsyncWorker, |root, child| {
            root.update(child, |update| update.spawn_mechanism(Some(mechanism)));
        })
    };
    assert_eq!(learnt(SpawnMechanism::AsyncWorker), None);
    assert_eq!(learnt(SpawnMechanism::Manual), None);
    assert_eq!(learnt(SpawnMechanism::Sync), Some(Rule::BetweenRuns));
}
