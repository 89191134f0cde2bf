//! The event log in memory.

use std::sync::Arc;

use anabranch_proto::{
    Admitted, Event, Metadata, Scope, SessionId, Timestamp,
    event::{TextBlockDelta, ToolResultTextDelta},
};
use anabranch_session::{Batch, EventLog, MemoryLog};
use futures::FutureExt as _;

use crate::support::Session;

fn delta(seq: u64, text: &str) -> Admitted {
    let kind = TextBlockDelta::new("r", "b", text);
    let event =
        Event::new(&*format!("e{seq}"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), kind);
    Admitted::new(seq, Arc::new(event))
}

fn numbers(batch: &Batch) -> Vec<u64> {
    match batch {
        Batch::Events(events) => events.iter().map(|admitted| admitted.seq).collect(),
        Batch::Gap { from, to } => panic!("a gap from {from} to {to}"),
    }
}

fn read(log: &dyn EventLog, after: u64, max: usize) -> Batch {
    log.read(after, max).now_or_never().expect("a read never waits").unwrap()
}

#[test]
fn a_reader_sees_each_event_once_at_any_cursor() {
    let log = MemoryLog::new();
    assert_eq!(numbers(&read(&log, 0, 10)), [0; 0]);
    for seq in 1..=10 {
        log.append(&[delta(seq, "x")]).unwrap();
    }
    for after in 0..12 {
        let rest: Vec<u64> = (after + 1..=10).collect();
        assert_eq!(numbers(&read(&log, after, 100)), rest);
        assert_eq!(numbers(&read(&log, after, 3)), rest[..rest.len().min(3)]);
    }
    assert_eq!(numbers(&read(&log, 0, 0)), [0; 0]);
    assert_eq!(numbers(&read(&log, u64::MAX, 5)), [0; 0]);
}

#[test]
fn a_batch_that_is_appended_again_adds_nothing() {
    let log = MemoryLog::new();
    log.append(&[delta(1, "a"), delta(2, "b")]).unwrap();
    log.append(&[delta(1, "a"), delta(2, "b"), delta(3, "c")]).unwrap();
    assert_eq!(numbers(&read(&log, 0, 10)), [1, 2, 3]);
}

#[test]
fn what_was_forgotten_is_a_gap_and_the_rest_is_there() {
    let log = MemoryLog::with_retention(10_000);
    for seq in 1..=100 {
        log.append(&[delta(seq, &"x".repeat(1_000))]).unwrap();
    }
    let Batch::Gap { from, to } = read(&log, 0, 10) else { panic!("no gap") };
    assert_eq!(from, 1);
    assert!((90..97).contains(&to), "{to}");
    assert_eq!(read(&log, 50, 10), Batch::Gap { from: 51, to });
    assert_eq!(numbers(&read(&log, to, 100)), (to + 1..=100).collect::<Vec<_>>());
}

#[test]
fn the_last_event_is_kept_whatever_its_size() {
    let log = MemoryLog::with_retention(1);
    log.append(&[delta(1, "a"), delta(2, &"x".repeat(1 << 20))]).unwrap();
    assert_eq!(numbers(&read(&log, 1, 10)), [2]);
    assert_eq!(read(&log, 0, 10), Batch::Gap { from: 1, to: 1 });
}

#[test]
fn large_events_of_every_sort_count() {
    let big = "x".repeat(1 << 20);
    let metadata = Metadata::default().with("k", &*big);
    let at = Timestamp::from_unix(0, 0);
    let kinds: [Event; 3] = [
        Event::new("a", at, Scope::Root, Metadata::default(), ToolResultTextDelta::new("r", "k", &*big)),
        Event::new("b", at, Scope::Root, metadata.clone(), TextBlockDelta::new("r", "b", "")),
        Event::new(
            "c",
            at,
            Scope::Root,
            Metadata::default(),
            anabranch_proto::event::Custom::new("n", anabranch_proto::Json::new(&big).unwrap()),
        ),
    ];
    for event in kinds {
        let log = MemoryLog::with_retention(1 << 20);
        log.append(&[Admitted::new(1, Arc::new(event)), delta(2, "x")]).unwrap();
        assert_eq!(read(&log, 0, 10), Batch::Gap { from: 1, to: 1 });
    }
    // Metadata that events share is one object, so it counts once.
    let log = MemoryLog::with_retention(5 << 20);
    for seq in 1..=100 {
        let kind = TextBlockDelta::new("r", "b", "x");
        let event = Event::new("e", at, Scope::Root, metadata.clone(), kind);
        log.append(&[Admitted::new(seq, Arc::new(event))]).unwrap();
    }
    assert_eq!(numbers(&read(&log, 0, 100)).len(), 100);
}

