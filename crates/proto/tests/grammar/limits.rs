//! Depth, numbers, and what is kept.

use std::sync::Arc;

use anabranch_proto::{
    Event, Outcome, SpawnMechanism,
    grammar::{Counts, Profile, Rule, Verifier},
};
use anabranch_testkit::{Broken, Stage};

fn all_checked(verifier: &mut Verifier, events: &[Arc<Event>]) {
    for event in events {
        verifier.check(event).unwrap();
    }
}

#[test]
fn the_limit_of_depth_is_the_callers() {
    let deep = Broken::of(Rule::DepthLimit).events;
    let mut verifier = Verifier::new(Profile::Native).max_depth(6);
    assert!(deep.iter().all(|event| verifier.check(&event.event).is_ok()));
    assert_eq!(verifier.finish(), Ok(()));
    let mut verifier = Verifier::new(Profile::Native).max_depth(0);
    let first = Broken::of(Rule::Depth).mended;
    let violation = first.iter().find_map(|event| verifier.check(&event.event).err()).unwrap();
    assert_eq!(violation.rule, Rule::DepthLimit);
}

#[test]
fn numbers_begin_at_one_and_have_no_gaps() {
    let stage = Stage::new();
    stage.root().begin("Go");
    let events = stage.events();
    for (numbers, expected) in
        [([1, 2], None), ([0, 1], Some(0)), ([2, 3], Some(0)), ([1, 3], Some(1)), ([1, 1], Some(1))]
    {
        let mut verifier = Verifier::new(Profile::Native);
        let broken = numbers.iter().zip(&events).position(|(&seq, event)| {
            verifier.check_numbered(seq, event).is_err_and(|violation| violation.rule == Rule::Numbered)
        });
        assert_eq!(broken, expected, "{numbers:?}");
    }
}

#[test]
fn what_has_ended_is_not_kept_open() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Work");
    for _ in 0..2_000 {
        root.use_tool("read", "{}", "a");
        root.say("Read.");
        let child = root.spawn("n1");
        child.begin("Look");
        child.use_tool("read", "{}", "a");
        child.end(Outcome::Completed);
    }
    root.end(Outcome::Completed);
    let mut verifier = Verifier::new(Profile::Native);
    let mut most = 0;
    for (number, event) in stage.events().iter().enumerate() {
        verifier.check(event).unwrap();
        // Asks every session, so not each time.
        if number % 97 == 0 {
            most = most.max(verifier.open());
        }
    }
    assert_eq!(most, 5, "two runs with their replies, and a call or a block");
    assert_eq!(verifier.open(), 0);
    assert_eq!(verifier.finish(), Ok(()));
    let counts = verifier.counts();
    assert_eq!(
        (counts.sessions, counts.runs, counts.tool_calls, counts.blocks),
        (2_001, 2_001, 4_000, 2_000)
    );
}

#[test]
fn an_id_that_comes_again_is_noticed_among_the_last_ones() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Talk");
    for _ in 0..5 {
        root.say("Again.");
    }
    for (remembered, is_noticed) in [(4, false), (5, true)] {
        let mut verifier = Verifier::new(Profile::Native).remember(remembered);
        all_checked(&mut verifier, &stage.events());
        let again = stage.events()[2].clone();
        assert_eq!(verifier.check(&again).is_err(), is_noticed, "of {remembered}");
    }
}

#[test]
fn ids_are_of_their_session() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let call = root.call("read", "{}");
    let child = root.spawn("n1");
    child.begin("Go");
    // `call_0` and `block_0` in both.
    child.use_tool("read", "{}", "a");
    child.say("a");
    root.say("b");
    child.end(Outcome::Completed);
    root.result(&call, "read", anabranch_proto::ToolResultState::Success, "");
    root.end(Outcome::Completed);
    let mut verifier = Verifier::new(Profile::Native);
    all_checked(&mut verifier, &stage.events());
    assert_eq!(verifier.finish(), Ok(()));
}

#[test]
fn it_counts_what_came() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let worker = root.spawning("n1").mechanism(SpawnMechanism::AsyncWorker).now();
    worker.begin("Go");
    worker.use_tool("read", "{}", "a");
    worker.say("Done.");
    let mut verifier = Verifier::new(Profile::Native);
    all_checked(&mut verifier, &stage.events());
    let mut expected = Counts::default();
    expected.events = stage.events().len() as u64;
    expected.sessions = 2;
    expected.runs = 2;
    expected.replies = 2;
    expected.blocks = 1;
    expected.tool_calls = 1;
    expected.tool_results = 1;
    expected.deepest = 1;
    assert_eq!(verifier.counts(), expected);
    assert_eq!(verifier.open(), 4);
    assert_eq!(verifier.finish().unwrap_err().rule, Rule::Terminal);
}
