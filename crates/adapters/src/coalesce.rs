//! Fewer and longer pieces of text, before any adapter.
//!
//! ```
//! use anabranch_adapters::{Encode, coalesce::Coalesce, encode::JsonLines, text::Text};
//! # use anabranch_proto::{Event, EventId, Metadata, Scope, Timestamp, event::TextBlockDelta};
//! # let delta = |text: &str| Event::new(
//! #     EventId::new("1"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(),
//! #     TextBlockDelta::new("reply", "block", text),
//! # );
//!
//! let mut encoder = JsonLines::new(Coalesce::new(Text::new()));
//! let mut out = Vec::new();
//! encoder.event(None, &delta("hel"), &mut out)?;
//! encoder.event(None, &delta("lo"), &mut out)?;
//! assert!(out.is_empty());
//! encoder.finish(&mut out)?;
//! assert_eq!(String::from_utf8(out)?, "{\"type\":\"agent_message_chunk\",\"text\":\"hello\"}\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use anabranch_proto::{BlockId, Event, EventKind, ReplyId, SessionId, Timestamp};
use foldhash::HashMap;

use crate::Adapter;

/// How many bytes are held back by default.
const BYTES: usize = 16 * 1024;
/// How long a piece is held back by default, in milliseconds.
const WINDOW: i64 = 50;
/// What a piece that is held back costs beyond itself: its place, and the room that tables leave when they grow.
const PLACE: usize = 3 * size_of::<(Block, usize)>();
/// By how many bytes a text grows at least.
const LEAST: usize = 64;
/// How many places are kept when nothing is held back.
const KEPT: usize = 8;

/// Where an adapter puts its frames.
type Out<'o, A> = dyn for<'a> FnMut(<A as Adapter>::Frame<'a>) + 'o;

/// Merges pieces of text and thinking before they reach an adapter.
///
/// Pieces are merged within one block of one reply of one run, text with text and thinking with thinking, and only
/// where they have the same metadata. Every other event, whoever's it is, first lets through what is held back, in the
/// order in which it began, so nothing overtakes an event and no event is moved: only pieces of different blocks that
/// follow each other without anything between them may change places. What is let through has the id and the time of
/// its first piece.
///
/// Held back are at most the configured bytes, counted as memory: texts with the room that they have to grow, the pieces
/// around them, their ids and metadata. And at most the configured time where somebody calls [`tick`](Adapter::tick); who
/// never does, waits for the next event that is no piece, or for enough bytes.
#[derive(Clone, Debug)]
pub struct Coalesce<A> {
    adapter: A,
    most: usize,
    window: i64,
    held: Vec<Event>,
    /// Where each block's piece lies in `held`.
    places: HashMap<Block, usize>,
    /// About how much memory `held` and `places` take, never less.
    bytes: usize,
    age: Age,
}

/// How long something is held back already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// Nobody has said what time it is since it came.
    New,
    /// Since this time at the latest, in milliseconds.
    Since(i64),
}

/// Whose piece it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Block {
    /// The session and its run; none for the root.
    run: Option<(SessionId, u32)>,
    reply: ReplyId,
    id: BlockId,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Text,
    Thinking,
}

impl<A> Coalesce<A> {
    /// Merges pieces for `adapter`, within 16 KiB and 50 ms.
    pub fn new(adapter: A) -> Self {
        Self {
            adapter,
            most: BYTES,
            window: WINDOW,
            held: Vec::new(),
            places: HashMap::default(),
            bytes: 0,
            age: Age::New,
        }
    }

    /// How many bytes are held back at most; one piece that is longer passes whole.
    #[must_use]
    pub fn bytes(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// What comes after it, for what its protocol is told between events. What is held back has not reached it.
    pub fn inner_mut(&mut self) -> &mut A {
        &mut self.adapter
    }

    /// How many milliseconds a piece is held back at most, as far as `tick` is called.
    #[must_use]
    pub fn window(mut self, milliseconds: u32) -> Self {
        self.window = milliseconds.into();
        self
    }
}

impl<A: Adapter> Coalesce<A> {
    fn flush(&mut self, out: &mut Out<'_, A>) {
        for event in self.held.drain(..) {
            self.adapter.event(&event, out);
        }
        self.places.clear();
        self.held.shrink_to(KEPT);
        self.places.shrink_to(KEPT);
        (self.bytes, self.age) = (0, Age::New);
    }