#[test]
fn a_spawn_is_stored_under_its_parent_before_an_event_of_the_child_can_be_read() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn a\nspawn a/b\nsay a/b x\nsay c y\nspawn d\nend d\nspawn d#2");
    let log = MemoryLog::new();
    for admitted in &session.admitted {
        if let Some(scope) = admitted.event.scope.child() {
            let spawns = log.spawn_starts(&scope.parent_session_id);
            assert!(
                spawns.iter().any(|spawn| matches!(&spawn.event.kind,
                    anabranch_proto::EventKind::SpawnSessionStart(spawn)
                        if spawn.child_session_id == scope.child_session_id && spawn.run == Some(scope.run))),
                "{:?}",
                admitted.event
            );
        }
        log.append(std::slice::from_ref(admitted)).unwrap();
    }
    let children = |parent: &str| -> Vec<String> {
        let spawns = log.spawn_starts(&SessionId::from(parent));
        spawns.iter().map(|admitted| crate::support::render(std::slice::from_ref(admitted))).collect()
    };
    assert_eq!(children("root").len(), 4);
    assert_eq!(children("a"), ["a#1 spawn b#1<a@2 sync \"work\"\n"]);
    assert!(children("b").is_empty());

    let own = log.session_events(&"b".into());
    assert_eq!(own.len(), 2);
    assert_eq!(log.root_events().len(), 5);
}

#[test]
fn a_spawn_that_was_forgotten_is_no_longer_under_its_parent() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn a\nspawn b");
    let log = MemoryLog::with_retention(0);
    log.append(&session.admitted).unwrap();
    let kept = log.spawn_starts(&"root".into());
    assert_eq!(kept.iter().map(|admitted| admitted.seq).collect::<Vec<_>>(), [3]);
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_and_misses_nothing() {
    let log = MemoryLog::new();
    let read = async {
        let mut appended = log.appended();
        let mut seen = Vec::new();
        let mut waited = 0;
        while seen.len() < 1_000 {
            let batch = numbers(&log.read(seen.last().copied().unwrap_or(0), 7).await.unwrap());
            if batch.is_empty() {
                waited += 1;
                appended.changed().await.unwrap();
            }
            seen.extend(batch);
        }
        (seen, waited)
    };
    let write = async {
        for seq in 1..=1_000 {
            log.append(&[delta(seq, "x")]).unwrap();
            if seq % 13 == 0 {
                tokio::task::yield_now().await;
            }
        }
    };
    let ((seen, waited), ()) = tokio::join!(read, write);
    assert_eq!(seen, (1..=1_000).collect::<Vec<_>>());
    assert!(waited > 10, "the reader was never ahead");
    assert_eq!(*log.appended().borrow(), 1_000);
}

#[test]
fn metadata_that_many_children_share_counts_once_for_each_whatever_their_order() {
    let big = "x".repeat(1 << 20);
    let of = |child: u64| Metadata::default().with("child", child).with("k", &*big);
    let appended = |children: u64| {
        // Room for each child's metadata, as text and as fields, and for the events.
        let log = MemoryLog::with_retention((2 * 16 + 1) << 20);
        let metadata: Vec<_> = (0..children).map(of).collect();
        for seq in 1..=320 {
            let metadata = metadata[usize::try_from(seq % children).unwrap()].clone();
            let kind = TextBlockDelta::new("r", "b", "x");
            let event = Event::new("e", Timestamp::from_unix(0, 0), Scope::Root, metadata, kind);
            log.append(&[Admitted::new(seq, Arc::new(event))]).unwrap();
        }
        log
    };
    for children in [1, 2, 7, 16] {
        assert_eq!(numbers(&read(&appended(children), 0, 400)).len(), 320, "{children} children");
    }
    // What is no longer remembered is taken for new: the bound holds.
    assert!(matches!(read(&appended(17), 0, 400), Batch::Gap { .. }));
}
