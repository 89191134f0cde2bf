//! The laws of an [`EventLog`], as a suite that each implementation runs.
//!
//! Each function takes an empty log, is a test of its own, and panics where the log breaks the law. None needs a runtime
//! but the one that the log itself may need.
//!
//! ```
//! use anabranch_session::{MemoryLog, conformance};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! conformance::numbers_come_back_in_order(&MemoryLog::new()).await;
//! conformance::every_cursor_gives_what_follows_once(&MemoryLog::new()).await;
//! # }
//! ```

#![expect(clippy::missing_panics_doc, clippy::panic, clippy::expect_used, reason = "a suite of tests")]

use std::{
    iter,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use anabranch_proto::{
    Admitted, ChildScope, Event, EventKind, Json, Metadata, Outcome, Scope, SessionId, SpawnMechanism, Stamp,
    TextBlock, Timestamp,
    event::{
        Custom, MessageOrigin, ReplyEnd, ReplyStart, SpawnSessionStart, StreamComplete, TextBlockDelta,
        TextBlockEnd, TextBlockStart, UserMessage,
    },
    native,
};
use futures::{
    FutureExt as _, StreamExt as _,
    future::{join_all, poll_fn},
    stream::FuturesUnordered,
};

use crate::{AppendError, Batch, EventLog, EventProcessor, Limits};

/// How many events a run of [`conversation`] has.
pub const RUN: u64 = 50;

/// The id of the root session of [`conversation`].
pub const ROOT: &str = "ses_root";

/// A well-formed conversation of so many runs, [`RUN`] events each: in each run a child works and ends. Between two runs
/// nothing is open.
#[must_use]
pub fn conversation(runs: u64) -> Vec<Admitted> {
    let stamp = Counter::default();
    let mut processor = EventProcessor::new(SessionId::from(ROOT), Limits::default());
    let mut admitted = Vec::new();
    for run in 0..runs {
        let child = ChildScope::new(format!("ses_{run}"), ROOT, format!("sa_{run}"), "reader");
        let spawn = SpawnSessionStart::new(&child, SpawnMechanism::Sync, "Run reader task");
        let child = Scope::from(child);
        let id = |what: &str| format!("{what}_{run}");
        let prompt = |scope: &Scope| -> EventKind {
            let origin = if *scope == Scope::Root { MessageOrigin::User } else { MessageOrigin::Parent };
            let content = vec![TextBlock::new("Look at it").into()];
            UserMessage::new(format!("{}_{}", id("message"), scope.depth()), content, origin).into()
        };
        let says = |session: &str, reply: &str, deltas: u64, outcome: Outcome| -> Vec<EventKind> {
            let start: [EventKind; 2] = [
                ReplyStart::new(session, reply, "agent").into(),
                TextBlockStart::new(reply, format!("{reply}_text")).into(),
            ];
            let delta = |number: u64| {
                TextBlockDelta::new(reply, format!("{reply}_text"), format!("word {number} ")).into()
            };
            let end: [EventKind; 3] = [
                TextBlockEnd::new(reply, format!("{reply}_text")).into(),
                ReplyEnd::new(session, reply, outcome.finished_reason()).into(),
                StreamComplete::new(outcome).into(),
            ];
            start.into_iter().chain((0..deltas).map(delta)).chain(end).collect()
        };
        let mut kinds: Vec<(Scope, EventKind)> = vec![(Scope::Root, prompt(&Scope::Root))];
        kinds.push((Scope::Root, spawn.into()));
        kinds.push((child.clone(), prompt(&child)));
        let of_child = says(&id("ses"), &id("child"), 20, Outcome::Completed);
        kinds.extend(of_child.into_iter().map(|kind| (child.clone(), kind)));
        let own = says(ROOT, &id("reply"), 17, Outcome::Completed);
        kinds.extend(own.into_iter().map(|kind| (Scope::Root, kind)));
        for (scope, kind) in kinds {
            let event = Event::stamped(&stamp, scope, Metadata::default(), kind);
            processor.process(Arc::new(event), &stamp, &mut admitted);
        }
    }
    assert_eq!(last(&admitted), runs * RUN, "the suite's own events are well-formed");
    admitted
}

/// Events are given back in order with their numbers, whatever the batches were and whatever is asked for at once.
pub async fn numbers_come_back_in_order(log: &dyn EventLog) {
    assert_eq!(*log.appended().borrow(), 0, "a log begins empty");
    assert_eq!(log.read(0, 10).await.expect("an empty log can be read"), Batch::Events(Vec::new()));
    let all = conversation(4);
    append(log, &all, |index| index % 23).await;
    readable(log, last(&all)).await;
    for max in [1, 2, 7, 50, 1_000] {
        assert_eq!(follow(log, 0, last(&all), max).await, all, "{max} at a time");
    }
    for after in [last(&all), last(&all) + 1, u64::MAX] {
        let none = log.read(after, 10).await.expect("what is not there yet is no error");
        assert_eq!(none, Batch::Events(Vec::new()), "after {after}");
    }
    let none = log.read(0, 0).await.expect("nothing can be asked for");
    assert_eq!(none, Batch::Events(Vec::new()));
}

/// Events come back as they were: ids of any spelling, metadata, fields that nobody knows, large ones.
pub async fn events_come_back_as_they_were(log: &dyn EventLog) {
    let metadata: Metadata =
        Metadata::default().with("text", "line\nbreak \u{1F680} \"quoted\" \u{0}").with("number", 1);
    let child = ChildScope::new("ses_ä/../'; --", ROOT, "sa", "name\u{7}").run(3).depth(1);
    let custom = |json: &str| Custom::new("any", Json::new(json).expect("JSON")).into();
    let line = r#"{"id":"E","created_at":"2026-01-02T03:04:05.120000+01:00","metadata":{"z":1e2},"type":"REPLY_START",
        "session_id":"s","reply_id":"r","name":"n","role":"assistant","not_ours":1e2}"#;
    let foreign = native::Reader::default().read(line).expect("a line with a field that is not ours").event;
    let at = Timestamp::from_unix(1_700_000_000, 1_000);
    let kinds: [EventKind; 4] = [
        custom("[1e2, 123456789012345678901234567890, null]"),
        TextBlockDelta::new("reply", "block", "x".repeat(100_000)).into(),
        TextBlockDelta::new("reply", "block", "").into(),
        custom("{\"b\": 1, \"a\": 2}"),
    ];
    let mut all = Vec::new();
    for (index, kind) in kinds.into_iter().enumerate() {
        let scope = if index % 2 == 0 { Scope::Root } else { child.clone().into() };
        let event = Event::new("not an ULID", at, scope, metadata.clone(), kind);
        all.push(Admitted::new(index as u64 + 1, Arc::new(event)));
    }
    all.push(Admitted::new(5, Arc::new(foreign)));
    append(log, &all, |_| 1).await;
    durable(log, last(&all)).await;
    assert_eq!(follow(log, 0, last(&all), 10).await, all);
}

