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

use std::collections::HashMap;

use anabranch_proto::{BlockId, Event, EventKind, ReplyId, SessionId, Timestamp};

use crate::Adapter;

/// How many bytes are held back by default.
const BYTES: usize = 16 * 1024;
/// How long a piece is held back by default, in milliseconds.
const WINDOW: i64 = 50;
/// What a piece costs beyond its text, about.
const OVERHEAD: usize = 128;

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
/// Held back are at most the configured bytes, and at most the configured time where somebody calls
/// [`tick`](Adapter::tick); who never does, waits for the next event that is no piece, or for enough bytes.
#[derive(Clone, Debug)]
pub struct Coalesce<A> {
    adapter: A,
    most: usize,
    window: i64,
    held: Vec<Event>,
    /// Where each block's piece lies in `held`.
    places: HashMap<Block, usize>,
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
            places: HashMap::new(),
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
        (self.bytes, self.age) = (0, Age::New);
    }

    fn hold(&mut self, block: Block, event: &Event, text: &str, out: &mut Out<'_, A>) {
        if let Some(held) = self.places.get(&block).and_then(|at| self.held.get_mut(*at)) {
            if held.metadata == event.metadata {
                if let EventKind::TextBlockDelta(held) = &mut held.kind {
                    held.delta.push_str(text);
                } else if let EventKind::ThinkingBlockDelta(held) = &mut held.kind {
                    held.delta.push_str(text);
                }
                self.bytes = self.bytes.saturating_add(text.len());
                return;
            }
            self.flush(out);
        }
        self.places.insert(block, self.held.len());
        self.held.push(event.clone());
        self.bytes = self.bytes.saturating_add(text.len()).saturating_add(OVERHEAD);
    }
}

impl<A: Adapter> Adapter for Coalesce<A> {
    type Frame<'a> = A::Frame<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(A::Frame<'a>)) {
        let Some((block, text)) = piece(event) else {
            self.flush(out);
            return self.adapter.event(event, out);
        };
        // What does not fit any more lets through what was before it.
        if self.bytes.saturating_add(text.len()).saturating_add(OVERHEAD) > self.most {
            self.flush(out);
            if text.len().saturating_add(OVERHEAD) > self.most {
                return self.adapter.event(event, out);
            }
        }
        self.hold(block, event, text, out);
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
