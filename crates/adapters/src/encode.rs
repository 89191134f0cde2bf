//! Bytes from adapters, with the framing as a type.
//!
//! ```
//! # use anabranch_proto::{Event, EventId, Metadata, Scope, Timestamp, event::TextBlockDelta};
//! use anabranch_adapters::{Encode, encode::{NativeLines, Sse}, text::Text};
//!
//! # let event = Event::new(
//! #     EventId::new("1"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(),
//! #     TextBlockDelta::new("reply", "block", "hello"),
//! # );
//! let mut encoders: Vec<Box<dyn Encode>> = vec![Box::new(Sse::new(Text::new())), Box::new(NativeLines)];
//! let mut bytes = Vec::new();
//! for encoder in &mut encoders {
//!     encoder.event(Some(7), &event, &mut bytes)?;
//! }
//! let text = String::from_utf8(bytes)?;
//! assert!(text.starts_with("data: {\"type\":\"agent_message_chunk\",\"text\":\"hello\"}\nid: 7\n\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use anabranch_proto::{Event, Timestamp, native};
use serde::Serialize;

use crate::{Adapter, EncodeError, json};

/// Appends the frames of events to a buffer.
///
/// Object-safe, so that a session can hold the encoders of many readers. Each call either appends all that follows
/// from it, or fails and leaves the buffer as it was.
pub trait Encode: Send {
    /// Appends the frames of an event; `seq` is the event's number, where the stream has numbers.
    ///
    /// # Errors
    /// When a frame has no spelling.
    fn event(&mut self, seq: Option<u64>, event: &Event, out: &mut Vec<u8>) -> Result<(), EncodeError>;

    /// Appends what the adapter held back until `now`.
    ///
    /// # Errors
    /// When a frame has no spelling.
    fn tick(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Result<(), EncodeError>;

    /// Appends what is still held back. Called once, when no event will follow.
    ///
    /// # Errors
    /// When a frame has no spelling.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError>;
}

impl<E: Encode + ?Sized> Encode for Box<E> {
    fn event(&mut self, seq: Option<u64>, event: &Event, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        (**self).event(seq, event, out)
    }

    fn tick(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        (**self).tick(now, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        (**self).finish(out)
    }
}

/// Implements [`Encode`] for a framing that has `adapter` and a `write(out, run)`.
macro_rules! encode_by_writing {
    ($framing:ident $(where $($bound:tt)+)?) => {
        impl<A: Adapter + Send> Encode for $framing<A> $(where $($bound)+)? {
            fn event(
                &mut self,
                seq: Option<u64>,
                event: &Event,
                out: &mut Vec<u8>,
            ) -> Result<(), EncodeError> {
                self.write(seq, out, |adapter, sink| adapter.event(event, sink))
            }

            fn tick(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Result<(), EncodeError> {
                self.write(None, out, |adapter, sink| adapter.tick(now, sink))
            }

            fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
                self.write(None, out, |adapter, sink| adapter.finish(sink))
            }
        }
    };
}

/// Where an adapter puts its frames.
type Sink<'s, A> = dyn for<'a> FnMut(<A as Adapter>::Frame<'a>) + 's;

/// Each frame is one line of JSON.
#[derive(Clone, Debug, Default)]
pub struct JsonLines<A> {
    adapter: A,
}

impl<A> JsonLines<A> {
    /// The frames of `adapter`, a line each.
    pub fn new(adapter: A) -> Self {
        Self { adapter }
    }

    /// The adapter, for what its protocol is told between events.
    pub fn adapter_mut(&mut self) -> &mut A {
        &mut self.adapter
    }
}

impl<A: Adapter> JsonLines<A> {
    fn write(
        &mut self,
        _seq: Option<u64>,
        out: &mut Vec<u8>,
        run: impl FnOnce(&mut A, &mut Sink<'_, A>),
    ) -> Result<(), EncodeError> {
        let mut lines = Appender::new(out);
        run(&mut self.adapter, &mut |frame| lines.json("", &frame, "\n"));
        lines.done()
    }
}

encode_by_writing!(JsonLines);

/// Each frame is a server-sent event whose `data` is one line of JSON.
///
/// An event's number becomes an `id` line on the *last* of its frames: a client that reconnects after a part of them
/// asks for the event again and misses nothing. An event without frames writes nothing, so the cursor a client has
/// may be lower than the last event's number.
#[derive(Clone, Debug, Default)]
pub struct Sse<A> {
    adapter: A,
}

impl<A> Sse<A> {
    /// The frames of `adapter`, a server-sent event each.
    pub fn new(adapter: A) -> Self {
        Self { adapter }
    }

    /// The adapter, for what its protocol is told between events.
    pub fn adapter_mut(&mut self) -> &mut A {
        &mut self.adapter
    }
}

impl<A: Adapter> Sse<A> {
    fn write(
        &mut self,
        seq: Option<u64>,
        out: &mut Vec<u8>,
        run: impl FnOnce(&mut A, &mut Sink<'_, A>),
    ) -> Result<(), EncodeError> {
        let mut lines = Appender::new(out);
        // The blank line that ends a frame is written when it is known whether the frame is the last.
        run(&mut self.adapter, &mut |frame| {
            let before = if lines.is_empty() { "data: " } else { "\ndata: " };
            lines.json(before, &frame, "\n");
        });
        if !lines.is_empty() {
            if let Some(seq) = seq {
                lines.id(seq);
            }
            lines.text("\n");
        }
        lines.done()
    }
}

encode_by_writing!(Sse);

/// The text of each frame and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Plain<A> {
    adapter: A,
}

impl<A> Plain<A> {
    /// The texts of the frames of `adapter`, one after another.
    pub fn new(adapter: A) -> Self {
        Self { adapter }
    }
}

/// A frame that is text, for [`Plain`].
pub trait PlainFrame {
    /// The text, written as it is.
    fn text(&self) -> &str;
}

impl<A: Adapter> Plain<A>
where
    for<'a> A::Frame<'a>: PlainFrame,
{
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the other framings can fail, and one macro implements the trait for all"
    )]
    fn write(
        &mut self,
        _seq: Option<u64>,
        out: &mut Vec<u8>,
        run: impl FnOnce(&mut A, &mut Sink<'_, A>),
    ) -> Result<(), EncodeError> {
        run(&mut self.adapter, &mut |frame| {
            out.extend_from_slice(frame.text().as_bytes());
        });
        Ok(())
    }
}

encode_by_writing!(Plain where for<'a> A::Frame<'a>: PlainFrame);

/// Each event is one line in the native spelling, with its number; no adapter is between.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the native spelling has no options")]
pub struct NativeLines;

impl Encode for NativeLines {
    fn event(&mut self, seq: Option<u64>, event: &Event, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        native::write(seq, event, out).inspect_err(|_| out.truncate(start))?;
        out.push(b'\n');
        Ok(())
    }

    fn tick(&mut self, _now: Timestamp, _out: &mut Vec<u8>) -> Result<(), EncodeError> {
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), EncodeError> {
        Ok(())
    }
}

/// Appends until something fails, and then leaves the buffer as it was.
struct Appender<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    error: Option<serde_json::Error>,
}

impl<'o> Appender<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, error: None }
    }

