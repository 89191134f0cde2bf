//! What a running tool can reach.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use anabranch_proto::{Artifact, ContentBlock, Event, EventKind, Json, ToolCallId, ToolChunk, event::Custom};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::{Caller, ToolYield};

/// How many emitted items wait for the reader of one call. A tool that is faster than its reader waits here, so a few
/// suffice; the number only smooths the switching between the two.
const EMIT_QUEUE: usize = 8;

/// How many bytes they may have. An item that is larger waits alone.
const EMIT_BYTES: usize = 1024 * 1024;

/// An emitted item, with the room that it takes until it is read.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub(crate) item: ToolYield,
    _room: OwnedSemaphorePermit,
}

/// Where a tool's emitted items wait.
#[derive(Clone)]
struct Queue {
    items: mpsc::Sender<Emitted>,
    room: Arc<Semaphore>,
}

/// What a running tool can reach: its caller, a way to emit while it works, the files it makes.
///
/// Cloning shares it. A clone that outlives the call can emit no more.
#[derive(Clone)]
pub struct ToolContext {
    caller: Arc<Caller>,
    call_id: ToolCallId,
    queue: Option<Queue>,
    artifacts: Arc<Mutex<Vec<Artifact>>>,
}

/// The call has ended, so nothing can be emitted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tool call has ended")]
#[non_exhaustive]
pub struct EmitError {}

impl ToolContext {
    pub(crate) fn new(caller: Arc<Caller>, call_id: ToolCallId) -> Self {
        Self { caller, call_id, queue: None, artifacts: Arc::default() }
    }

    /// The same call with a queue of its own, for one run of the tool.
    pub(crate) fn with_queue(&self) -> (Self, mpsc::Receiver<Emitted>) {
        let (items, receiver) = mpsc::channel(EMIT_QUEUE);
        let queue = Queue { items, room: Arc::new(Semaphore::new(EMIT_BYTES)) };
        (Self { queue: Some(queue), artifacts: Arc::default(), ..self.clone() }, receiver)
    }

    /// The agent whose model made the call.
    #[must_use]
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// The call.
    #[must_use]
    pub fn call_id(&self) -> &ToolCallId {
        &self.call_id
    }

    /// What the agent's host offers, where it is of that type.
    #[must_use]
    pub fn host<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(self.caller.host.as_ref()?).downcast().ok()
    }

    /// A new event in the caller's scope, with the caller's metadata.
    pub fn event(&self, kind: impl Into<EventKind>) -> Event {
        let Caller { scope, metadata, stamp, .. } = &*self.caller;
        Event::stamped(&**stamp, scope.clone(), metadata.clone(), kind)
    }

    /// Emits an event: it reaches the caller's stream before whatever the tool yields or emits next.
    ///
    /// In the caller's own scope a tool may emit `CUSTOM`, spawns, and updates of whom this call spawned; besides, the
    /// events of this call's children and of all below them. Anything else is dropped, counted and warned of (see
    /// [`ExecuteToolCall`](crate::ExecuteToolCall)). Waits while the reader is behind.
    ///
    /// # Errors
    /// When the call has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the event is not emitted.
    pub async fn emit(&self, event: impl Into<Arc<Event>>) -> Result<(), EmitError> {
        self.push(ToolYield::Event(event.into())).await
    }

    /// Emits a `CUSTOM` event in the caller's scope, such as progress.
    ///
    /// # Errors
    /// When the call has ended. A value without a JSON spelling is emitted as `null`.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the event is not emitted.
    pub async fn custom(&self, name: &str, value: &(impl Serialize + Sync)) -> Result<(), EmitError> {
        let value = Json::new(value).unwrap_or_else(|_| serde_json::Value::Null.into());
        self.emit(self.event(Custom::new(name, value))).await
    }

    /// Gives a part of the result to the model before the tool is done.
    ///
    /// # Errors
    /// When the call has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the chunk is not given.
    pub async fn send(&self, chunk: ToolChunk) -> Result<(), EmitError> {
        self.push(ToolYield::Chunk(chunk)).await
    }

    /// Adds a file that the tool made to `files` of the response's metadata.
    pub fn artifact(&self, artifact: Artifact) {
        self.artifacts.lock().unwrap_or_else(PoisonError::into_inner).push(artifact);
    }

    pub(crate) fn take_artifacts(&self) -> Vec<Artifact> {
        std::mem::take(&mut self.artifacts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn push(&self, item: ToolYield) -> Result<(), EmitError> {
        let Queue { items, room } = self.queue.as_ref().ok_or(EmitError {})?;
        let bytes = u32::try_from(bytes(&item).clamp(1, EMIT_BYTES)).unwrap_or(u32::MAX);
        let room = Arc::clone(room).acquire_many_owned(bytes).await.map_err(|_| EmitError {})?;
        items.send(Emitted { item, _room: room }).await.map_err(|_| EmitError {})
    }

    /// Lets nobody wait for room any more: the call has ended.
    pub(crate) fn close(&self) {
        if let Some(queue) = &self.queue {
            queue.room.close();
        }
    }
}

/// About how many bytes an item takes that nothing else has: metadata is shared.
fn bytes(item: &ToolYield) -> usize {
    match item {
        ToolYield::Event(event) => event.approximate_own_bytes(),
        ToolYield::Chunk(chunk) => chunk.content.iter().map(ContentBlock::approximate_bytes).sum(),
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("caller", &self.caller)
            .field("call_id", &self.call_id)
            .finish_non_exhaustive()
    }
}
