//! What the tests share: a stamp that counts, a caller, a scripted tool, ways to poll.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use anabranch_pipeline::{
    Acting, Caller, ExecuteToolCall, ExecuteToolCalls, Executed, Tool, ToolCall, ToolContext, ToolDefinition,
    ToolInvocation, ToolStream, ToolYield, Toolkit,
};
use anabranch_proto::{
    ChildScope, Event, EventKind, Json, Metadata, Scope, Stamp, Timestamp, ToolChunk, ToolResponse,
    ToolResultState, event::Custom,
};
use futures::{Stream, stream};

/// Ids count up from 1, the time stands still.
#[derive(Debug, Default)]
pub(crate) struct CountingStamp(AtomicU64);

impl Stamp for CountingStamp {
    fn unique(&self) -> [u8; 16] {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes()
    }

    fn ascending(&self) -> [u8; 16] {
        self.unique()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(1_764_496_800, 0)
    }
}

pub(crate) fn root_caller() -> Arc<Caller> {
    Arc::new(Caller::new("ses_root", "reply", Arc::new(CountingStamp::default())))
}

pub(crate) fn child_caller() -> Arc<Caller> {
    let stamp = Arc::new(CountingStamp::default());
    let metadata = Metadata::default().with("subagent_id", "sa_caller");
    Arc::new(Caller::new("ses_caller", "reply", stamp).scope(scope("ses_caller", 2)).metadata(metadata))
}

/// The scope of some child.
pub(crate) fn scope(session: &str, run: u32) -> Scope {
    Scope::from(ChildScope::new(session, "ses_root", format!("sa_{session}"), "worker").run(run))
}

/// An event that no stamp of a caller has made.
pub(crate) fn event(scope: Scope, kind: impl Into<EventKind>) -> Arc<Event> {
    let time = Timestamp::from_unix(1_764_496_801, 0);
    Arc::new(Event::new("injected", time, scope, Metadata::default().with("foreign", true), kind))
}

pub(crate) fn custom(name: &str) -> Arc<Event> {
    event(Scope::Root, Custom::new(name, Json::from(serde_json::Value::Null)))
}

/// What a scripted tool does, one after another. It ends after the last step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Yields a chunk.
    Chunk(ToolChunk),
    /// Yields an event.
    Event(Arc<Event>),
    /// Emits an event by the context.
    Emit(Arc<Event>),
    /// Sends a chunk by the context.
    Send(ToolChunk),
    /// Is pending once, and wakes itself.
    Yield,
    /// Panics.
    Panic(&'static str),
    /// Is pending forever.
    Hang,
}

pub(crate) fn text(text: &str) -> Step {
    Step::Chunk(ToolChunk::text(text))
}

pub(crate) fn last(text: &str) -> Step {
    Step::Chunk(ToolChunk::text(text).state(ToolResultState::Success).last())
}

/// Who started and who was dropped, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    pub(crate) fn note(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A tool that follows a script.
pub(crate) struct Script {
    definition: ToolDefinition,
    steps: Vec<Step>,
    is_exclusive: bool,
    journal: Journal,
}

impl Script {
    pub(crate) fn new(name: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        let parameters = Json::parse(r#"{"type":"object"}"#).unwrap();
        let definition = ToolDefinition::new(name, "Follows a script.", parameters);
        let steps = steps.into_iter().collect();
        Self { definition, steps, is_exclusive: false, journal: Journal::default() }
    }

    pub(crate) fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }

    pub(crate) fn journal(mut self, journal: &Journal) -> Self {
        self.journal = journal.clone();
        self
    }
}

struct DropGuard(Journal, Arc<str>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.note(format!("drop {}", self.1));
    }
}

impl Tool for Script {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        self.journal.note(format!("start {}", invocation.id));
        let guard = DropGuard(self.journal.clone(), invocation.id.as_str().into());
        let steps = self.steps.clone().into_iter();
        Box::pin(stream::unfold((steps, context, guard), |(mut steps, context, guard)| async move {
            loop {
                match steps.next()? {
                    Step::Chunk(chunk) => return Some((ToolYield::Chunk(chunk), (steps, context, guard))),
                    Step::Event(event) => return Some((ToolYield::Event(event), (steps, context, guard))),
                    Step::Emit(event) => context.emit(event).await.unwrap(),
                    Step::Send(chunk) => context.send(chunk).await.unwrap(),
                    Step::Yield => pending_once().await,
                    Step::Panic(message) => panic!("{message}"),
                    Step::Hang => std::future::pending().await,
                }
            }
        }))
    }
}

/// A tool of any stream.
pub(crate) struct StreamTool<F> {
    definition: ToolDefinition,
    make: F,
}

