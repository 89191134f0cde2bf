//! A million pieces of text while nobody reads: what is kept stays within its bound, costs the same per piece, and
//! afterwards nothing is lost. A program of its own, since its allocator counts.

#[path = "stalled/conversation.rs"]
mod conversation;
#[path = "stalled/seen.rs"]
mod seen;

use std::cell::RefCell;

use allocation_counter::{AllocationInfo, measure, opt_out};
#[cfg(feature = "acp")]
use anabranch_adapters::acp::Acp;
use anabranch_adapters::{
    Adapter,
    ag_ui::{AgUi, Mode, RunIds},
    coalesce::Coalesce,
    text::Text,
    tool_calls::ToolCalls,
};
use anabranch_proto::{Event, EventId, Metadata, Scope, Timestamp, event::TextBlockDelta};
use anabranch_testkit::ag_ui::{Dialect, Reader};
use serde_json::Value;

use self::{
    conversation::{Conversation, Offer},
    seen::Seen,
};

const PIECES: usize = 1_000_000;
const FEWER: usize = PIECES / 10;

/// How many pieces come between two ticks, when it is also looked what is kept.
const LOOK: usize = 1_000;

/// How many bytes are held back at most. By default it is as much.
const HELD: usize = 16 * 1024;

/// What is kept besides: a short record of each child, call and message, and what was allocated to be used again.
const RECORDS: usize = 24 * 1024;

/// What came of an offer. Bytes are those in use, as the allocator counts them.
struct Came {
    frames: Vec<Value>,
    /// The most that was kept between two pieces.
    kept: usize,
    /// The most that was in use at any time: also what is made to be given away, and what is copied to be longer.
    peak: usize,
    /// What is in use at the end.
    left: usize,
    /// How often and how much was allocated in all.
    allocations: u64,
    bytes: u64,
}

/// Offers a conversation to an adapter behind `Coalesce`.
fn offer<A: Adapter>(adapter: impl FnOnce() -> A, conversation: &Conversation) -> Came {
    let frames = RefCell::new(Vec::new());
    // What the reader does with a frame is not counted; what it takes to make one is.
    let mut out = |frame: A::Frame<'_>| {
        opt_out(|| frames.borrow_mut().push(serde_json::to_value(&frame).unwrap()));
    };
    let (mut count, mut stage, mut millis) = (Count::default(), None, 1_767_225_600_000_i64);
    count.take(measure(|| stage = Some(Coalesce::new(adapter()).bytes(HELD))));
    let mut stage = stage.unwrap();
    for offer in &conversation.offers {
        match offer {
            Offer::Event(event) => count.take(measure(|| stage.event(event, &mut out))),
            Offer::Pieces(pool, pieces) => {
                let mut pool = pool.iter().cycle();
                for _ in 0..pieces / LOOK {
                    let nanoseconds = u32::try_from(millis % 1000).unwrap() * 1_000_000;
                    let now = Timestamp::from_unix(millis / 1000, nanoseconds);
                    count.take(measure(|| {
                        pool.by_ref().take(LOOK).for_each(|piece| stage.event(piece, &mut out));
                    }));
                    count.look();
                    count.take(measure(|| stage.tick(now, &mut out)));
                    millis += 20;
                }
            }
        }
    }
    count.take(measure(|| stage.finish(&mut out)));
    let (left, Count { kept, peak, allocations, bytes, .. }) = (count.now(), count);
    Came { frames: frames.into_inner(), kept, peak, left, allocations, bytes }
}

/// Several measurements, one after another.
#[derive(Default)]
struct Count {
    now: i64,
    kept: usize,
    peak: usize,
    allocations: u64,
    bytes: u64,
}

impl Count {
    fn take(&mut self, info: AllocationInfo) {
        self.peak = self.peak.max(self.now() + usize::try_from(info.bytes_max).unwrap());
        self.now += info.bytes_current;
        self.allocations += info.count_total;
        self.bytes += info.bytes_total;
    }

    fn look(&mut self) {
        self.kept = self.kept.max(self.now());
    }

    fn now(&self) -> usize {
        usize::try_from(self.now).expect("what is dropped was allocated before")
    }
}

/// What an adapter may keep of what was said.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    /// So many bytes, however much is said.
    Bytes(usize),
    /// What is open, since the protocol wants it whole when it ends: of so many parts of this conversation, one.
    Open { parts: usize },
}