/// What the log has already is not appended again, also where the batch goes on behind it.
pub async fn a_batch_appended_again_adds_nothing(log: &dyn EventLog) {
    let all = conversation(2);
    let (head, _) = all.split_at(60);
    log.append(head).expect("there is room");
    durable(log, 60).await;
    log.append(head).expect("nothing is appended");
    log.append(&all).expect("there is room");
    readable(log, last(&all)).await;
    assert_eq!(follow(log, 0, last(&all), 100).await, all);
}

/// A batch that does not follow, or has a hole, is refused whole and changes nothing.
pub async fn a_gap_is_refused(log: &dyn EventLog) {
    let all = conversation(2);
    let without = |left_out: &[usize]| -> Vec<Admitted> {
        let kept = all.iter().enumerate().filter(|(index, _)| !left_out.contains(index));
        kept.map(|(_, admitted)| admitted.clone()).collect()
    };
    let refused = |batch: &[Admitted], expected: (u64, u64)| match log.append(batch) {
        Err(AppendError::Gap { last, found }) => assert_eq!((last, found), expected),
        other => panic!("a gap gives {other:?}"),
    };
    refused(&without(&[0]), (0, 2));
    refused(&without(&[5]), (5, 7));
    assert_eq!(*log.appended().borrow(), 0, "nothing was appended");
    let (head, tail) = all.split_at(60);
    log.append(head).expect("there is room");
    refused(tail.get(1..).unwrap_or_default(), (60, 62));
    refused(&without(&[70]), (70, 72));
    log.append(tail).expect("there is room");
    readable(log, last(&all)).await;
    assert_eq!(follow(log, 0, last(&all), 100).await, all);
}

