//! The merge, poll by poll.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use anabranch_pipeline::Merge;
use futures::{
    Stream,
    stream::{FusedStream, StreamExt},
};
use proptest::prelude::*;

use crate::support::WakeCounter;

/// A stream whose items the test gives, and whose polls it counts.
#[derive(Clone, Default)]
struct Given(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    items: VecDeque<u32>,
    has_ended: bool,
    polls: usize,
    waker: Option<Waker>,
}

impl Given {
    fn with(items: impl IntoIterator<Item = u32>) -> Self {
        let given = Self::default();
        given.0.lock().unwrap().items.extend(items);
        given
    }

    fn give(&self, item: u32) {
        let mut state = self.0.lock().unwrap();
        state.items.push_back(item);
        state.wake();
    }

    fn end(&self) {
        let mut state = self.0.lock().unwrap();
        state.has_ended = true;
        state.wake();
    }

    fn ended(self) -> Self {
        self.end();
        self
    }

    fn polls(&self) -> usize {
        self.0.lock().unwrap().polls
    }

    fn waker(&self) -> Waker {
        self.0.lock().unwrap().waker.clone().unwrap()
    }
}

impl State {
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

impl Stream for Given {
    type Item = u32;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        let mut state = self.0.lock().unwrap();
        state.polls += 1;
        state.waker = Some(cx.waker().clone());
        match state.items.pop_front() {
            Some(item) => Poll::Ready(Some(item)),
            None if state.has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// The reader of a merge: its waker counts.
struct Reader {
    counter: Arc<WakeCounter>,
    waker: Waker,
}

impl Reader {
    fn new() -> Self {
        let (counter, waker) = WakeCounter::pair();
        Self { counter, waker }
    }

    fn poll<S: Stream + Unpin>(&self, merge: &mut Merge<S>) -> Poll<Option<S::Item>> {
        Pin::new(merge).poll_next(&mut Context::from_waker(&self.waker))
    }

    fn wakes(&self) -> usize {
        self.counter.count()
    }
}

fn merge_of<S>(streams: impl IntoIterator<Item = S>) -> Merge<S> {
    let mut merge = Merge::new();
    for stream in streams {
        merge.push(stream);
    }
    merge
}

#[test]
fn a_merge_without_streams_ends_and_takes_streams_later() {
    let (reader, mut merge) = (Reader::new(), Merge::new());
    assert_eq!(reader.poll(&mut merge), Poll::Ready(None));
    assert!(merge.is_terminated() && merge.is_empty());
    merge.push(Given::with([1]).ended());
    assert!(!merge.is_terminated());
    assert_eq!(merge.len(), 1);
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(1)));
    for _ in 0..3 {
        assert_eq!(reader.poll(&mut merge), Poll::Ready(None), "polled after the end");
    }
    assert!(merge.is_terminated());
}

#[test]
fn pending_then_woken_then_an_item_then_the_end() {
    let (reader, given) = (Reader::new(), Given::default());
    let mut merge = merge_of([given.clone()]);
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    assert_eq!(reader.wakes(), 0);
    given.give(1);
    assert_eq!(reader.wakes(), 1);
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(1)));
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    given.end();
    assert_eq!(reader.wakes(), 2);
    assert_eq!(reader.poll(&mut merge), Poll::Ready(None));
}

#[test]
fn a_stream_pushed_while_the_reader_waits_is_polled() {
    let (reader, mut merge) = (Reader::new(), merge_of([Given::default()]));
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    merge.push(Given::with([2]));
    assert_eq!(reader.wakes(), 1);
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(2)));
}

#[test]
fn the_reader_that_polled_last_is_woken() {
    let (first, second, given) = (Reader::new(), Reader::new(), Given::default());
    let mut merge = merge_of([given.clone()]);
    assert_eq!(first.poll(&mut merge), Poll::Pending);
    assert_eq!(second.poll(&mut merge), Poll::Pending);
    given.give(1);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
}

