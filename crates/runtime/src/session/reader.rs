//! Readers: cursors on a session's log.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use anabranch_proto::Admitted;
use anabranch_session::Batch;
use futures::{Stream, future::BoxFuture, stream::FusedStream};

use super::{handle::Core, window::Window};
use crate::SessionError;

/// How many events are read from the log at once.
const BATCH: usize = 256;

/// What a reader reads.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "either an event is there or it is not")]
pub enum Read {
    /// An event.
    Event(Admitted),
    /// The log was told to forget these; reading goes on after them.
    Gap {
        /// The first number that is missing.
        from: u64,
        /// The last number that is missing.
        to: u64,
    },
}

/// Stream of a session's events, from the log and then live, without a seam. Ends when the session has ended.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the reader changes nothing for the session.
#[must_use = "streams do nothing unless polled"]
pub struct Reader {
    core: Arc<Core>,
    after: u64,
    batch: VecDeque<Admitted>,
    next: Option<BoxFuture<'static, Result<Option<Batch>, SessionError>>>,
    /// What holds producers back.
    window: Option<Arc<Window>>,
    is_ended: bool,
    error: Option<SessionError>,
}

impl Reader {
    pub(super) fn new(core: &Arc<Core>, after: u64) -> Self {
        Self {
            core: Arc::clone(core),
            after,
            batch: VecDeque::new(),
            next: None,
            window: None,
            is_ended: false,
            error: None,
        }
    }

    pub(super) fn lossless(core: &Arc<Core>, after: u64) -> Self {
        let window = Window::new(core.limits.reader_window);
        window.consume(after);
        core.hold_for(&window);
        Self::new(core, after).with_window(window)
    }

    pub(super) fn with_window(mut self, window: Arc<Window>) -> Self {
        self.window = Some(window);
        self
    }

    /// The number of the last event read.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.after
    }

    /// Why the reader ended, where the session did not end in order: what was not read is lost to it.
    #[must_use]
    pub fn error(&self) -> Option<&SessionError> {
        self.error.as_ref()
    }

    fn advance(&mut self, to: u64) {
        self.after = to;
        if let Some(window) = &self.window {
            window.consume(to);
        }
    }

    /// The events that are at hand: at least one, unless the session has ended.
    pub(super) fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        loop {
            if let Some(admitted) = self.batch.pop_front() {
                self.advance(admitted.seq);
                return Poll::Ready(Some(Read::Event(admitted)));
            }
            if self.is_ended {
                return Poll::Ready(None);
            }
            let next = self.next.get_or_insert_with(|| Box::pin(next(Arc::clone(&self.core), self.after)));
            let batch = std::task::ready!(next.as_mut().poll(cx));
            self.next = None;
            match batch {
                Ok(Some(Batch::Events(events))) => self.batch = events.into(),
                Ok(Some(Batch::Gap { from, to })) => {
                    self.advance(to);
                    return Poll::Ready(Some(Read::Gap { from, to }));
                }
                Ok(None) => self.is_ended = true,
                Err(error) => {
                    self.is_ended = true;
                    self.error = Some(error);
                }
            }
        }
    }

    /// Whether an event is at hand without a look at the log.
    pub(super) fn has_more_at_hand(&self) -> bool {
        !self.batch.is_empty()
    }
}

/// What comes after a number, once there is something; nothing when the session has ended in order.
async fn next(core: Arc<Core>, after: u64) -> Result<Option<Batch>, SessionError> {
    let mut appended = core.log.appended();
    loop {
        // In this order: what was appended before the end is read before the end is believed.
        let has_ended = core.ended.is_cancelled();
        appended.mark_unchanged();
        match core.log.read(after, BATCH).await {
            Ok(Batch::Events(events)) if events.is_empty() => {
                // A log may hold the last events back until a crash cannot lose them.
                if has_ended && after >= core.last.load(Ordering::Acquire) {
                    return match core.ending.get() {
                        Some(Err(error)) => Err(error.clone()),
                        Some(Ok(())) | None => Ok(None),
                    };
                }
                tokio::select! {
                    changed = appended.changed() => changed.map_err(|_| SessionError::Aborted)?,
                    () = core.ended.cancelled(), if !has_ended => {}
                }
            }
            Ok(batch) => return Ok(Some(batch)),
            Err(error) => return Err(SessionError::LogUnreadable(Arc::new(error))),
        }
    }
}

impl Stream for Reader {
    type Item = Read;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        self.poll_batch(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.batch.len(), self.is_terminated().then_some(0))
    }
}

impl FusedStream for Reader {
    fn is_terminated(&self) -> bool {
        self.is_ended && self.batch.is_empty()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(window) = &self.window {
            window.open();
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("after", &self.after)
            .field("is_ended", &self.is_ended)
            .finish_non_exhaustive()
    }
}
