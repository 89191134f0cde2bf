//! A session's events as the body of a response.

use std::{mem, sync::Arc, time::Duration};

use anabranch_adapters::EncodeError;
use anabranch_runtime::{Read, Reader};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::{
    frames::{Frames, is_prompt},
    notice::{EndReason, Notice, ResyncReason},
    seats::Seat,
};
use crate::api::entry::Entry;

/// How many bytes are gathered before they are sent.
const CHUNK: usize = 16 * 1024;

/// How many events that give nothing are taken before others have their turn.
const SILENT_EVENTS: usize = 1024;

/// What is sent after a long silence: a comment, which clients leave out.
const COMMENT: &[u8] = b": still here\n\n";

/// A session's events as server-sent events. Holds nobody back: who is slow reads from the log, and what the log has
/// forgotten by then is a gap.
#[derive(Debug)]
pub(super) struct Feed {
    entry: Arc<Entry>,
    reader: Reader,
    frames: Frames,
    /// The number of the last event that the client has had.
    had: u64,
    /// What was forgotten of what the client has had, and is needed: the beginning of a run.
    is_cut: bool,
    /// The number of the last event that is wanted, where not all that come are.
    until: Option<u64>,
    keep_alive: Duration,
    stopping: CancellationToken,
    /// What was not sent yet.
    first: Vec<u8>,
    is_over: bool,
    _seat: Seat,
}

/// What a client wants.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Behind which event.
    pub(super) after: u64,
    /// Where the client's cursor was of no use: why.
    pub(super) resync: Option<ResyncReason>,
    /// Whether events that are still to come are wanted.
    pub(super) follow: bool,
}

impl Feed {
    pub(super) fn new(
        entry: Arc<Entry>,
        frames: Frames,
        wanted: &Wanted,
        keep_alive: Duration,
        stopping: CancellationToken,
        seat: Seat,
    ) -> Self {
        let start = if frames.has_history() { 0 } else { wanted.after };
        let mut first = Vec::new();
        if let Some(reason) = wanted.resync {
            resync(&entry, reason, &mut first);
        }
        Self {
            reader: entry.session.subscribe(start),
            frames,
            had: wanted.after,
            is_cut: false,
            until: (!wanted.follow).then(|| entry.last()),
            keep_alive,
            stopping,
            first,
            is_over: false,
            _seat: seat,
            entry,
        }
    }

    /// The events as the bytes of a response.
    pub(super) fn into_stream(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(Some(self), |feed| async move {
            let mut feed = feed?;
            let bytes = feed.next().await;
            Some((bytes, (!feed.is_over).then_some(feed)))
        })
    }

    /// The next bytes: those of the events at hand.
    async fn next(&mut self) -> Bytes {
        let mut out = mem::take(&mut self.first);
        while !self.gather(&mut out).await {
            // Nothing was to be sent so far; others have their turn.
            tokio::task::yield_now().await;
        }
        out.into()
    }

    /// Takes events until there is something to send, or many gave nothing. Gives whether there is.
    async fn gather(&mut self, out: &mut Vec<u8>) -> bool {
        for _ in 0..SILENT_EVENTS {
            let is_enough = out.len() >= CHUNK || (!out.is_empty() && self.reader.size_hint().0 == 0);
            if self.is_over || is_enough {
                return true;
            }
            if self.until.is_some_and(|until| self.reader.cursor() >= until) {
                self.end(EndReason::CaughtUp, out);
                return true;
            }
            let taken = match tokio::time::timeout(self.keep_alive, self.reader.next()).await {
                Ok(Some(read)) => self.take(&read, out),
                Ok(None) => {
                    self.end(self.why_ended(), out);
                    Ok(())
                }
                Err(_) => {
                    out.extend_from_slice(COMMENT);
                    Ok(())
                }
            };
            if let Err(error) = taken {
                tracing::error!(session = %self.entry.session.id(), %error, "an event could not be encoded");
                self.end(EndReason::Failed, out);
            }
        }
        !out.is_empty()
    }

    fn take(&mut self, read: &Read, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match read {
            Read::Event(admitted) => {
                // From the root's prompt on all that the spelling needs is known again.
                self.is_cut &= !is_prompt(&admitted.event);
                if admitted.seq <= self.had {
                    self.frames.known(admitted)
                } else if self.is_cut {
                    self.begin_anew(out);
                    Ok(())
                } else {
                    self.frames.event(admitted, out)
                }
            }
            Read::Gap { to, .. } if *to <= self.had => {
                self.frames.begin_anew(*to);
                self.is_cut = true;
                Ok(())
            }
            Read::Gap { from, to } => {
                self.is_cut = false;
                self.frames.gap((*from).max(self.had.saturating_add(1)), *to, out)
            }
        }
    }

    /// What the client has had does not tell how to go on: it is told so, and begins with what there is.
    fn begin_anew(&mut self, out: &mut Vec<u8>) {
        resync(&self.entry, ResyncReason::Expired, out);
        self.frames.begin_anew(0);
        self.reader = self.entry.session.subscribe(0);
        self.had = 0;
        self.is_cut = false;
    }

    fn end(&mut self, reason: EndReason, out: &mut Vec<u8>) {
        if reason != EndReason::CaughtUp
            && let Err(error) = self.frames.finish(out)
        {
            tracing::error!(%error, "the end of a stream could not be encoded");
        }
        Notice::End { reason }.write(None, out);
        self.is_over = true;
    }

    fn why_ended(&self) -> EndReason {
        match self.reader.error() {
            Some(error) => {
                tracing::warn!(session = %self.entry.session.id(), %error, "a reader lost its session");
                EndReason::Failed
            }
            None if self.stopping.is_cancelled() => EndReason::Stopping,
            None => EndReason::Ended,
        }
    }
}

/// Says that the client's cursor is of no use. Who resumes behind that is at the beginning.
fn resync(entry: &Entry, reason: ResyncReason, out: &mut Vec<u8>) {
    let start = entry.at(0);
    Notice::Resync { reason, cursor: start.to_string() }.write(Some(&start), out);
}