#[test]
fn only_streams_that_were_woken_are_polled() {
    let (reader, all) = (Reader::new(), (0..100).map(|_| Given::default()).collect::<Vec<_>>());
    let mut merge = merge_of(all.iter().cloned());
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    assert!(all.iter().all(|given| given.polls() == 1));
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    assert!(all.iter().all(|given| given.polls() == 1), "none was woken");
    all[42].give(1);
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(1)));
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    assert_eq!(all[42].polls(), 3);
    assert_eq!(all.iter().map(Given::polls).sum::<usize>(), 102);
}

#[test]
fn a_stream_woken_twice_stands_in_the_line_once() {
    let (reader, given) = (Reader::new(), Given::default());
    let mut merge = merge_of([given.clone()]);
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    given.waker().wake_by_ref();
    given.waker().wake();
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    assert_eq!(given.polls(), 2);
}

#[test]
fn passing_an_item_on_wakes_nobody() {
    let (reader, mut merge) = (Reader::new(), merge_of([Given::with(0..10), Given::with(10..20)]));
    for _ in 0..20 {
        assert!(reader.poll(&mut merge).is_ready());
    }
    assert_eq!(reader.wakes(), 0);
}

#[test]
fn a_stream_that_is_always_ready_leaves_the_others_their_turns() {
    let reader = Reader::new();
    let late = Given::default();
    let mut merge = merge_of([Given::with(vec![0; 1_000]), Given::with([1, 1, 1]), late.clone()]);
    let mut take = |count| (0..count).map(|_| reader.poll(&mut merge)).collect::<Vec<_>>();
    let some = |items: &[u32]| items.iter().map(|item| Poll::Ready(Some(*item))).collect::<Vec<_>>();
    assert_eq!(take(6), some(&[0, 1, 0, 1, 0, 1]));
    assert_eq!(take(2), some(&[0, 0]));
    late.give(2);
    assert_eq!(take(3), some(&[0, 2, 0]));
}

#[test]
fn a_place_is_taken_again_and_late_wake_ups_of_the_old_stream_are_harmless() {
    let (reader, old) = (Reader::new(), Given::default());
    let mut merge = merge_of([old.clone()]);
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    let late = old.waker();
    old.end();
    assert_eq!(reader.poll(&mut merge), Poll::Ready(None));

    let new = Given::default();
    merge.push(new.clone());
    assert_eq!(merge.len(), 1);
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    let wakes = reader.wakes();
    late.wake();
    assert_eq!((reader.wakes(), reader.poll(&mut merge)), (wakes, Poll::Pending));
    assert_eq!(new.polls(), 1);
}

/// Wakes itself while it is polled for the last time.
struct WakesAtTheEnd;

impl Stream for WakesAtTheEnd {
    type Item = u32;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        cx.waker().wake_by_ref();
        Poll::Ready(None)
    }
}

#[test]
fn a_wake_up_at_the_end_gives_the_next_in_its_place_no_second_turn() {
    let reader = Reader::new();
    let mut merge: Merge<Pin<Box<dyn Stream<Item = u32>>>> = Merge::new();
    merge.push(Box::pin(Given::with(vec![0; 100])));
    merge.push(Box::pin(WakesAtTheEnd));
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(0)));
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(0)));
    assert_eq!(merge.len(), 1);
    merge.push(Box::pin(Given::with(vec![1; 100])));
    let turns: Vec<_> = (0..20).map(|_| reader.poll(&mut merge)).collect();
    for pair in turns.windows(2).skip(1) {
        assert_ne!(pair[0], pair[1], "{turns:?}");
    }
}

#[test]
fn late_wake_ups_take_no_turns() {
    let reader = Reader::new();
    let mut merge: Merge<Pin<Box<dyn Stream<Item = u32>>>> = Merge::new();
    merge.push(Box::pin(Given::with(vec![0; 100])));
    for _ in 0..10 {
        merge.push(Box::pin(WakesAtTheEnd));
    }
    for _ in 0..10 {
        assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(0)));
    }
}

