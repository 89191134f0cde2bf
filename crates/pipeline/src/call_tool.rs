//! Runs one tool: events pass, chunks add up, one response ends the call.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_proto::{Event, ToolChunk, ToolResponse};
use futures::{Stream, stream::FusedStream};
use tokio::sync::mpsc;

use crate::{
    Arguments, Caller, DEFAULT_OUTPUT_LIMIT, ToolCall, ToolContext, ToolInvocation, ToolStream, ToolYield,
    Toolkit,
    accumulate::{Accepted, Accumulator},
    context::Emitted,
    gate::Gate,
    panics::catch,
};

/// How much of what a tool yields after its last chunk is looked at, so as to count it.
const LOOK_AFTER_THE_LAST: usize = 1_000;

/// How many items that give nothing are taken in one poll, before whoever else waits has its turn.
pub(crate) const SILENT_ITEMS: usize = 32;

/// What a running call gives. A [`Response`](Self::Response) comes exactly once, as the last item.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "what a tool yields, and the end")]
pub enum CallItem {
    /// A part of the result.
    Chunk(ToolChunk),
    /// An event that the tool passed on.
    Event(Arc<Event>),
    /// What the call came to.
    Response(ToolResponse),
}

/// Stream of one running tool.
///
/// A bad argument, an unknown tool, an error or a panic is a chunk and a response with state `error` and a text that the
/// model can read.
///
/// When the tool has ended nothing more can be emitted; the events that were until then still come before the response.
/// Which events pass is said at [`ExecuteToolCall`](crate::ExecuteToolCall).
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the tool; one that panics then takes nobody with it.
#[must_use = "streams do nothing unless polled"]
pub struct CallTool {
    run: Option<Run>,
    ending: Option<Ending>,
    context: ToolContext,
    /// None where somebody further out looks at what leaves the call.
    gate: Option<Gate>,
    name: Arc<str>,
    accumulator: Accumulator,
    output_limit: usize,
    /// What is to be given before the tool is polled again.
    ready: VecDeque<CallItem>,
    is_ended: bool,
}

/// A tool at work.
struct Run {
    stream: ToolStream,
    emitted: mpsc::Receiver<Emitted>,
    /// How many emitted items come before `held`, and before the tool is polled again.
    due: usize,
    /// What the tool yielded, until all that it had emitted before is out.
    held: Option<Yielded>,
}

/// A tool that has ended. What it or others had emitted until then is still to come.
struct Ending {
    emitted: mpsc::Receiver<Emitted>,
    held: Option<ToolYield>,
    failure: Option<String>,
}

enum Yielded {
    Item(ToolYield),
    End,
    Panic(String),
}

impl CallTool {
    /// Runs one call of a toolkit, without layers and with the default bound on its output.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use anabranch_pipeline::{CallItem, CallTool, Caller, ToolCall, Toolkit};
    /// # use anabranch_proto::{Stamp, Timestamp};
    /// use futures::StreamExt;
    /// # struct Zero;
    /// # impl Stamp for Zero {
    /// #     fn unique(&self) -> [u8; 16] { [0; 16] }
    /// #     fn ascending(&self) -> [u8; 16] { [0; 16] }
    /// #     fn now(&self) -> Timestamp { Timestamp::from_unix(0, 0) }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let stamp = Arc::new(Zero);
    /// let caller = Arc::new(Caller::new("session", "reply", stamp));
    /// let call = ToolCall::new("call_0", "nowhere", "{}");
    /// let items: Vec<_> = CallTool::start(&call, caller, &Toolkit::new()).collect().await;
    /// let CallItem::Response(response) = items.last().unwrap() else { panic!("the last item is the response") };
    /// assert_eq!(response.text(), "there is no tool `nowhere`, nor any other");
    /// # }
    /// ```
    pub fn start(call: &ToolCall, caller: Arc<Caller>, toolkit: &Toolkit) -> Self {
        let gate = Gate::new(Arc::clone(&caller), call.id.clone());
        let context = ToolContext::new(caller, call.id.clone());
        Self::new(call, &context, toolkit, DEFAULT_OUTPUT_LIMIT, Some(gate))
    }