    /// Merges a piece with what is held back of its block, where there is such and room. Whether there was.
    fn merge(&mut self, block: &Block, event: &Event, text: &str) -> bool {
        let room = self.most.saturating_sub(self.bytes);
        let Some(held) = self.places.get(block).and_then(|at| self.held.get_mut(*at)) else {
            return false;
        };
        if held.metadata != event.metadata || held.extra != event.extra {
            return false;
        }
        let all = if let EventKind::TextBlockDelta(held) = &mut held.kind {
            &mut held.delta
        } else if let EventKind::ThinkingBlockDelta(held) = &mut held.kind {
            &mut held.delta
        } else {
            return false;
        };
        let Some(taken) = append(all, text, room) else { return false };
        self.bytes = self.bytes.saturating_add(taken);
        true
    }

    /// Holds back a piece that cannot be merged, where there is room for it; what was before it is let through where there
    /// is not.
    fn hold(&mut self, block: Block, event: &Event, out: &mut Out<'_, A>) {
        let fits = self.bytes.saturating_add(self.weigh(&block, event)) <= self.most;
        if !fits || self.places.contains_key(&block) {
            self.flush(out);
        }
        let bytes = self.weigh(&block, event);
        if bytes > self.most {
            return self.adapter.event(event, out);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.places.insert(block, self.held.len());
        self.held.push(event.clone());
    }

    /// How many bytes holding back a piece takes.
    fn weigh(&self, block: &Block, event: &Event) -> usize {
        let session = block.run.as_ref().map_or(0, |(session, _)| session.as_str().len());
        let ids = [session, block.reply.as_str().len(), block.id.as_str().len(), PLACE];
        let is_shared = self.held.last().is_some_and(|last| last.metadata.shares_with(&event.metadata));
        let metadata = if is_shared { 0 } else { event.metadata.approximate_bytes() };
        ids.iter().fold(event.approximate_own_bytes().saturating_add(metadata), |all, more| {
            all.saturating_add(*more)
        })
    }
}

impl<A: Adapter> Adapter for Coalesce<A> {
    type Frame<'a> = A::Frame<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(A::Frame<'a>)) {
        let Some((block, text)) = piece(event) else {
            self.flush(out);
            return self.adapter.event(event, out);
        };
        if !self.merge(&block, event, text) {
            self.hold(block, event, out);
        }
    }

    fn tick(&mut self, now: Timestamp, out: &mut dyn for<'a> FnMut(A::Frame<'a>)) {
        let at = now.unix_millis();
        if !self.held.is_empty() {
            match self.age {
                Age::New => self.age = Age::Since(at),
                // A clock that goes back has no say in how long something waits.
                Age::Since(since) if (0..self.window).contains(&at.saturating_sub(since)) => {}
                Age::Since(_) => self.flush(out),
            }
        }
        self.adapter.tick(now, out);
    }

    fn finish(&mut self, out: &mut dyn for<'a> FnMut(A::Frame<'a>)) {
        self.flush(out);
        self.adapter.finish(out);
    }
}

/// The block and the text of an event that is a piece of text or thinking.
fn piece(event: &Event) -> Option<(Block, &str)> {
    let (kind, reply, block, text) = if let EventKind::TextBlockDelta(delta) = &event.kind {
        (Kind::Text, &delta.reply_id, &delta.block_id, &delta.delta)
    } else if let EventKind::ThinkingBlockDelta(delta) = &event.kind {
        (Kind::Thinking, &delta.reply_id, &delta.block_id, &delta.delta)
    } else {
        return None;
    };
    let run = event.scope.child().map(|child| (child.child_session_id.clone(), child.run));
    Some((Block { run, reply: reply.clone(), id: block.clone(), kind }, text))
}

/// Appends to a text, which may take `room` bytes more. How many it took; nothing where it has no room.
///
/// It grows by a quarter, so that little is reserved beside what is used; a byte still costs the same, however long the text
/// gets.
fn append(all: &mut String, more: &str, room: usize) -> Option<usize> {
    let before = all.capacity();
    let needed = all.len().saturating_add(more.len());
    if needed > before {
        let most = before.saturating_add(room);
        let wanted = needed.max(before.saturating_add(LEAST.max(before / 4))).min(most);
        if wanted < needed {
            return None;
        }
        all.reserve_exact(wanted.saturating_sub(all.len()));
    }
    all.push_str(more);
    Some(all.capacity().saturating_sub(before))
}
