//! One call as events: its result's start, its parts, what it passes on, its end.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_proto::{
    ContentBlock, Event, EventKind, ToolCallId, ToolChunk, ToolResponse, ToolResultState,
    event::{ToolResultDataDelta, ToolResultEnd, ToolResultStart, ToolResultTextDelta},
};
use futures::{Stream, stream::FusedStream};

use crate::{
    Acting, ActingStream, CallItem, Caller, ToolCall, ToolContext, accumulate::Accumulator,
    call_tool::SILENT_ITEMS, gate::Gate, panics::catch,
};

/// What running calls give to an agent's loop.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "what is passed on, and what is decided by")]
pub enum Executed {
    /// To be passed on.
    Event(Arc<Event>),
    /// A call has ended; its `TOOL_RESULT_END` came before.
    Response(ToolCallId, ToolResponse),
}

/// Stream of one call as events.
///
/// `TOOL_RESULT_START`, then deltas and passed events as they come, `TOOL_RESULT_END`, and the response as last item. What a
/// call asks first (whether it may run, or for a result from elsewhere), and the answer, come before the start.
///
/// Of events pass, wherever they come from: in the caller's own scope `CUSTOM`, spawns, updates of whom this call
/// spawned, and questions about this call with their answers, with the reserved keys of metadata that only the caller sets; the events of this call's children in their
/// announced runs, and of all below them. A child that was not announced is this call's where its scope names the caller as
/// parent and this call or none, and no call beside this one has it. Anything else is dropped, counted and warned of.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the call; nothing is said of it then, for whoever drops
/// it knows why. A tool or a layer that panics when it is dropped takes nobody with it.
#[must_use = "streams do nothing unless polled"]
pub struct ExecuteToolCall {
    caller: Arc<Caller>,
    call_id: ToolCallId,
    name: Arc<str>,
    acting: Option<ActingStream>,
    gate: Gate,
    /// What came through the layers, in case one of them loses the response.
    passed: Option<Box<Accumulator>>,
    /// Whether the result has begun on the stream.
    is_started: bool,
    ready: VecDeque<Executed>,
}

impl ExecuteToolCall {
    /// Runs a call of the caller's model.
    pub fn new(call: ToolCall, caller: Arc<Caller>, acting: &Acting) -> Self {
        let call_id = call.id.clone();
        let context = ToolContext::new(Arc::clone(&caller), call_id.clone());
        let mut this = Self {
            gate: Gate::new(Arc::clone(&caller), call_id.clone()),
            caller,
            call_id,
            name: Arc::clone(&call.name),
            acting: None,
            passed: acting.has_layers().then(|| Box::new(Accumulator::new())),
            is_started: false,
            ready: VecDeque::with_capacity(2),
        };
        match catch(|| acting.call(call, context)) {
            Ok(stream) => this.acting = Some(stream),
            Err(message) => this.fail_by_panic(&message),
        }
        this
    }

    /// Begins the result, where it has not begun.
    #[inline]
    fn start(&mut self) {
        if !self.is_started {
            self.begin();
        }
    }

    #[cold]
    fn begin(&mut self) {
        self.is_started = true;
        self.push(ToolResultStart::new(&self.caller.reply_id, &self.call_id, Arc::clone(&self.name)));
    }

    fn push(&mut self, kind: impl Into<EventKind>) {
        let Caller { stamp, scope, metadata, .. } = &*self.caller;
        let event = Event::stamped(&**stamp, scope.clone(), metadata.clone(), kind);
        self.ready.push_back(Executed::Event(Arc::new(event)));
    }