    pub(crate) fn new(
        call: &ToolCall,
        context: &ToolContext,
        toolkit: &Toolkit,
        output_limit: usize,
        gate: Option<Gate>,
    ) -> Self {
        let (context, emitted) = context.with_queue();
        let mut this = Self {
            run: None,
            ending: None,
            context,
            gate,
            name: Arc::clone(&call.name),
            accumulator: Accumulator::new(),
            output_limit,
            ready: VecDeque::new(),
            is_ended: false,
        };
        match start(call, &this.context, toolkit) {
            Ok(stream) => this.run = Some(Run { stream, emitted, due: 0, held: None }),
            Err(text) => this.respond(Some(&text)),
        }
        this
    }

    /// Takes what the tool yielded or emitted.
    fn accept(&mut self, item: ToolYield) {
        match item {
            ToolYield::Event(event) => self.pass(event),
            ToolYield::Chunk(chunk) => match self.accumulator.push(&chunk, self.output_limit) {
                Accepted::Yes => {
                    for _ in 0..self.accumulator.take_replaced() {
                        self.context.caller().counters.ignore_chunk();
                    }
                    self.ready.push_back(CallItem::Chunk(chunk));
                }
                Accepted::AfterTheLast => self.context.caller().counters.ignore_chunk(),
                Accepted::TooMuch => {
                    let text = format!(
                        "the output of `{}` is over {} bytes and was cut",
                        self.name, self.output_limit
                    );
                    self.end(Some(text));
                }
            },
        }
    }

    /// Takes what was still on its way when the tool had ended: events pass, for whoever emitted them was told so.
    fn accept_late(&mut self, item: ToolYield) {
        match item {
            ToolYield::Event(event) => self.pass(event),
            ToolYield::Chunk(_) => self.context.caller().counters.ignore_chunk(),
        }
    }

    fn pass(&mut self, event: Arc<Event>) {
        let event = self.passed(event);
        self.ready.extend(event.map(CallItem::Event));
    }

    /// The event, where it may leave the call.
    fn passed(&mut self, event: Arc<Event>) -> Option<Arc<Event>> {
        match &mut self.gate {
            Some(gate) => gate.pass(event),
            None => Some(event),
        }
    }

    /// Stops the tool: nothing can be emitted from here on, and it is dropped. That is the tool's code and may panic, which
    /// is a failure where there was none.
    fn end(&mut self, failure: Option<String>) {
        let Some(Run { stream, mut emitted, held, .. }) = self.run.take() else { return };
        emitted.close();
        self.context.close();
        let dropped = catch(|| drop(stream)).map_err(|message| panic_text(&self.name, &message));
        let held = if let Some(Yielded::Item(item)) = held { Some(item) } else { None };
        self.ending = Some(Ending { emitted, held, failure: failure.or(dropped.err()) });
    }

    /// Takes what was emitted until the tool had ended, one item at a time; then responds.
    fn poll_ending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ending) = &mut self.ending else { return Poll::Ready(()) };
        // Pending only while somebody is just putting an item into the queue, or when the task has had its share.
        let emitted = std::task::ready!(ending.emitted.poll_recv(cx)).map(|emitted| emitted.item);
        if let Some(item) = emitted.or_else(|| ending.held.take()) {
            self.accept_late(item);
        } else {
            let failure = ending.failure.take();
            self.ending = None;
            self.respond(failure.as_deref());
        }
        Poll::Ready(())
    }

    /// Ends the call, as failed where a text says why.
    fn respond(&mut self, failure: Option<&str>) {
        self.is_ended = true;
        if let Some(text) = failure {
            let chunk = self.accumulator.fail(text);
            self.ready.push_back(CallItem::Chunk(chunk));
        }
        let response = self.accumulator.finish(&self.context.take_artifacts());
        self.ready.push_back(CallItem::Response(response));
        if let Some(gate) = &mut self.gate {
            gate.release();
        }
    }

    /// Counts what a tool has ready after its last chunk; events still pass. The response waits for nothing more.
    fn end_after_the_last(&mut self, cx: &mut Context<'_>) {
        for _ in 0..LOOK_AFTER_THE_LAST {
            let Some(run) = &mut self.run else { break };
            match run.poll(cx) {
                Poll::Ready(Yielded::Item(item)) => self.accept(item),
                Poll::Ready(Yielded::End | Yielded::Panic(_)) | Poll::Pending => break,
            }
        }
        self.end(None);
    }
}