/// A batch that has another event under a number that the log has given is refused whole: two write to one log.
pub async fn a_second_writer_is_refused(log: &dyn EventLog) {
    let all = conversation(2);
    let (head, tail) = all.split_at(60);
    log.append(head).expect("there is room");
    let Admitted { seq, event, .. } = head.last().expect("an event");
    let mut other = Event::clone(event);
    other.id = "another".into();
    let mut batch = vec![Admitted::new(*seq, Arc::new(other))];
    batch.extend_from_slice(tail);
    match log.append(&batch) {
        Err(AppendError::Conflict { seq: 60 }) => {}
        other => panic!("a second writer gives {other:?}"),
    }
    readable(log, 60).await;
    assert_eq!(follow(log, 0, 60, 100).await, head);
    assert_eq!(*log.appended().borrow(), 60, "nothing of the batch was appended");
}

/// A run of 5,000 events is resumed at every cursor, each time with a cut between what is replayed and what comes live:
/// no gap, no repeat. Then once more, when the log is at rest.
pub async fn every_cursor_gives_what_follows_once(log: &dyn EventLog) {
    const EVENTS: u64 = 5_000;
    let all = &conversation(EVENTS / RUN);
    let mut readers = FuturesUnordered::new();
    // The reader of a cursor comes when so many events lie before the seam.
    let mut coming: Vec<(u64, u64)> = (0..=EVENTS).map(|after| (after + after * 7 % 31, after)).collect();
    coming.sort_unstable();
    let mut coming = coming.into_iter().peekable();
    let mut batches = batches(all, |index| index % 11);
    let mut end = 0;
    loop {
        while let Some((_, after)) = coming.next_if(|(seam, _)| *seam <= end || end == EVENTS) {
            // Some read on to the end, the others well past the seam.
            let upto = if after % 1_000 == 0 { EVENTS } else { (after + 40).min(EVENTS) };
            let max = usize::try_from(1 + after % 40).expect("a small number");
            readers.push(async move {
                let read = follow(log, after, upto, max).await;
                assert!(read == expected(all, after, upto), "what follows {after} is not what was appended");
            });
        }
        while readers.next().now_or_never().flatten().is_some() {}
        let Some(batch) = batches.next() else { break };
        append_when_there_is_room(log, batch).await;
        end = last(batch);
    }
    while readers.next().await.is_some() {}
    durable(log, EVENTS).await;
    at_rest_every_cursor_gives_what_follows(log, all).await;
}

/// The same of a log that has these events and takes no more now, such as one that was opened again.
pub async fn at_rest_every_cursor_gives_what_follows(log: &dyn EventLog, all: &[Admitted]) {
    for after in 0..=last(all) {
        let read = log.read(after, 9).await.expect("the log can be read");
        let Batch::Events(read) = read else { panic!("a gap after {after}") };
        // It may give fewer than it was asked for, but where there are any not none.
        assert!(read.len() <= 9 && read.is_empty() == (after == last(all)), "how much follows {after}");
        assert!(read == expected(all, after, after + read.len() as u64), "what follows {after}");
    }
}

/// Many readers at once, each with a pace of its own, have the same events; one that never reads harms none.
pub async fn many_readers_have_the_same(log: &dyn EventLog) {
    let all = &conversation(6);
    let idle = log.read(0, 1);
    let readers = (0..100_usize).map(|reader| async move {
        let (mut seen, mut after) = (Vec::new(), 0);
        while after < last(all) {
            for _ in 0..reader % 7 {
                yield_now().await;
            }
            let upto = (after + 1 + reader as u64 % 13).min(last(all));
            let read = follow(log, after, upto, 64).await;
            after = last(&read);
            seen.extend(read);
        }
        assert!(seen == *all, "reader {reader}");
    });
    futures::join!(join_all(readers), append(log, all, |index| index % 5));
    drop(idle);
}

/// Readers that leave while they read or wait change nothing.
pub async fn readers_that_leave_change_nothing(log: &dyn EventLog) {
    let all = conversation(4);
    for (index, batch) in batches(&all, |index| index % 3).enumerate() {
        append_when_there_is_room(log, batch).await;
        let mut read = pin!(log.read(index as u64, 5));
        let _ = poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_ready())).await;
        let mut watch = log.appended();
        let _ = watch.changed().now_or_never();
    }
    readable(log, last(&all)).await;
    assert_eq!(follow(log, 0, last(&all), 30).await, all);
}

