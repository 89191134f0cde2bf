//! The stream of a run: who says what, when, and in which order.

use std::{fmt::Write as _, fs, time::Duration};

use crate::common::{Events, events, folder, normalized};
use anabranch_demo::{Node, Pace, Plan};
use anabranch_proto::{EventKind, Outcome, Scope, native};

/// Everything in the native spelling.
fn lines(events: &Events) -> String {
    events.0.iter().fold(String::new(), |text, event| text + &native::to_string(event).unwrap() + "\n")
}

fn plan(name: &str) -> Plan {
    Plan::new().out(folder(name))
}

#[tokio::test]
async fn each_child_is_announced_before_its_first_event_and_ends_once_after_its_last() {
    let events = events(plan("announced").nested().fan(Node::N2)).await;
    assert_eq!(events.outcome(), Outcome::Completed);
    let children = events.children();
    let nodes: Vec<_> =
        children.iter().map(|child| child.event.metadata.get_str("node_id").unwrap()).collect();
    assert_eq!(nodes, ["n1", "n2", "n2", "n1", "n3"]);
    for child in &children {
        let own = events.of(&child.spawn.child_session_id);
        assert!(child.at < own[0]);
        assert_eq!(events.end(&child.spawn.child_session_id).0, *own.last().unwrap());
        assert!(matches!(events.0[own[0]].kind, EventKind::UserMessage(_)));
    }
}

#[tokio::test]
async fn the_events_of_n1_and_n2_interleave() {
    let events = events(plan("interleave")).await;
    let [first, second] = ["n1", "n2"].map(|node| events.of(&events.child(node).spawn.child_session_id));
    let changes = |one: &[usize], other: &[usize]| {
        let mut all: Vec<(usize, u8)> =
            one.iter().map(|at| (*at, 1)).chain(other.iter().map(|at| (*at, 2))).collect();
        all.sort_unstable();
        all.windows(2).filter(|pair| pair[0].1 != pair[1].1).count()
    };
    assert!(changes(&first, &second) > first.len(), "each follows the other nearly always");
}

#[tokio::test]
async fn the_parents_events_have_no_metadata_and_every_childs_says_whose_it_is() {
    let events = events(plan("metadata").nested().fan(Node::N1)).await;
    for event in &events.0 {
        match &event.scope {
            Scope::Root => {
                if let EventKind::SpawnSessionStart(_) = event.kind {
                    assert!(
                        event.metadata.get_str("node_id").is_some()
                            && event.metadata.get_str("graph_id").is_some()
                    );
                } else {
                    assert_eq!(event.metadata.to_string(), "{}");
                }
            }
            Scope::Child(child) => {
                let subagent = event.metadata.get_str("subagent_id");
                assert_eq!(subagent.as_deref(), Some(child.subagent_id.as_str()), "{}", event.kind.tag());
                assert!(event.metadata.get_str("node_id").is_some());
                assert_eq!(event.metadata.get_str("graph_id").as_deref(), Some("comparison"));
            }
        }
    }
}

#[tokio::test]
async fn two_runs_differ_in_ids_and_times_alone() {
    let plans = [
        plan("alike"),
        plan("alike-nested").nested().fan(Node::N1).fan(Node::N2),
        plan("alike-fail").fail(Node::N1),
    ];
    for plan in plans {
        let first = normalized(&lines(&events(plan.clone()).await));
        assert!(first.contains("<time>") && first.contains("ses_<"));
        for _ in 0..3 {
            assert_eq!(normalized(&lines(&events(plan.clone()).await)), first);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_are_alike_on_many_threads() {
    let plan = plan("alike-threads");
    let first = normalized(&lines(&events(plan.clone()).await));
    for _ in 0..5 {
        assert_eq!(normalized(&lines(&events(plan.clone()).await)), first);
    }
}

#[tokio::test]
async fn the_small_file_is_done_before_the_large_one_is_half_through() {
    let folder = folder("fifty");
    let [small, large] = ["small.csv", "large.csv"].map(|name| folder.join(name));
    for (path, rows) in [(&small, 1_000), (&large, 50_000)] {
        let mut text = "a,b\n".to_owned();
        for row in 0..rows {
            writeln!(text, "{row},x{row}").unwrap();
        }
        fs::write(path, text).unwrap();
    }
    // The large one first: being second in line is no advantage that the small one needs.
    let events = events(Plan::new().inputs([large, small]).out(folder)).await;
    let (end, complete) = events.end(&events.child("n2").spawn.child_session_id);
    assert_eq!(complete.outcome, Outcome::Completed);
    let of_large = events.of(&events.child("n1").spawn.child_session_id);
    let until_then = of_large.iter().filter(|at| **at < end).count();
    assert!(until_then > 10, "both work at the same time");
    assert!(until_then * 2 < of_large.len(), "{until_then} of {} events", of_large.len());
}

#[tokio::test(start_paused = true)]
async fn children_that_wait_wait_together() {
    let answer = Duration::from_millis(100);
    let began = tokio::time::Instant::now();
    let events = events(plan("paused").pace(Pace::new(answer, Duration::ZERO))).await;
    assert_eq!(events.outcome(), Outcome::Completed);
    // Three answers of the master, two of n3, and five of n1 while n2 gives its five.
    assert_eq!(began.elapsed(), answer * 10);
}
