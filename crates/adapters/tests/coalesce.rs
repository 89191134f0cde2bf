//! What merging pieces of text may change, and what not.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use anabranch_adapters::{Adapter, coalesce::Coalesce};
use anabranch_proto::{BlockId, Event, EventKind, Outcome, Timestamp};
use anabranch_testkit::{Actor, Stage};
use proptest::prelude::*;

/// What reaches the adapter.
#[derive(Clone, Default)]
struct Record(Rc<RefCell<Vec<Event>>>);

impl Adapter for Record {
    type Frame<'a> = ();

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(())) {
        self.0.borrow_mut().push(event.clone());
        out(());
    }

    fn finish(&mut self, _out: &mut dyn for<'a> FnMut(())) {}
}

fn coalesced(stage: &Stage, most: usize) -> Vec<Event> {
    let record = Record::default();
    let mut coalesce = Coalesce::new(record.clone()).bytes(most);
    for event in stage.events() {
        coalesce.event(&event, &mut |()| {});
    }
    coalesce.finish(&mut |()| {});
    record.0.take()
}

/// The events that are no pieces, with the text of each block between them.
fn shape<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<(BTreeMap<String, String>, Option<Event>)> {
    let (mut shape, mut texts) = (Vec::new(), BTreeMap::<String, String>::new());
    for event in events {
        let (block, text) = if let EventKind::TextBlockDelta(delta) = &event.kind {
            (format!("{:?}t{}", event.scope, delta.block_id), &delta.delta)
        } else if let EventKind::ThinkingBlockDelta(delta) = &event.kind {
            (format!("{:?}h{}", event.scope, delta.block_id), &delta.delta)
        } else {
            shape.push((std::mem::take(&mut texts), Some(event.clone())));
            continue;
        };
        texts.entry(block).or_default().push_str(text);
    }
    shape.push((texts, None));
    shape
}

fn pieces(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event.kind, EventKind::TextBlockDelta(_))).count()
}

#[test]
fn pieces_of_two_children_token_by_token_are_one_each() {
    let stage = Stage::new();
    let root = stage.root();
    let children = [root.spawn("n1"), root.spawn("n1")];
    let blocks = children.each_ref().map(Actor::open_text);
    for _ in 0..1000 {
        for (child, block) in children.iter().zip(&blocks) {
            child.delta(block, "word ");
        }
    }
    root.end(Outcome::Completed);
    assert_eq!(pieces(&coalesced(&stage, 16 * 1024)), 2);
    // Two times 5,000 bytes, in three parts.
    assert_eq!(pieces(&coalesced(&stage, 5_000)), 6);
}

#[test]
fn a_piece_that_is_longer_than_the_bound_passes_at_once() {
    let stage = Stage::new();
    let root = stage.root();
    let block = root.open_text();
    root.delta(&block, "short");
    root.delta(&block, &"x".repeat(1000));
    let record = Record::default();
    let mut coalesce = Coalesce::new(record.clone()).bytes(500);
    for event in stage.events() {
        coalesce.event(&event, &mut |()| {});
    }
    assert_eq!(record.0.borrow().len(), 3);
}

#[test]
fn pieces_with_other_metadata_are_not_merged() {
    let stage = Stage::new();
    let root = stage.root();
    let block = BlockId::new("b");
    root.delta(&block, "one");
    root.clone().with("part", 2).delta(&block, "two");
    let events = coalesced(&stage, 1000);
    assert_eq!(events.len(), 2);
    assert!(events[0].metadata.is_empty() && !events[1].metadata.is_empty());
}

#[test]
fn a_tick_lets_through_what_waits_for_the_window() {
    let stage = Stage::new();
    stage.root().delta(&BlockId::new("b"), "one");
    let record = Record::default();
    let mut coalesce = Coalesce::new(record.clone()).window(50);
    coalesce.event(&stage.events()[0], &mut |()| {});
    let mut after = |millis: u32| {
        coalesce.tick(Timestamp::from_unix(1_000, millis * 1_000_000), &mut |()| {});
        record.0.borrow().len()
    };
    assert_eq!([after(0), after(49), after(50), after(51)], [0, 0, 1, 1]);
}

/// What an actor of the property does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Say(u8, u8),
    Think(u8),
    Call(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..3_u8, 0..2_u8).prop_map(|(who, block)| Act::Say(who, block)),
        1 => (0..3_u8).prop_map(Act::Think),
        1 => (0..3_u8).prop_map(Act::Call),
    ]
}

proptest! {
    #[test]
    fn no_event_is_merged_moved_or_dropped_and_no_text_is_changed(
        acts in proptest::collection::vec(act(), 0..200),
        most in 0..2_000_usize,
    ) {
        let stage = Stage::new();
        let root = stage.root();
        let actors = [root.clone(), root.spawn("n1"), root.spawn("n1")];
        for (count, act) in acts.iter().enumerate() {
            match act {
                Act::Say(who, block) => {
                    actors[usize::from(*who)].delta(&BlockId::new(format!("b{block}")), &format!("{count}é "));
                }
                Act::Think(who) => actors[usize::from(*who)].think("Hm."),
                Act::Call(who) => actors[usize::from(*who)].use_tool("read", "{}", "a"),
            }
        }
        let before = stage.events();
        let after = coalesced(&stage, most);
        prop_assert_eq!(shape(before.iter().map(AsRef::as_ref)), shape(&after));
        prop_assert!(after.len() <= before.len());
    }
}
