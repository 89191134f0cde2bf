//! A session's events as frames of a protocol.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use anabranch_adapters::{Adapter, Encode};
use anabranch_proto::Admitted;
use bytes::Bytes;
use futures::{Stream, stream::FusedStream};

use super::{Read, Reader};

/// How many bytes are gathered before they are given on. Larger frames go alone.
const CHUNK: usize = 16 * 1024;

/// How many events that give nothing are taken in one poll, before whoever else waits has its turn.
const SILENT_EVENTS: usize = 1_024;

/// What a reader's next item is for an encoder or an adapter.
enum Item {
    /// To be shown.
    Shown(Admitted),
    /// It came before the cursor: to be known, not shown.
    Known(Admitted),
    /// The history was forgotten up to somewhere before the cursor.
    Skipped,
    /// The session ended in order.
    Finished,
    /// What follows would not follow from what was shown.
    Broken,
}

/// A reader that begins at the session's beginning and shows what comes after a cursor.
///
/// What stands before the cursor makes an adapter's state: cards that are open, names that were given.
#[derive(Debug)]
struct Resumed {
    reader: Reader,
    after: u64,
}

impl Resumed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Item> {
        Poll::Ready(match std::task::ready!(self.reader.poll_batch(cx)) {
            Some(Read::Event(admitted)) if admitted.seq <= self.after => Item::Known(admitted),
            Some(Read::Event(admitted)) => Item::Shown(admitted),
            Some(Read::Gap { to, .. }) if to <= self.after => Item::Skipped,
            Some(Read::Gap { from, to }) => {
                tracing::warn!(from, to, "the log was told to forget events that a reader had not read");
                Item::Broken
            }
            None if self.reader.error().is_none() => Item::Finished,
            None => Item::Broken,
        })
    }

    fn cursor(&self) -> u64 {
        self.reader.cursor().max(self.after)
    }
}

/// Stream of a session's events as the bytes of a protocol, a chunk for what is at hand.
///
/// Where the log has a gap or cannot be read, and where the session did not end in order, the stream ends without the
/// protocol's own end, which its client sees: what lay after would not follow from what lay before.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream changes nothing for the session.
#[must_use = "streams do nothing unless polled"]
pub struct Attached {
    resumed: Resumed,
    encode: Option<Box<dyn Encode>>,
}

impl Attached {
    /// The reader begins at the beginning.
    pub(super) fn new(reader: Reader, after: u64, encode: Box<dyn Encode>) -> Self {
        Self { resumed: Resumed { reader, after }, encode: Some(encode) }
    }

    /// The number of the last event whose bytes were given.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.resumed.cursor()
    }
}

impl Stream for Attached {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let mut out = Vec::new();
        for _ in 0..SILENT_EVENTS {
            let Some(encode) = &mut this.encode else {
                return Poll::Ready((!out.is_empty()).then(|| out.into()));
            };
            let item = match this.resumed.poll(cx) {
                Poll::Ready(item) => item,
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Some(out.into())),
            };
            let encoded = match item {
                Item::Shown(admitted) => encode.event(Some(admitted.seq), &admitted.event, &mut out),
                Item::Known(admitted) => {
                    let known = encode.event(Some(admitted.seq), &admitted.event, &mut out);
                    out.clear();
                    known
                }
                Item::Skipped => Ok(()),
                Item::Finished => {
                    let finished = encode.finish(&mut out);
                    this.encode = None;
                    finished
                }
                Item::Broken => {
                    this.encode = None;
                    Ok(())
                }
            };
            if let Err(error) = encoded {
                tracing::error!(%error, "an event could not be encoded");
                this.encode = None;
            }
            if out.len() >= CHUNK || (!out.is_empty() && !this.resumed.reader.has_more_at_hand()) {
                return Poll::Ready(Some(out.into()));
            }
        }
        if out.is_empty() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(out.into()))
    }
}

impl FusedStream for Attached {
    fn is_terminated(&self) -> bool {
        self.encode.is_none()
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("resumed", &self.resumed).finish_non_exhaustive()
    }
}

/// Stream of what a closure makes of an adapter's frames.
///
/// Ends as [`Attached`] does.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream changes nothing for the session.
#[must_use = "streams do nothing unless polled"]
pub struct AttachedWith<A, F, T> {
    resumed: Resumed,
    adapter: A,
    make: F,
    ready: VecDeque<T>,
    is_ended: bool,
}

impl<A, F, T> AttachedWith<A, F, T> {
    /// The reader begins at the beginning.
    pub(super) fn new(reader: Reader, after: u64, adapter: A, make: F) -> Self {
        Self { resumed: Resumed { reader, after }, adapter, make, ready: VecDeque::new(), is_ended: false }
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
        let Self { resumed, adapter, make, ready, is_ended } = &mut *self;
        for _ in 0..SILENT_EVENTS {
            if let Some(item) = ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            if *is_ended {
                return Poll::Ready(None);
            }
            match std::task::ready!(resumed.poll(cx)) {
                Item::Shown(admitted) => {
                    adapter.event(&admitted.event, &mut |frame| ready.push_back(make(frame)));
                }
                Item::Known(admitted) => adapter.event(&admitted.event, &mut |_| {}),
                Item::Skipped => {}
                Item::Finished => {
                    adapter.finish(&mut |frame| ready.push_back(make(frame)));
                    *is_ended = true;
                }
                Item::Broken => *is_ended = true,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
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
        f.debug_struct("AttachedWith").field("resumed", &self.resumed).finish_non_exhaustive()
    }
}
