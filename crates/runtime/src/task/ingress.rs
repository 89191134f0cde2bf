//! The way by which the events of background children enter the session's stream.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_pipeline::{ToolStream, ToolYield};
use anabranch_proto::{Event, EventKind, ToolChunk};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How many events come together at most: enough that handing them over costs little for each.
pub(crate) const BATCH: usize = 16;

/// How many bytes come together, one event more.
const BATCH_BYTES: usize = 64 * 1024;

/// How many batches wait for the driver: 256 events.
const BATCHES: usize = 16;

/// How many bytes wait for the driver. A batch that is larger waits alone.
const BYTES: usize = 4 * 1024 * 1024;

/// Events of a child that runs on a task of its own, and in the end what it came to.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) task: usize,
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) end: Option<ToolChunk>,
    /// The room that it takes, given back when it is dropped.
    _room: OwnedSemaphorePermit,
}

/// Where background children put their events. All share one.
#[derive(Clone, Debug)]
pub(crate) struct Ingress {
    entries: mpsc::Sender<Entry>,
    room: Arc<Semaphore>,
}

impl Ingress {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Entry>) {
        let (entries, receiver) = mpsc::channel(BATCHES);
        (Self { entries, room: Arc::new(Semaphore::new(BYTES)) }, receiver)
    }

    /// Hands a batch over, once there is room; says whether anybody takes it.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the batch is lost.
    pub(crate) async fn send(&self, task: usize, batch: Batch) -> bool {
        let bytes = u32::try_from(batch.bytes.clamp(1, BYTES)).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(bytes).await else { return false };
        let Batch { events, end, .. } = batch;
        self.entries.send(Entry { task, events, end, _room: room }).await.is_ok()
    }
}

/// What a child had ready.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Arc<Event>>,
    bytes: usize,
    pub(crate) end: Option<ToolChunk>,
}

impl Batch {
    /// One event.
    pub(crate) fn of(event: Arc<Event>) -> Self {
        Self { bytes: event.approximate_bytes(), events: vec![event], end: None }
    }

    /// An end without events.
    pub(crate) fn end(chunk: ToolChunk) -> Self {
        Self { end: Some(chunk), ..Self::default() }
    }

    fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.approximate_bytes();
        self.events.push(event);
    }

    /// Whether it is handed over as it is. A terminal waits for the end behind it, so that both are heard of at once.
    fn is_full(&self) -> bool {
        let is_last = |event: &Arc<Event>| matches!(event.kind, EventKind::StreamComplete(_));
        let limit = if self.events.last().is_some_and(is_last) { BATCH + 1 } else { BATCH };
        self.events.len() >= limit || (self.bytes >= BATCH_BYTES && limit == BATCH)
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.end.is_none()
    }
}

/// What a child has ready next: at least one item; none when it has ended.
///
/// # Cancel safety
/// Nothing is lost when dropped.
pub(crate) async fn next_batch(child: &mut ToolStream) -> Option<Batch> {
    let mut batch = Batch::default();
    let is_over = poll_fn(|cx| fill(&mut batch, child, cx)).await;
    (!is_over || !batch.is_empty()).then_some(batch)
}

/// Whether the child has ended.
fn fill(batch: &mut Batch, child: &mut ToolStream, cx: &mut Context<'_>) -> Poll<bool> {
    while !batch.is_full() {
        match child.as_mut().poll_next(cx) {
            Poll::Ready(Some(ToolYield::Event(event))) => batch.push(event),
            Poll::Ready(Some(ToolYield::Chunk(chunk))) => {
                batch.end = Some(chunk);
                return Poll::Ready(false);
            }
            Poll::Ready(None) => return Poll::Ready(true),
            Poll::Pending if batch.is_empty() => return Poll::Pending,
            Poll::Pending => return Poll::Ready(false),
        }
    }
    Poll::Ready(false)
}
