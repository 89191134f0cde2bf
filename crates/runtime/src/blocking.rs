//! Tools that block a thread.

use std::{
    fmt,
    marker::PhantomData,
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use anabranch_pipeline::{
    EmitError, IntoToolChunk, Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield,
};
use anabranch_proto::ToolChunk;
use futures::{Stream, StreamExt, stream};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::run::Host;

/// A function with typed arguments that blocks its thread, as a tool: it computes, or waits for files and programs.
///
/// It runs on the runtime's pool for such work. Where its call is stopped nobody can stop the function: it is
/// [told](Blocking::is_stopped), its call ends at once, and it is counted as detached
/// ([`Session::detached`](crate::Session::detached)) until it returns.
///
/// ```
/// use anabranch_runtime::BlockingTool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Count {
///     upto: u64,
/// }
///
/// let primes = BlockingTool::new("primes", "How many primes there are.", |args: Count, blocking| {
///     let mut primes = 0;
///     for number in 2..args.upto {
///         if blocking.is_stopped() {
///             return Err("stopped");
///         }
///         primes += u64::from((2..number).all(|divisor| number % divisor != 0));
///     }
///     Ok(primes.to_string())
/// });
/// ```
pub struct BlockingTool<A, F> {
    definition: ToolDefinition,
    is_exclusive: bool,
    function: Arc<F>,
    arguments: PhantomData<fn(A)>,
}

impl<A, F, T, E> BlockingTool<A, F>
where
    A: DeserializeOwned + JsonSchema,
    F: Fn(A, Blocking) -> Result<T, E> + Send + Sync,
    T: IntoToolChunk,
    E: fmt::Display,
{
    /// A tool that runs a function on a thread of its own.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<String>, function: F) -> Self {
        let definition = ToolDefinition::typed::<A>(name, description);
        Self { definition, is_exclusive: false, function: Arc::new(function), arguments: PhantomData }
    }
}

impl<A, F> BlockingTool<A, F> {
    /// Runs alone: calls before it are awaited, calls after it wait.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }
}

impl<A, F, T, E> Tool for BlockingTool<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A, Blocking) -> Result<T, E> + Send + Sync + 'static,
    T: IntoToolChunk + 'static,
    E: fmt::Display + 'static,
{
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        let arguments = match invocation.arguments.to::<A>() {
            Ok(arguments) => arguments,
            Err(error) => {
                let chunk = ToolChunk::error(format!("`{}`: {error}", invocation.name));
                return stream::iter([ToolYield::Chunk(chunk)]).boxed();
            }
        };
        let detached = context.host::<Host>().map(|host| Arc::clone(&host.identity.shared.detached));
        let state = Arc::new(State { at: AtomicU8::new(RUNNING), detached: detached.unwrap_or_default() });
        let stop = CancellationToken::new();
        let blocking = Blocking { context, stop: stop.clone() };
        let (function, running) = (Arc::clone(&self.function), Returns(Arc::clone(&state)));
        let thread = tokio::task::spawn_blocking(move || {
            let result = function(arguments, blocking);
            drop(running);
            match result {
                Ok(value) => value.into_tool_chunk(),
                Err(error) => ToolChunk::error(error.to_string()),
            }
        });
        Box::pin(Running { thread: Some(thread), state, stop })
    }
}

impl<A, F> fmt::Debug for BlockingTool<A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingTool").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

/// What a blocking function can reach while it runs.
#[derive(Clone, Debug)]
pub struct Blocking {
    context: ToolContext,
    stop: CancellationToken,
}

impl Blocking {
    /// Whether the call was stopped: what the function comes to has nobody to come to.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// What a tool can reach.
    #[must_use]
    pub fn context(&self) -> &ToolContext {
        &self.context
    }

    /// Emits a `CUSTOM` event in the caller's scope, such as progress. Blocks while the reader is behind.
    ///
    /// # Errors
    /// When the call has ended.
    ///
    /// # Panics
    /// Elsewhere than in the function.
    pub fn custom(&self, name: &str, value: &(impl Serialize + Sync)) -> Result<(), EmitError> {
        Handle::current().block_on(self.context.custom(name, value))
    }

    /// Gives a part of the result to the model before the function returns. Blocks while the reader is behind.
    ///
    /// # Errors
    /// When the call has ended.
    ///
    /// # Panics
    /// Elsewhere than in the function.
    pub fn send(&self, chunk: ToolChunk) -> Result<(), EmitError> {
        Handle::current().block_on(self.context.send(chunk))
    }
}

/// The function runs and its call waits for it.
const RUNNING: u8 = 0;
/// The function has returned.
const RETURNED: u8 = 1;
/// The call was stopped and the function runs.
const DETACHED: u8 = 2;

struct State {
    at: AtomicU8,
    /// How many functions of the session run without a call.
    detached: Arc<AtomicUsize>,
}

/// Says that the function has returned, or panicked.
struct Returns(Arc<State>);

impl Drop for Returns {
    fn drop(&mut self) {
        if self.0.at.swap(RETURNED, Ordering::AcqRel) == DETACHED {
            self.0.detached.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A function at work, as the stream of its call.
struct Running {
    thread: Option<JoinHandle<ToolChunk>>,
    state: Arc<State>,
    stop: CancellationToken,
}

impl Stream for Running {
    type Item = ToolYield;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ToolYield>> {
        let Some(thread) = &mut self.thread else { return Poll::Ready(None) };
        let returned = std::task::ready!(Pin::new(thread).poll(cx));
        self.thread = None;
        match returned {
            Ok(chunk) => Poll::Ready(Some(ToolYield::Chunk(chunk))),
            Err(error) => match error.try_into_panic() {
                // Caught by the call, which says which tool it was.
                Ok(panic) => resume_unwind(panic),
                Err(_) => {
                    Poll::Ready(Some(ToolYield::Chunk(ToolChunk::error("the runtime is shutting down"))))
                }
            },
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        // Before it is known to be detached it is counted, so that it is never uncounted first.
        self.state.detached.fetch_add(1, Ordering::AcqRel);
        let changed = self.state.at.compare_exchange(RUNNING, DETACHED, Ordering::AcqRel, Ordering::Acquire);
        if changed.is_err() {
            self.state.detached.fetch_sub(1, Ordering::AcqRel);
        }
        // Where no thread has taken it up yet, none does.
        if let Some(thread) = self.thread.take() {
            thread.abort();
        }
    }
}
