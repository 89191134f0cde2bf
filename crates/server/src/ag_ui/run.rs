//! A run as the body of a response.

use std::{mem, time::Duration};

use anabranch_adapters::ag_ui::RunIds;
use anabranch_runtime::{Read, Reader};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::{talk::State, terminal::Terminal, threads::Lease};

/// How many bytes are gathered before they are sent.
const CHUNK: usize = 16 * 1024;

/// How many events that give nothing are taken before others have their turn.
const SILENT_EVENTS: usize = 1024;

/// What is sent after a long silence: a comment, which clients leave out.
const COMMENT: &[u8] = b": still here\n\n";

/// A run of a thread, from its begin or from the answer that it waited for. Dropped before its end, it is stopped.
#[derive(Debug)]
pub(super) struct Run {
    lease: Lease,
    reader: Reader,
    stop: CancellationToken,
    keep_alive: Duration,
    /// What was not sent yet.
    first: Vec<u8>,
}

impl Run {
    /// Begins a run. Producers wait for its client from now on, within the session's bounds.
    pub(super) fn new(mut lease: Lease, ids: RunIds, stop: CancellationToken, keep_alive: Duration) -> Self {
        let reader = lease.session.subscribe_lossless(lease.cursor);
        let mut first = Vec::new();
        lease.begin(ids, &mut first);
        Self { lease, reader, stop, keep_alive, first }
    }

    /// The run as server-sent events. Ends with the run of the protocol.
    pub(super) fn into_stream(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(Some(self), |run| async move {
            let mut run = run?;
            let bytes = run.next().await;
            // The thread is free before its client knows of the end, and can ask for more.
            Some((bytes, run.is_under_way().then_some(run)))
        })
    }

    fn is_under_way(&self) -> bool {
        matches!(self.lease.state, State::Running)
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
            self.look_for_end();
            let is_enough = out.len() >= CHUNK || (!out.is_empty() && self.reader.size_hint().0 == 0);
            if is_enough || !self.is_under_way() {
                return true;
            }
            match tokio::time::timeout(self.keep_alive, self.reader.next()).await {
                Ok(Some(Read::Event(admitted))) => self.lease.tell(&admitted, out),
                Ok(Some(Read::Gap { from, to })) => {
                    tracing::warn!(
                        from,
                        to,
                        "a client was so slow that events were forgotten before it read them"
                    );
                    self.lease.break_off(out);
                }
                Ok(None) => self.lease.break_off(out),
                Err(_) => out.extend_from_slice(COMMENT),
            }
        }
        !out.is_empty()
    }

    /// Whether the run has ended, or waits for an answer.
    fn look_for_end(&mut self) {
        if !self.is_under_way() {
            return;
        }
        match self.lease.take_terminal() {
            Some(Terminal::Over) => self.lease.state = State::Idle,
            Some(Terminal::Asked(interrupts)) => {
                self.lease.state = State::Asking { stop: self.stop.clone(), interrupts };
            }
            None => {}
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.is_under_way() {
            tracing::info!(session = %self.lease.session.id(), "the client left, so its run is stopped");
            self.stop.cancel();
            self.lease.state = State::Left;
        }
    }
}