/// Wakes itself whenever it is polled, and always has an item.
struct Eager(u32);

impl Stream for Eager {
    type Item = u32;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        cx.waker().wake_by_ref();
        Poll::Ready(Some(self.0))
    }
}

#[test]
fn a_stream_that_wakes_itself_and_gives_an_item_has_one_turn() {
    let reader = Reader::new();
    let mut merge: Merge<Pin<Box<dyn Stream<Item = u32>>>> = Merge::new();
    merge.push(Box::pin(Eager(0)));
    merge.push(Box::pin(Given::with(vec![1; 100])));
    let turns: Vec<_> = (0..6).map(|_| reader.poll(&mut merge)).collect();
    assert_eq!(turns, [0, 1, 0, 1, 0, 1].map(|item| Poll::Ready(Some(item))));
}

/// Wakes itself whenever it is polled and never has an item.
struct Restless(Arc<Mutex<usize>>);

impl Stream for Restless {
    type Item = u32;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        *self.0.lock().unwrap() += 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[test]
fn a_stream_that_wakes_itself_neither_starves_the_others_nor_spins() {
    let (reader, polls) = (Reader::new(), Arc::new(Mutex::new(0)));
    let given = Given::with([1]);
    let mut merge: Merge<Pin<Box<dyn Stream<Item = u32>>>> = Merge::new();
    merge.push(Box::pin(Restless(Arc::clone(&polls))));
    merge.push(Box::pin(given.clone()));
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(1)));
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    assert!(*polls.lock().unwrap() <= 4, "{polls:?}");
    let wakes = reader.wakes();
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    assert_eq!(reader.wakes(), wakes + 1, "it must be polled again");
    given.give(2);
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(2)));
}

#[test]
fn dropping_the_merge_drops_the_streams() {
    let given = Given::default();
    let mut merge = merge_of([given.clone(), given.clone()]);
    assert_eq!(Reader::new().poll(&mut merge), Poll::Pending);
    assert_eq!(Arc::strong_count(&given.0), 3);
    drop(merge);
    assert_eq!(Arc::strong_count(&given.0), 1);
    given.waker().wake();
}

#[test]
fn a_stream_that_ended_is_dropped_at_once() {
    let (ended, open) = (Given::with([1]).ended(), Given::default());
    let mut merge = merge_of([ended.clone(), open]);
    let reader = Reader::new();
    assert_eq!(reader.poll(&mut merge), Poll::Ready(Some(1)));
    assert_eq!(reader.poll(&mut merge), Poll::Pending);
    assert_eq!(Arc::strong_count(&ended.0), 1);
    assert_eq!(ended.polls(), 2, "a stream is not polled after its end");
}

#[test]
fn the_size_hint_adds_up() {
    let mut merge = merge_of([futures::stream::iter(0..3), futures::stream::iter(3..5)]);
    assert_eq!(merge.size_hint(), (5, None));
    assert!(Reader::new().poll(&mut merge).is_ready());
    assert_eq!(merge.size_hint(), (4, None));
    while Reader::new().poll(&mut merge) != Poll::Ready(None) {}
    assert_eq!(merge.size_hint(), (0, Some(0)));
}

proptest! {
    #[test]
    fn each_streams_items_come_all_and_in_order(streams in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..30), 0..8)) {
        // `true` is an item, `false` a pause.
        let merge = merge_of(streams.iter().enumerate().map(|(stream, steps)| {
            Box::pin(futures::stream::iter(steps.clone().into_iter().enumerate()).filter_map(move |(at, is_item)| async move {
                if is_item {
                    return Some((stream, at));
                }
                crate::support::pending_once().await;
                None
            }))
        }));
        let items = crate::support::drain(merge);
        for (stream, steps) in streams.iter().enumerate() {
            let own: Vec<_> = items.iter().filter(|item| item.0 == stream).map(|item| item.1).collect();
            let expected: Vec<_> = (0..steps.len()).filter(|at| steps[*at]).collect();
            prop_assert_eq!(own, expected);
        }
    }
}
