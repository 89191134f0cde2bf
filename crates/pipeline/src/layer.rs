//! What lies between an agent and its tools.

use std::{
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt, stream::FusedStream};

use crate::{
    CallItem, CallTool, ToolCall, ToolContext, Toolkit,
    panics::{catch, drop_quietly},
    until::Until,
};

/// How many bytes of content one call may give: 16 MiB.
pub const DEFAULT_OUTPUT_LIMIT: usize = 16 * 1024 * 1024;

/// A layer around tool calls, as `tower`'s are around services.
///
/// It sees every item of a call: chunks, events and the response. The default of [`item`](Self::item) forwards, so a
/// layer that was written before a kind of item existed cannot drop it. Override [`act`](Self::act) to refuse, retry or
/// time a call.
///
/// A layer gives events and chunks by its stream; its context has no queue of its own and [`emit`](ToolContext::emit) on
/// it is an error. What its chunks say should add up to its response, for that is what a replay has. Of its events those
/// leave the call that a tool's would.
pub trait ActingLayer: Send + Sync {
    /// Runs the call, or does something else in its place.
    ///
    /// The stream must end with exactly one [`CallItem::Response`].
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream
    where
        Self: 'static,
    {
        let inner = next.run(call.clone(), context);
        ActingStream::boxed(inner.map(move |item| self.item(&call, item)))
    }

    /// Sees an item, and gives it or another on.
    fn item(&self, call: &ToolCall, item: CallItem) -> CallItem {
        let _ = call;
        item
    }
}

/// A toolkit with the layers around it and the bound on a call's output.
#[derive(Clone)]
pub struct Acting {
    toolkit: Arc<Toolkit>,
    layers: Arc<[Arc<dyn ActingLayer>]>,
    output_limit: usize,
}

impl Acting {
    /// A toolkit without layers.
    #[must_use]
    pub fn new(toolkit: Toolkit) -> Self {
        Self { toolkit: Arc::new(toolkit), layers: Arc::new([]), output_limit: DEFAULT_OUTPUT_LIMIT }
    }

    /// With layers, the first outermost.
    #[must_use]
    pub fn layers(mut self, layers: impl IntoIterator<Item = Arc<dyn ActingLayer>>) -> Self {
        self.layers = layers.into_iter().collect();
        self
    }

    /// With a layer around all others.
    #[must_use]
    pub fn outermost(mut self, layer: Arc<dyn ActingLayer>) -> Self {
        self.layers = std::iter::once(layer).chain(self.layers.iter().map(Arc::clone)).collect();
        self
    }

    /// How many bytes of content one call may give. With more it ends as failed, keeping what came.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// The tools.
    #[must_use]
    pub fn toolkit(&self) -> &Arc<Toolkit> {
        &self.toolkit
    }

    pub(crate) fn has_layers(&self) -> bool {
        !self.layers.is_empty()
    }

    /// Runs a call through all layers.
    pub(crate) fn call(&self, call: ToolCall, context: ToolContext) -> ActingStream {
        Next { acting: self.clone(), layer: 0 }.run(call, context)
    }
}

impl fmt::Debug for Acting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acting")
            .field("toolkit", &self.toolkit)
            .field("layers", &self.layers.len())
            .field("output_limit", &self.output_limit)
            .finish()
    }
}

/// What lies within a layer: the next one, or the tool.
#[derive(Clone, Debug)]
pub struct Next {
    acting: Acting,
    layer: usize,
}

impl Next {
    /// Runs the call. May be called again, on a clone, to retry.
    pub fn run(self, call: ToolCall, context: ToolContext) -> ActingStream {
        let Self { acting, layer } = self;
        match acting.layers.get(layer).map(Arc::clone) {
            Some(this) => this.act(call, context, Self { acting, layer: layer + 1 }),
            None => ActingStream(Inner::Direct(CallTool::new(
                &call,
                &context,
                &acting.toolkit,
                acting.output_limit,
                None,
            ))),
        }
    }
}

/// The stream of a call through its layers.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the call; a layer or a tool that panics then takes nobody
/// with it.
#[must_use = "streams do nothing unless polled"]
pub struct ActingStream(Inner);

#[expect(clippy::large_enum_variant, reason = "without layers, which is common, nothing is boxed")]
enum Inner {
    Direct(CallTool),
    Layered(Pin<Box<dyn Stream<Item = CallItem> + Send>>),
    Ended,
}

impl ActingStream {
    /// A layer's own stream.
    pub fn boxed(stream: impl Stream<Item = CallItem> + Send + 'static) -> Self {
        Self(Inner::Layered(Box::pin(stream)))
    }

    /// The call until `cut` says why it goes no further: it is then stopped, and fails with that text after what came.
    ///
    /// For layers that bound a call, by time or by anything else. Whether it is to be cut is looked at when the call waits,
    /// and after at most 16 items that came without a pause.
    pub fn until(self, cut: impl Future<Output = String> + Send + 'static) -> Self {
        Self::boxed(Until::new(self, cut))
    }

    /// Polls it, and gives the message of a layer's panic. A tool's own are caught where it is polled.
    #[inline]
    pub(crate) fn poll_caught(&mut self, cx: &mut Context<'_>) -> Result<Poll<Option<CallItem>>, String> {
        match &mut self.0 {
            Inner::Direct(stream) => Ok(Pin::new(stream).poll_next(cx)),
            Inner::Layered(_) | Inner::Ended => catch(|| Pin::new(&mut *self).poll_next(cx)),
        }
    }

    /// Drops what it wraps, which is not ours and may panic.
    fn end(&mut self) {
        drop_quietly(mem::replace(&mut self.0, Inner::Ended));
    }
}

impl Drop for ActingStream {
    fn drop(&mut self) {
        self.end();
    }
}

impl Stream for ActingStream {
    type Item = CallItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallItem>> {
        match &mut self.0 {
            Inner::Direct(stream) => Pin::new(stream).poll_next(cx),
            Inner::Layered(stream) => {
                let item = std::task::ready!(stream.as_mut().poll_next(cx));
                if item.is_none() {
                    self.end();
                }
                Poll::Ready(item)
            }
            Inner::Ended => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Inner::Direct(stream) => stream.size_hint(),
            Inner::Layered(stream) => stream.size_hint(),
            Inner::Ended => (0, Some(0)),
        }
    }
}

impl FusedStream for ActingStream {
    fn is_terminated(&self) -> bool {
        match &self.0 {
            Inner::Direct(stream) => stream.is_terminated(),
            Inner::Layered(_) => false,
            Inner::Ended => true,
        }
    }
}

impl fmt::Debug for ActingStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Direct(stream) => f.debug_tuple("ActingStream").field(stream).finish(),
            Inner::Layered(_) | Inner::Ended => f.debug_struct("ActingStream").finish_non_exhaustive(),
        }
    }
}