/// A log that was told to keep few events gives a gap where others were: from the cursor on, once, never in between.
///
/// The log is to forget at least one of 100 runs, and to keep at least the last event.
pub async fn what_was_forgotten_is_one_gap(log: &dyn EventLog) {
    let all = &conversation(100);
    for batch in batches(all, |_| 20) {
        log.append(batch).expect("there is room");
        // So that it forgets behind the events, not only at the end.
        durable(log, last(batch)).await;
    }
    let mut forgotten = None;
    for _ in 0..10_000 {
        if let Batch::Gap { from: 1, to } = log.read(0, 10).await.expect("the log can be read") {
            forgotten = Some(to);
            break;
        }
        yield_now().await;
    }
    let mut forgotten = forgotten.expect("the log forgets");
    assert!(forgotten < last(all), "the last event is kept");
    for after in 0..forgotten {
        let gap = log.read(after, 10).await.expect("the log can be read");
        // It may have forgotten more by now.
        assert!(
            matches!(gap, Batch::Gap { from, to } if from == after + 1 && to >= forgotten && to < last(all)),
            "after {after}: {gap:?}",
        );
    }
    // Behind the gap is everything, once the log has forgotten what it is going to.
    let mut kept: Vec<Admitted> = Vec::new();
    let mut after = 0;
    while after < last(all) {
        match log.read(after, 64).await.expect("the log can be read") {
            Batch::Events(events) => kept.extend(events),
            Batch::Gap { from, to } => {
                assert!(from == after + 1 && to >= forgotten, "a gap from {from} to {to} behind {after}");
                forgotten = to;
                kept.clear();
            }
        }
        after = kept.last().map_or(forgotten, |admitted| admitted.seq);
    }
    assert_eq!(kept, expected(all, forgotten, last(all)));
}

/// Appends in batches of what `size` gives for each, at least 1, as whoever produces would.
pub async fn append(log: &dyn EventLog, all: &[Admitted], size: impl Fn(usize) -> usize) {
    for batch in batches(all, size) {
        append_when_there_is_room(log, batch).await;
        yield_now().await;
    }
}

async fn append_when_there_is_room(log: &dyn EventLog, batch: &[Admitted]) {
    while let Some(room) = log.room() {
        room.await;
    }
    log.append(batch).expect("there is room");
}

/// Reads what lies after a number up to another as a reader does: what is there, then what comes.
pub async fn follow(log: &dyn EventLog, mut after: u64, upto: u64, max: usize) -> Vec<Admitted> {
    let mut appended = log.appended();
    let mut seen = Vec::new();
    while after < upto {
        appended.mark_unchanged();
        let wanted = max.min(usize::try_from(upto - after).unwrap_or(max));
        match log.read(after, wanted).await.expect("the log can be read") {
            Batch::Events(events) if events.is_empty() => appended.changed().await.expect("the log lives"),
            Batch::Events(events) => {
                assert!(events.len() <= wanted, "more than was asked for");
                after = last(&events);
                seen.extend(events);
            }
            Batch::Gap { from, to } => panic!("a gap from {from} to {to}"),
        }
    }
    seen
}

/// Waits until an event can be read.
pub async fn readable(log: &dyn EventLog, seq: u64) {
    log.appended().wait_for(|readable| *readable >= seq).await.expect("the log lives");
}

/// Waits until an event outlives the process.
pub async fn durable(log: &dyn EventLog, seq: u64) {
    log.durable().wait_for(|durable| *durable >= seq).await.expect("the log lives");
}

fn last(events: &[Admitted]) -> u64 {
    events.last().map_or(0, |admitted| admitted.seq)
}

fn expected(all: &[Admitted], after: u64, upto: u64) -> &[Admitted] {
    let place = |seq: u64| usize::try_from(seq).expect("a small number");
    all.get(place(after)..place(upto)).expect("within what was appended")
}

fn batches(all: &[Admitted], size: impl Fn(usize) -> usize) -> impl Iterator<Item = &[Admitted]> {
    let (mut rest, mut index) = (all, 0);
    iter::from_fn(move || {
        let (batch, behind) = rest.split_at(size(index).max(1).min(rest.len()));
        (rest, index) = (behind, index + 1);
        (!batch.is_empty()).then_some(batch)
    })
}

async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Ids that count and a clock that stands.
#[derive(Default)]
struct Counter(AtomicU64);

impl Stamp for Counter {
    fn unique(&self) -> [u8; 16] {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }

    fn ascending(&self) -> [u8; 16] {
        self.unique()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(1_700_000_000, 0)
    }
}