impl<S, F> StreamTool<F>
where
    S: Stream<Item = ToolYield> + Send + 'static,
    F: Fn(ToolContext) -> S + Send + Sync,
{
    pub(crate) fn new(name: &str, make: F) -> Self {
        let parameters = Json::parse(r#"{"type":"object"}"#).unwrap();
        Self { definition: ToolDefinition::new(name, "Is a stream.", parameters), make }
    }
}

impl<S, F> Tool for StreamTool<F>
where
    S: Stream<Item = ToolYield> + Send + 'static,
    F: Fn(ToolContext) -> S + Send + Sync,
{
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(&self, _invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        Box::pin((self.make)(context))
    }
}

/// Pending once, then ready; wakes the task.
pub(crate) fn pending_once() -> impl Future<Output = ()> + Send {
    let mut is_ready = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut is_ready, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A call of a tool without arguments. The call has the tool's name.
pub(crate) fn call(name: &str) -> ToolCall {
    ToolCall::new(name, name, "{}")
}

pub(crate) fn acting(tools: impl IntoIterator<Item = Script>) -> Acting {
    Acting::new(tools.into_iter().fold(Toolkit::new(), Toolkit::with))
}

/// Runs one scripted call to its end.
pub(crate) fn run_script(steps: impl IntoIterator<Item = Step>, caller: &Arc<Caller>) -> Vec<Executed> {
    run_call(call("a"), caller, &acting([Script::new("a", steps)]))
}

pub(crate) fn run_call(call: ToolCall, caller: &Arc<Caller>, acting: &Acting) -> Vec<Executed> {
    drain(ExecuteToolCall::new(call, Arc::clone(caller), acting))
}

pub(crate) fn run_calls(
    calls: impl IntoIterator<Item = ToolCall>,
    caller: &Arc<Caller>,
    acting: &Acting,
) -> Vec<Executed> {
    drain(ExecuteToolCalls::new(calls, Arc::clone(caller), acting))
}

/// All items of a stream that never waits for long.
pub(crate) fn drain<S: Stream>(stream: S) -> Vec<S::Item> {
    let mut stream = pin!(stream);
    let mut items = Vec::new();
    let mut pending = 0;
    loop {
        match poll(&mut stream) {
            Poll::Ready(Some(item)) => items.push(item),
            Poll::Ready(None) => return items,
            Poll::Pending => pending += 1,
        }
        assert!(pending < 10_000 && items.len() < 100_000, "the stream does not end");
    }
}

/// Polls once with a waker that does nothing.
pub(crate) fn poll<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

/// Counts how often a task was woken.
#[derive(Debug, Default)]
pub(crate) struct WakeCounter(AtomicUsize);

impl WakeCounter {
    /// A counter and the waker that it counts for.
    pub(crate) fn pair() -> (Arc<Self>, Waker) {
        let counter = Arc::new(Self::default());
        (Arc::clone(&counter), Waker::from(counter))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Each item as a short line.
pub(crate) fn lines(items: &[Executed]) -> Vec<String> {
    items.iter().map(line).collect()
}

fn line(item: &Executed) -> String {
    let event = match item {
        Executed::Response(id, response) => {
            return format!("{id} response {} {:?}", response.state.as_str(), response.text());
        }
        Executed::Event(event) => event,
    };
    if let EventKind::ToolResultStart(start) = &event.kind {
        format!("{} start", start.tool_call_id)
    } else if let EventKind::ToolResultTextDelta(delta) = &event.kind {
        format!("{} text {:?}", delta.tool_call_id, delta.delta)
    } else if let EventKind::ToolResultEnd(end) = &event.kind {
        format!("{} end {}", end.tool_call_id, end.state.as_str())
    } else if let EventKind::Custom(custom) = &event.kind {
        format!("custom {}", custom.name)
    } else {
        event.kind.tag().to_owned()
    }
}

/// The one response, which is the last item.
pub(crate) fn response(items: &[Executed]) -> &ToolResponse {
    let responses = items.iter().filter(|item| matches!(item, Executed::Response(..))).collect::<Vec<_>>();
    assert_eq!(responses.len(), 1, "{items:?}");
    match items.last() {
        Some(Executed::Response(_, response)) => response,
        other => panic!("the last item is {other:?}"),
    }
}

/// Checks what holds of every call: one start first, one end, the response last, states that agree, deltas that add up
/// to the response's text. Gives the response.
pub(crate) fn check_call(items: &[Executed]) -> &ToolResponse {
    let response = response(items);
    let own = items.iter().filter_map(own_kind).collect::<Vec<_>>();
    assert!(matches!(own.first(), Some(EventKind::ToolResultStart(_))), "{items:?}");
    let starts = own.iter().filter(|kind| matches!(kind, EventKind::ToolResultStart(_))).count();
    let ends = own.iter().filter(|kind| matches!(kind, EventKind::ToolResultEnd(_))).count();
    assert_eq!((starts, ends), (1, 1), "{items:?}");
    let Some(EventKind::ToolResultEnd(end)) = own.last() else { panic!("{items:?}") };
    assert_eq!(end.state, response.state);
    assert_eq!(end.response, response.metadata);
    let is_end = |item: &Executed| matches!(own_kind(item), Some(EventKind::ToolResultEnd(_)));
    assert_eq!(items.iter().position(is_end), Some(items.len() - 2), "the end is next to the response");
    assert_eq!(wire_text(items), response.text());
    assert_ne!(response.state, ToolResultState::Running);
    response
}

/// The text that a reader of the events has.
pub(crate) fn wire_text(items: &[Executed]) -> String {
    let mut text = String::new();
    for kind in items.iter().filter_map(own_kind) {
        if let EventKind::ToolResultTextDelta(delta) = kind {
            text.push_str(&delta.delta);
        }
    }
    text
}

/// The kind, where the caller's own stamp made the event.
fn own_kind(item: &Executed) -> Option<&EventKind> {
    match item {
        Executed::Event(event) if event.id.to_string() != "injected" => Some(&event.kind),
        Executed::Event(_) | Executed::Response(..) => None,
    }
}