    fn is_empty(&self) -> bool {
        self.out.len() == self.start
    }

    /// The line that numbers an event.
    fn id(&mut self, seq: u64) {
        if self.error.is_none() {
            self.out.extend_from_slice(b"id: ");
            self.error = json::write(self.out, &seq).err();
            self.out.push(b'\n');
        }
    }

    fn text(&mut self, text: &str) {
        if self.error.is_none() {
            self.out.extend_from_slice(text.as_bytes());
        }
    }

    fn json(&mut self, before: &str, frame: &impl Serialize, after: &str) {
        self.text(before);
        if self.error.is_none() {
            self.error = json::write(self.out, frame).err();
        }
        self.text(after);
    }

    fn done(self) -> Result<(), EncodeError> {
        match self.error {
            None => Ok(()),
            Some(error) => {
                self.out.truncate(self.start);
                Err(error.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use anabranch_proto::{EventId, Metadata, Scope, event::TextBlockDelta};
    use static_assertions::assert_obj_safe;

    use super::*;

    assert_obj_safe!(Encode);

    fn event(text: &str) -> Event {
        Event::new(
            EventId::new("1"),
            Timestamp::from_unix(0, 0),
            Scope::Root,
            Metadata::default(),
            TextBlockDelta::new("r", "b", text),
        )
    }

    /// A frame per word; `!` is a frame that has no spelling.
    #[derive(Default)]
    struct Words;

    #[derive(Serialize)]
    #[serde(untagged)]
    enum Word<'a> {
        Word(&'a str),
        Bad(HashMap<(u8, u8), u8>),
    }

    impl PlainFrame for Word<'_> {
        fn text(&self) -> &str {
            match self {
                Self::Word(word) => word,
                Self::Bad(_) => "!",
            }
        }
    }

    impl Adapter for Words {
        type Frame<'a> = Word<'a>;

        fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(Word<'a>)) {
            let anabranch_proto::EventKind::TextBlockDelta(delta) = &event.kind else {
                return;
            };
            for word in delta.delta.split_whitespace() {
                out(match word {
                    "!" => Word::Bad(HashMap::from([((1, 2), 3)])),
                    word => Word::Word(word),
                });
            }
        }

        fn finish(&mut self, out: &mut dyn for<'a> FnMut(Word<'a>)) {
            out(Word::Word("end"));
        }
    }

    fn encoded(mut encoder: impl Encode, text: &str) -> String {
        let mut out = Vec::new();
        encoder.event(Some(7), &event(text), &mut out).unwrap();
        encoder.tick(Timestamp::from_unix(1, 0), &mut out).unwrap();
        encoder.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_lines_are_a_line_per_frame() {
        assert_eq!(encoded(JsonLines::new(Words), "a b"), "\"a\"\n\"b\"\n\"end\"\n");
    }

    #[test]
    fn only_the_last_frame_of_an_event_has_its_number() {
        assert_eq!(encoded(Sse::new(Words), "a b"), "data: \"a\"\n\ndata: \"b\"\nid: 7\n\ndata: \"end\"\n\n");
    }

    #[test]
    fn an_event_without_frames_writes_nothing() {
        let mut out = Vec::new();
        Sse::new(Words).event(Some(7), &event(""), &mut out).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn plain_is_the_text_alone() {
        assert_eq!(encoded(Plain::new(Words), "a b"), "abend");
    }

    #[test]
    fn a_frame_that_fails_leaves_the_buffer_as_it_was() {
        for encoder in [&mut JsonLines::new(Words) as &mut dyn Encode, &mut Sse::new(Words)] {
            let mut out = b"before".to_vec();
            let error = encoder.event(Some(1), &event("a ! b"), &mut out).unwrap_err();
            assert_eq!(error.to_string(), "a frame has no JSON spelling");
            assert_eq!(out, b"before");
            encoder.event(None, &event("c"), &mut out).unwrap();
            assert!(out.len() > "before".len());
        }
    }

    #[test]
    fn native_lines_keep_the_number() {
        let line = encoded(NativeLines, "a");
        assert!(line.starts_with(r#"{"seq":7,"#) && line.ends_with("}\n"), "{line}");
    }
}
