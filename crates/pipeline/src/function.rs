//! Plain async functions as tools.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_proto::{ToolChunk, ToolResultState};
use futures::Stream;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield};

/// An async function with typed arguments, as a tool.
///
/// The arguments' JSON Schema is derived, arguments that do not fit are refused before the function runs. While it runs
/// it can emit events and give parts of its result by the context; what it returns is the last part. An `Err` is a
/// failure whose text the model reads.
///
/// ```
/// use anabranch_pipeline::FunctionTool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Lookup {
///     /// The city's name.
///     city: String,
/// }
///
/// let tool = FunctionTool::new("weather", "The weather of a city.", |args: Lookup, context| async move {
///     context.custom("progress", &0.5).await.ok();
///     match args.city.as_str() {
///         "Seattle" => Ok("rain"),
///         city => Err(format!("no station in {city}")),
///     }
/// });
/// ```
pub struct FunctionTool<A, F> {
    definition: ToolDefinition,
    is_exclusive: bool,
    function: Arc<F>,
    arguments: PhantomData<fn(A)>,
}

impl<A, F, R, T, E> FunctionTool<A, F>
where
    A: DeserializeOwned + JsonSchema,
    F: Fn(A, ToolContext) -> R + Send + Sync,
    R: Future<Output = Result<T, E>> + Send,
    T: IntoToolChunk,
    E: fmt::Display,
{
    /// A tool that runs an async function.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<String>, function: F) -> Self {
        let definition = ToolDefinition::typed::<A>(name, description);
        Self { definition, is_exclusive: false, function: Arc::new(function), arguments: PhantomData }
    }
}

impl<A, F> FunctionTool<A, F> {
    /// Runs alone: calls before it are awaited, calls after it wait.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }
}

impl<A, F, R, T, E> Tool for FunctionTool<A, F>
where
    A: DeserializeOwned + 'static,
    F: Fn(A, ToolContext) -> R + Send + Sync,
    R: Future<Output = Result<T, E>> + Send + 'static,
    T: IntoToolChunk,
    E: fmt::Display,
{
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        match invocation.arguments.to() {
            Ok(arguments) => {
                let result = (self.function)(arguments, context);
                Box::pin(Once(Some(async move {
                    match result.await {
                        Ok(value) => value.into_tool_chunk(),
                        Err(error) => ToolChunk::error(error.to_string()),
                    }
                })))
            }
            Err(error) => {
                let chunk = ToolChunk::error(format!("`{}`: {error}", invocation.name));
                Box::pin(Once(Some(std::future::ready(chunk))))
            }
        }
    }
}

impl<A, F> fmt::Debug for FunctionTool<A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

/// One chunk, from a future.
#[pin_project::pin_project]
struct Once<R>(#[pin] Option<R>);

impl<R: Future<Output = ToolChunk>> Stream for Once<R> {
    type Item = ToolYield;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ToolYield>> {
        let mut future = self.project().0;
        let Some(running) = future.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let chunk = std::task::ready!(running.poll(cx));
        future.set(None);
        Poll::Ready(Some(ToolYield::Chunk(chunk)))
    }
}

/// What a function may return as the last part of its result.
pub trait IntoToolChunk {
    /// The last part.
    fn into_tool_chunk(self) -> ToolChunk;
}

impl IntoToolChunk for ToolChunk {
    fn into_tool_chunk(self) -> ToolChunk {
        self
    }
}

impl IntoToolChunk for String {
    fn into_tool_chunk(self) -> ToolChunk {
        ToolChunk::text(self).state(ToolResultState::Success).last()
    }
}

impl IntoToolChunk for &str {
    fn into_tool_chunk(self) -> ToolChunk {
        self.to_owned().into_tool_chunk()
    }
}

impl IntoToolChunk for serde_json::Value {
    /// The value as compact JSON text.
    fn into_tool_chunk(self) -> ToolChunk {
        self.to_string().into_tool_chunk()
    }
}

impl IntoToolChunk for () {
    /// Nothing: what was given before was all.
    fn into_tool_chunk(self) -> ToolChunk {
        ToolChunk::new(Vec::new()).state(ToolResultState::Success).last()
    }
}