/// Finds the tool and calls it, or says why not.
fn start(call: &ToolCall, context: &ToolContext, toolkit: &Toolkit) -> Result<ToolStream, String> {
    let tool = toolkit.get(&call.name).ok_or_else(|| {
        let known: Vec<_> = toolkit.names().map(|name| format!("`{name}`")).collect();
        if known.is_empty() {
            return format!("there is no tool `{}`, nor any other", call.name);
        }
        format!("there is no tool `{}`; the tools are: {}", call.name, known.join(", "))
    })?;
    let arguments = Arguments::parse(&call.arguments).map_err(|error| format!("`{}`: {error}", call.name))?;
    let invocation = ToolInvocation::new(&call.id, Arc::clone(&call.name), arguments);
    catch(|| tool.call(invocation, context.clone())).map_err(|message| panic_text(&call.name, &message))
}

fn panic_text(tool: &str, message: &str) -> String {
    format!("`{tool}` panicked: {message}")
}

impl Run {
    /// The next thing that the tool emitted or yielded, in the order in which it did.
    ///
    /// In rounds: the tool is polled, then all comes that it emitted up to there, then what it yielded. What others emit
    /// meanwhile by a clone of the context belongs to the next round, so they cannot keep the tool from being polled.
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Yielded> {
        loop {
            while let Some(due) = self.due.checked_sub(1) {
                self.due = due;
                // Not `poll_recv`: that says "pending" when tokio finds that the task has had its share, and what was
                // yielded would come first.
                if let Ok(emitted) = self.emitted.try_recv() {
                    return Poll::Ready(Yielded::Item(emitted.item));
                }
            }
            if self.held.is_some()
                && let Some(held) = self.held.take()
            {
                return Poll::Ready(held);
            }
            let mut polled = Poll::Pending;
            let yielded = match catch(|| polled = self.stream.as_mut().poll_next(cx)) {
                Ok(()) => match polled {
                    Poll::Ready(Some(item)) => Some(Yielded::Item(item)),
                    Poll::Ready(None) => Some(Yielded::End),
                    Poll::Pending => None,
                },
                Err(message) => Some(Yielded::Panic(message)),
            };
            self.due = self.emitted.len();
            if self.due > 0 {
                self.held = yielded;
                continue;
            }
            return match yielded {
                // What mostly happens: the tool has emitted nothing.
                Some(yielded) => Poll::Ready(yielded),
                None => match self.emitted.poll_recv(cx) {
                    Poll::Ready(Some(emitted)) => Poll::Ready(Yielded::Item(emitted.item)),
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                },
            };
        }
    }
}

impl Stream for CallTool {
    type Item = CallItem;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallItem>> {
        let this = &mut *self;
        for _ in 0..SILENT_ITEMS {
            if let Some(item) = this.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            if this.ending.is_some() {
                std::task::ready!(this.poll_ending(cx));
                continue;
            }
            if this.accumulator.is_complete() && this.run.is_some() {
                this.end_after_the_last(cx);
                continue;
            }
            let Some(run) = &mut this.run else {
                return Poll::Ready(None);
            };
            match std::task::ready!(run.poll(cx)) {
                // Nothing lies before it, so it need not wait in the line.
                Yielded::Item(ToolYield::Event(event)) => {
                    if let Some(event) = this.passed(event) {
                        return Poll::Ready(Some(CallItem::Event(event)));
                    }
                }
                Yielded::Item(item) => this.accept(item),
                Yielded::End => this.end(None),
                Yielded::Panic(message) => {
                    let text = panic_text(&this.name, &message);
                    this.end(Some(text));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // At least the response is still to come; how much more, only the tool knows.
        (self.ready.len() + usize::from(!self.is_ended), self.is_ended.then_some(self.ready.len()))
    }
}

impl FusedStream for CallTool {
    fn is_terminated(&self) -> bool {
        self.is_ended && self.ready.is_empty()
    }
}

impl Drop for CallTool {
    fn drop(&mut self) {
        // What was emitted has nobody to come to.
        self.end(None);
    }
}

impl fmt::Debug for CallTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallTool")
            .field("name", &self.name)
            .field("is_ended", &self.is_ended)
            .finish_non_exhaustive()
    }
}