    #[expect(clippy::match_same_arms, reason = "a kind that is not named fails the lint for wildcards")]
    fn push_chunk(&mut self, chunk: ToolChunk) {
        self.start();
        if let Some(passed) = &mut self.passed {
            passed.add(&chunk);
        }
        for block in chunk.content {
            let reply_id = self.caller.reply_id.clone();
            match block {
                ContentBlock::Text(block) if block.text.is_empty() => {}
                ContentBlock::Text(block) => {
                    self.push(ToolResultTextDelta::new(reply_id, &self.call_id, block.text));
                }
                ContentBlock::Data(block) => {
                    let block_id = block.id.unwrap_or_else(|| self.caller.stamp.block_id());
                    let media_type = Arc::clone(block.source.media_type());
                    let part = block.source.to_part();
                    self.push(ToolResultDataDelta::new(reply_id, &self.call_id, block_id, media_type, part));
                }
                // A result holds text and data.
                ContentBlock::Thinking(_)
                | ContentBlock::Hint(_)
                | ContentBlock::ToolCall(_)
                | ContentBlock::ToolResult(_)
                | ContentBlock::Other(_) => self.caller.counters.ignore_chunk(),
                _ => self.caller.counters.ignore_chunk(),
            }
        }
    }

    fn end(&mut self, mut response: ToolResponse) {
        self.start();
        // A layer that panics when it is dropped panics in there; the response stands.
        self.acting = None;
        self.gate.release();
        // A layer may have forgotten to.
        response.state = response.state.worse(ToolResultState::Success);
        let end = ToolResultEnd::new(&self.caller.reply_id, &self.call_id, response.state);
        self.push(end.response(response.metadata.clone()));
        self.ready.push_back(Executed::Response(self.call_id.clone(), response));
    }

    /// A layer has lost the response; the model is told so after what came.
    fn fail(&mut self, text: &str) {
        let mut passed = self.passed.take().unwrap_or_else(|| Box::new(Accumulator::new()));
        let chunk = passed.fail(text);
        self.push_chunk(chunk);
        self.end(passed.finish(&[]));
    }

    /// Tools' panics are caught further in; this one is a layer's.
    fn fail_by_panic(&mut self, message: &str) {
        let text = format!("a layer around `{}` panicked: {message}", self.name);
        self.fail(&text);
    }
}

impl Stream for ExecuteToolCall {
    type Item = Executed;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Executed>> {
        for _ in 0..SILENT_ITEMS {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            let Some(acting) = &mut self.acting else {
                return Poll::Ready(None);
            };
            match acting.poll_caught(cx) {
                // It runs from here on, unless it waits for leave to.
                Ok(Poll::Pending) if !self.is_started && !self.gate.is_asking() => self.start(),
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Some(CallItem::Event(event)))) => {
                    let was_asking = self.gate.is_asking();
                    if let Some(event) = self.gate.pass(event) {
                        // A question, what is said meanwhile, and its answer.
                        if !was_asking && !self.gate.is_asking() {
                            self.start();
                        }
                        // Mostly nothing lies before it, and it need not wait in the line.
                        if self.ready.is_empty() {
                            return Poll::Ready(Some(Executed::Event(event)));
                        }
                        self.ready.push_back(Executed::Event(event));
                    }
                }
                Ok(Poll::Ready(Some(CallItem::Chunk(chunk)))) => self.push_chunk(chunk),
                Ok(Poll::Ready(Some(CallItem::Response(response)))) => self.end(response),
                Ok(Poll::Ready(None)) => {
                    let text = format!("a layer around `{}` ended without a response", self.name);
                    self.fail(&text);
                }
                Err(message) => self.fail_by_panic(&message),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A running call has at least its end and its response to give.
        match &self.acting {
            Some(_) => (self.ready.len() + 2 + usize::from(!self.is_started), None),
            None => (self.ready.len(), Some(self.ready.len())),
        }
    }
}

impl FusedStream for ExecuteToolCall {
    fn is_terminated(&self) -> bool {
        self.acting.is_none() && self.ready.is_empty()
    }
}

impl fmt::Debug for ExecuteToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecuteToolCall").field("call_id", &self.call_id).finish_non_exhaustive()
    }
}
