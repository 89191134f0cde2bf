//! A session's events as frames of a protocol.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use anabranch_adapters::{Adapter, Encode};
use bytes::Bytes;
use futures::{Stream, stream::FusedStream};

use super::{Read, Reader};

/// How many bytes are gathered before they are given on. Larger frames go alone.
const CHUNK: usize = 16 * 1024;

/// Stream of a session's events as the bytes of a protocol, a chunk for what is at hand.
///
/// A gap in the log ends the stream: what lies after it would not follow from what lies before. The protocol's own
/// terminal is missing then, which its client sees.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream changes nothing for the session.
#[must_use = "streams do nothing unless polled"]
pub struct Attached {
    reader: Reader,
    encode: Option<Box<dyn Encode>>,
}

impl Attached {
    pub(super) fn new(reader: Reader, encode: Box<dyn Encode>) -> Self {
        Self { reader, encode: Some(encode) }
    }

    /// The number of the last event whose bytes were given.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.reader.cursor()
    }
}

impl Stream for Attached {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let mut out = Vec::new();
        while let Some(encode) = &mut this.encode {
            let read = match this.reader.poll_batch(cx) {
                Poll::Ready(read) => read,
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            };
            let encoded = match read {
                Some(Read::Event(admitted)) => encode.event(Some(admitted.seq), &admitted.event, &mut out),
                Some(Read::Gap { from, to }) => {
                    tracing::warn!(from, to, "the log was told to forget events that a reader had not read");
                    this.encode = None;
                    break;
                }
                None => {
                    let finished = encode.finish(&mut out);
                    this.encode = None;
                    finished
                }
            };
            if let Err(error) = encoded {
                tracing::error!(%error, "an event could not be encoded");
                this.encode = None;
            }
            if out.len() >= CHUNK || (!out.is_empty() && !this.reader.has_more_at_hand()) {
                break;
            }
        }
        Poll::Ready((!out.is_empty()).then(|| out.into()))
    }
}

impl FusedStream for Attached {
    fn is_terminated(&self) -> bool {
        self.encode.is_none()
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("reader", &self.reader).finish_non_exhaustive()
    }
}

/// Stream of what a closure makes of an adapter's frames.
///
/// A gap in the log ends the stream, as that of [`Attached`].
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream changes nothing for the session.
#[must_use = "streams do nothing unless polled"]
pub struct AttachedWith<A, F, T> {
    reader: Reader,
    adapter: A,
    make: F,
    ready: VecDeque<T>,
    is_ended: bool,
}

impl<A, F, T> AttachedWith<A, F, T> {
    pub(super) fn new(reader: Reader, adapter: A, make: F) -> Self {
        Self { reader, adapter, make, ready: VecDeque::new(), is_ended: false }
    }
}

impl<A, F, T> Stream for AttachedWith<A, F, T>
where
    A: Adapter + Unpin,
    F: for<'a> FnMut(A::Frame<'a>) -> T + Unpin,
    T: Unpin,
{
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Self { reader, adapter, make, ready, is_ended } = &mut *self;
        loop {
            if let Some(item) = ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            if *is_ended {
                return Poll::Ready(None);
            }
            match std::task::ready!(reader.poll_batch(cx)) {
                Some(Read::Event(admitted)) => {
                    adapter.event(&admitted.event, &mut |frame| ready.push_back(make(frame)));
                }
                Some(Read::Gap { from, to }) => {
                    tracing::warn!(from, to, "the log was told to forget events that a reader had not read");
                    *is_ended = true;
                }
                None => {
                    adapter.finish(&mut |frame| ready.push_back(make(frame)));
                    *is_ended = true;
                }
            }
        }
    }
}

impl<A, F, T> FusedStream for AttachedWith<A, F, T>
where
    A: Adapter + Unpin,
    F: for<'a> FnMut(A::Frame<'a>) -> T + Unpin,
    T: Unpin,
{
    fn is_terminated(&self) -> bool {
        self.is_ended && self.ready.is_empty()
    }
}

impl<A, F, T> fmt::Debug for AttachedWith<A, F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedWith").field("reader", &self.reader).finish_non_exhaustive()
    }
}