/// Offers a million pieces, and fewer.
fn holds<A: Adapter>(adapter: impl Fn() -> A, keeps: Keeps, read: fn(&[Value]) -> Vec<Seen>) -> Vec<Value> {
    let conversation = Conversation::of(PIECES);
    let came = offer(&adapter, &conversation);
    let fewer = offer(&adapter, &Conversation::of(FEWER));

    let said = conversation.said.values().flatten().map(String::len).sum::<usize>();
    assert!(said > 5 * PIECES, "{said}");
    match keeps {
        Keeps::Bytes(bytes) => {
            let most = HELD + RECORDS + bytes;
            assert!(came.kept <= most, "{} of {most} bytes are kept", came.kept);
            // A batch on its way: it is copied into a frame, or to be longer.
            assert!(came.peak <= most + HELD, "{} of {} bytes are in use", came.peak, most + HELD);
            assert!(came.kept <= fewer.kept + HELD / 16, "{} grew from {}", came.kept, fewer.kept);
        }
        Keeps::Open { parts } => {
            // A text that grows has up to as much room again, and while it grows it is there twice.
            let most = HELD + RECORDS + 2 * said / parts;
            assert!(came.kept <= most, "{} of {most} bytes are kept", came.kept);
            assert!(came.peak <= most + 2 * said / parts, "{} bytes are in use", came.peak);
        }
    }
    assert!(came.left <= 2 * RECORDS, "{} bytes are left", came.left);
    for (what, many, few) in
        [("allocations", came.allocations, fewer.allocations), ("bytes", came.bytes, fewer.bytes)]
    {
        assert!(many * 10 <= few * 13 * (PIECES / FEWER) as u64, "{many} {what}, and {few} for a tenth");
    }

    let frames = read(&came.frames);
    let without_lines = |text: &str| text.replace('\n', "");
    for (voice, said) in &conversation.said {
        // An adapter that shows no thinking loses nothing by that.
        let seen = seen::said(&frames).remove(voice).unwrap_or_default();
        assert!(without_lines(&seen) == without_lines(&said.concat()), "{voice:?} said something else");
    }
    let (mut whole, mut bare) = (Vec::new(), adapter());
    for event in conversation.in_one_piece() {
        bare.event(&event, &mut |frame| whole.push(serde_json::to_value(&frame).unwrap()));
    }
    bare.finish(&mut |frame| whole.push(serde_json::to_value(&frame).unwrap()));
    let (merged, whole) = (seen::shape(&frames), seen::shape(&read(&whole)));
    assert_eq!(merged.len(), whole.len());
    for (merged, whole) in merged.iter().zip(&whole) {
        assert_eq!(merged.1, whole.1, "a frame that is no text was changed or moved");
        assert!(merged.0.keys().eq(whole.0.keys()), "{:?}", merged.0.keys());
        for ((text, merged), whole) in merged.0.iter().zip(whole.0.values()) {
            assert!(without_lines(merged) == without_lines(whole), "{text:?} is another text");
        }
    }
    came.frames
}

fn ag_ui_holds(mode: Mode, dialect: Dialect) {
    let adapter = || AgUi::new("ses_0", RunIds::new("thread", "run")).mode(mode);
    let frames = holds(adapter, Keeps::Bytes(0), seen::ag_ui);
    let mut reader = Reader::new(dialect);
    for frame in frames {
        reader.line(&frame.to_string()).unwrap();
    }
    reader.finish().unwrap();
}

/// Shows nothing.
struct Nothing;

impl Adapter for Nothing {
    type Frame<'a> = ();

    fn event(&mut self, _: &Event, _: &mut dyn for<'a> FnMut(())) {}

    fn finish(&mut self, _: &mut dyn for<'a> FnMut(())) {}
}

#[test]
fn what_is_held_back_is_counted_as_memory_whatever_the_pieces_are() {
    const MOST: usize = 64 * 1024;
    // Tables that are kept, to be used again.
    const TABLES: usize = 4 * 1024;
    let long = "long".repeat(1_000);
    let piece = |id: usize, block: String, text: &str, metadata: Metadata| {
        let delta = TextBlockDelta::new("reply", block, text);
        Event::new(EventId::new(format!("{id}")), Timestamp::from_unix(0, 0), Scope::Root, metadata, delta)
    };
    // Pieces by their numbers.
    let shapes: [(&str, &dyn Fn(usize) -> Event); 5] = [
        ("one block", &|id| piece(id, "b".to_owned(), "a few words ", Metadata::default())),
        ("a thousand blocks", &|id| piece(id, format!("{}", id % 1_000), "a", Metadata::default())),
        ("blocks without end", &|id| piece(id, format!("{id}"), "", Metadata::default())),
        ("long ids", &|id| piece(id, format!("{long}{id}"), "a", Metadata::default())),
        ("metadata", &|id| piece(id, format!("{id}"), "a", Metadata::default().with("key", &*long))),
    ];
    for (name, shape) in shapes {
        let (mut stage, mut count) = (None, Count::default());
        count.take(measure(|| stage = Some(Coalesce::new(Nothing).bytes(MOST))));
        let mut stage = stage.unwrap();
        for id in 0..20_000 {
            // The piece is the caller's: what of it is kept is what counts.
            count.take(measure(|| {
                let event = shape(id);
                stage.event(&event, &mut |()| {});
            }));
            count.look();
        }
        assert!(count.kept <= MOST + TABLES, "{name}: {}", count.kept);
        // And it is not that little is held back because much is counted; metadata is, as if somebody looked into it.
        assert!(count.kept >= MOST / 3, "{name}: {}", count.kept);
    }
}

#[test]
fn a_million_pieces_as_ag_ui() {
    ag_ui_holds(Mode::Attributed, Dialect::Attributed);
}

#[test]
fn a_million_pieces_as_ag_ui_without_announcements() {
    ag_ui_holds(Mode::AttributionOnly, Dialect::AttributionOnly);
}

#[test]
fn a_million_pieces_as_ag_ui_without_names() {
    ag_ui_holds(Mode::Inline, Dialect::Inline);
}

#[test]
fn a_million_pieces_as_lines() {
    // Of each of three, a line that was begun, with the one before it; and one that is being put together.
    let lines = 7 * 8 * 1024;
    holds(|| Text::new().thinking(true), Keeps::Bytes(lines), seen::lines);
}

#[test]
fn a_million_pieces_as_tool_calls() {
    holds(ToolCalls::new, Keeps::Open { parts: 10 }, seen::tool_calls);
}

#[cfg(feature = "acp")]
#[test]
fn a_million_pieces_as_cards_of_the_agent_client_protocol() {
    holds(|| Acp::cards("ses_0"), Keeps::Open { parts: 1 }, seen::acp);
}

#[cfg(feature = "acp")]
#[test]
fn a_million_pieces_as_sessions_of_the_agent_client_protocol() {
    holds(|| Acp::sessions("ses_0"), Keeps::Bytes(0), seen::acp);
}
