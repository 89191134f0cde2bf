//! Models, tools, streams and logs that misbehave: the session goes on, ends in order, or says why not.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use anabranch_adapters::{encode::Sse, tool_calls::ToolCalls};
use anabranch_pipeline::{
    ActingLayer, ActingStream, FunctionTool, Next, Tool, ToolCall, ToolContext, ToolDefinition,
    ToolInvocation, ToolStream,
};
use anabranch_proto::{
    Admitted, Artifact, ChildScope, Event, EventId, EventKind, FinishedReason, Json, Metadata, Outcome,
    Scope, SpawnMechanism, Timestamp, ToolCallId, ToolChunk, ToolResultState, Usage,
    event::{
        ReplyEnd, ReplyStart, SpawnSessionStart, StreamComplete, TextBlockDelta, TextBlockEnd, TextBlockStart,
    },
};
use anabranch_runtime::{
    Agent, Limits, Model, ModelError, ModelItem, ModelRequest, ModelStream, Permissions, Read, ScriptedModel,
    SessionError, Spawn, SpawnSubagent, Turn,
};
use anabranch_session::{AppendError, Batch, EventLog, LogError, MemoryLog};
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream};
use tokio::sync::watch;

use crate::support::{Nothing, events, kind, master, master_with, node, of_child, own, says};

/// A model whose every call is answered by a stream.
struct Streams {
    name: String,
    stream: Box<dyn Fn() -> ModelStream + Send + Sync>,
}

impl Streams {
    fn new(stream: impl Fn() -> ModelStream + Send + Sync + 'static) -> Self {
        Self { name: "streams".to_owned(), stream: Box::new(stream) }
    }

    fn repeating(item: impl Fn() -> ModelItem + Clone + Send + Sync + 'static) -> Self {
        Self::new(move || {
            let item = item.clone();
            stream::repeat_with(move || Ok(item())).boxed()
        })
    }
}

impl Model for Streams {
    fn name(&self) -> &str {
        &self.name
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        (self.stream)()
    }
}

/// What never gives an event: a model that is ready for ever with each of these must not hold anything up.
fn silent_items() -> [fn() -> ModelItem; 3] {
    [
        || ModelItem::Text(String::new()),
        || ModelItem::Usage(Usage::new(1, 1)),
        || ModelItem::ToolCallDelta { id: ToolCallId::new("ghost"), delta: "x".to_owned() },
    ]
}

#[tokio::test]
async fn a_model_that_is_always_ready_and_gives_nothing_is_stopped_at_its_limit() {
    for item in silent_items() {
        let limits = Limits::default().model_call(Duration::from_millis(20));
        let agent = Agent::builder("agent", Streams::repeating(item)).limits(limits).build();
        let finished = agent.reply_stream("Go.").finished().await.unwrap();
        assert_eq!(finished.error.unwrap().message, "the model did not finish within 0.02 s");
    }
}

#[tokio::test]
async fn a_model_that_is_always_ready_can_be_cancelled_and_closed() {
    for item in silent_items() {
        let session = Agent::builder("agent", Streams::repeating(item)).build().session();
        let reply = session.prompt("Go.").await.unwrap();
        tokio::task::yield_now().await;
        session.cancel();
        assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Interrupted);
        let reply = session.prompt("Again.").await.unwrap();
        tokio::task::yield_now().await;
        session.close().await;
        assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Interrupted);
    }
}

#[tokio::test]
async fn a_model_that_talks_without_end_is_stopped_by_time_and_by_size() {
    let talks = || Streams::repeating(|| ModelItem::Text("x".to_owned()));
    let limits = Limits::default().model_call(Duration::from_millis(20));
    let finished =
        Agent::builder("agent", talks()).limits(limits).build().reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.error.unwrap().message, "the model did not finish within 0.02 s");

    let limits = Limits::default().model_output(100);
    let finished =
        Agent::builder("agent", talks()).limits(limits).build().reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.error.unwrap().message, "the model's answer is over 100 bytes and was cut");
    assert_eq!(finished.message.unwrap().text(), "x".repeat(100), "what came is kept");
}

/// An answer that is whole and panics when it is dropped.
struct AnswersAndPanicsInDrop(bool, PanicsInDrop);

impl Stream for AnswersAndPanicsInDrop {
    type Item = Result<ModelItem, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let has_answered = std::mem::replace(&mut self.0, true);
        Poll::Ready((!has_answered).then(|| Ok(ModelItem::Text("fine".to_owned()))))
    }
}

#[tokio::test]
async fn a_model_that_panics_in_its_drop_after_its_answer_has_failed_and_says_so() {
    let answers = || Streams::new(|| Box::pin(AnswersAndPanicsInDrop(false, PanicsInDrop)));
    let finished = Agent::builder("agent", answers()).build().reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.error.unwrap().message, "the model panicked: in drop");
    assert_eq!(finished.message.unwrap().text(), "fine", "what came is kept");

    let worker = Agent::builder("worker", answers()).build();
    let seen = events(master(worker, vec![node("a", "n1")]).reply_stream("Go.")).await;
    let errors = kind(of_child(&seen, "n1"), |kind| {
        if let EventKind::StreamComplete(complete) = kind { complete.error.clone() } else { None }
    });
    assert_eq!(errors[0].message, "the model panicked: in drop", "a child's as the root's");
}

/// A stream that is pending for ever and panics when it is dropped.
struct PanicsInDrop;

impl Stream for PanicsInDrop {
    type Item = Result<ModelItem, ModelError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "in drop");
    }
}

#[tokio::test]
async fn a_panic_in_a_drop_still_ends_the_stream() {
    let session = Agent::builder("agent", Streams::new(|| Box::pin(PanicsInDrop))).build().session();
    let mut reply = session.prompt("Go.").await.unwrap();
    for _ in 0..3 {
        reply.next().await.unwrap();
    }
    session.cancel();
    assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Interrupted);
    let reply = session.prompt("Again.").await.unwrap();
    reply.cancel();
    assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Interrupted, "the session lives on");
}

#[tokio::test(start_paused = true)]
async fn a_childs_model_that_panics_in_its_drop_has_timed_out() {
    let worker = Agent::builder("worker", Streams::new(|| Box::pin(PanicsInDrop))).build();
    let call = serde_json::json!({ "task": "x", "timeout": 1, "metadata": { "node_id": "n1" } });
    let seen = events(master(worker, vec![call]).reply_stream("Go.")).await;
    let ends = kind(own(&seen), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { end.response.get_str("outcome") } else { None }
    });
    assert_eq!(ends, ["timed_out"]);
}

#[tokio::test]
async fn limits_without_bounds_are_no_panic() {
    let limits = Limits::default()
        .stall(Duration::MAX)
        .model_call(Duration::MAX)
        .max_depth(u32::MAX)
        .max_spawned(usize::MAX)
        .max_running(usize::MAX)
        .reader_window(usize::MAX);
    let model = ScriptedModel::new("scripted").turn(|_| Turn::new().text("fine"));
    let agent = Agent::builder("agent", model).limits(limits).build();
    assert_eq!(agent.reply_stream("Go.").finished().await.unwrap().text(), "fine");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_never_slow_loses_nothing_however_large_the_results() {
    let size = 15 * 1024 * 1024;
    let large =
        FunctionTool::new("large", "", move |_: Nothing, _| async move { Ok::<_, String>("x".repeat(size)) });
    let model = ScriptedModel::new("scripted")
        .turn(|_| (0..6).fold(Turn::new(), |turn, _| turn.call("large", serde_json::json!({}))))
        .turn(|_| Turn::new().text("end"));
    let start = tokio::time::Instant::now();
    // Fails on a gap.
    let seen = events(Agent::builder("agent", model).tool(large).build().reply_stream("Go.")).await;
    let bytes: usize = kind(&seen, |kind| {
        if let EventKind::ToolResultTextDelta(delta) = kind { Some(delta.delta.len()) } else { None }
    })
    .iter()
    .sum();
    assert_eq!(bytes, 6 * size);
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody waited for anybody");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_beyond_the_end_holds_nobody_back() {
    let model = ScriptedModel::from_fn("scripted", |_| Turn::new().text("word ".repeat(100)));
    let session =
        Agent::builder("agent", model).limits(Limits::default().reader_window(1_000)).build().session();
    let _beyond = session.subscribe_lossless(1_000);
    let start = tokio::time::Instant::now();
    session.prompt("Go.").await.unwrap().finished().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_client_that_resumes_gets_what_it_would_have_got() {
    let session = master(says("worker", "some words here"), vec![node("a", "n1"), node("b", "n2")]).session();
    session.prompt("Go.").await.unwrap().finished().await.unwrap();
    session.close().await;
    let read = async |after| {
        let chunks: Vec<_> = session.attach(after, Sse::new(ToolCalls::new())).collect().await;
        String::from_utf8(chunks.concat()).unwrap()
    };
    let whole = read(0).await;
    // After each frame that has an id, the rest is what a client with that id gets.
    let mut cursors = 0;
    for (at, _) in whole.match_indices("id: ") {
        let rest = &whole[at + 4..];
        let (id, _) = rest.split_once('\n').unwrap();
        let frames = &rest[rest.find("\n\n").unwrap() + 2..];
        assert_eq!(read(id.parse().unwrap()).await, frames, "after {id}");
        cursors += 1;
    }
    assert!(cursors >= 15, "{cursors}");
}

/// A tool that runs a stream of events as a child of its call.
struct Runs<F>(ToolDefinition, &'static str, F);

impl<F> Runs<F> {
    fn new(name: &'static str, events: F) -> Self {
        Self(ToolDefinition::new(name, "", Json::parse(r#"{"type":"object"}"#).unwrap()), name, events)
    }
}

impl<F, S> Tool for Runs<F>
where
    F: Fn() -> S + Send + Sync,
    S: Stream<Item = Event> + Send + 'static,
{
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, _: ToolInvocation, context: ToolContext) -> ToolStream {
        let keys = Metadata::default().with("node_id", self.1);
        Spawn::new(&context, self.1, "Do it.").unwrap().metadata(keys).stream((self.2)())
    }
}

fn calls(names: &'static [&'static str]) -> ScriptedModel {
    ScriptedModel::new("scripted")
        .turn(move |_| names.iter().fold(Turn::new(), |turn, name| turn.call(*name, serde_json::json!({}))))
        .turn(|request| {
            let results: Vec<_> = request
                .results()
                .map(|result| format!("{} {}", result.state.as_str(), result.output.text()))
                .collect();
            Turn::new().text(results.join("; "))
        })
}

/// Events with the ids 1, 2, 3…, as a fixture or a counter gives them.
fn numbered(events: impl IntoIterator<Item = (Scope, EventKind)>) -> Vec<Event> {
    let at = Timestamp::from_unix(0, 0);
    let number = |(number, (scope, kind)): (i32, (Scope, EventKind))| {
        Event::new(EventId::new(number.to_string()), at, scope, Metadata::default(), kind)
    };
    (1..).zip(events).map(number).collect()
}

fn a_reply(text: &str) -> Vec<(Scope, EventKind)> {
    a_reply_of("theirs", text)
}

fn a_reply_of(session: &str, text: &str) -> Vec<(Scope, EventKind)> {
    let kinds: [EventKind; 5] = [
        ReplyStart::new(session, "r", "theirs").into(),
        TextBlockStart::new("r", "b").into(),
        TextBlockDelta::new("r", "b", text).into(),
        TextBlockEnd::new("r", "b").into(),
        ReplyEnd::new(session, "r", FinishedReason::Completed).into(),
    ];
    kinds.into_iter().map(|kind| (Scope::Root, kind)).collect()
}

#[tokio::test]
async fn children_whose_events_have_the_same_ids_are_both_whole() {
    let events_of = |text: &'static str| move || stream::iter(numbered(a_reply(text)));
    let agent = Agent::builder("master", calls(&["one", "two"]))
        .tool(Runs::new("one", events_of("first")))
        .tool(Runs::new("two", events_of("second")))
        .build();
    let seen = events(agent.reply_stream("Go.")).await;
    for name in ["one", "two"] {
        assert_eq!(of_child(&seen, name).count(), 7, "{name}");
    }
}

#[tokio::test]
async fn a_foreign_sessions_children_are_its_childs_children() {
    let inner = ChildScope::new("theirs-inner", "theirs", "sa_inner", "inner");
    let scope = Scope::from(inner.clone());
    let mut script = a_reply("outer");
    let spawn = SpawnSessionStart::new(&inner, SpawnMechanism::Sync, "Run inner task");
    let said = a_reply_of("theirs-inner", "inner").into_iter().map(|(_, kind)| (scope.clone(), kind));
    let nested: Vec<_> = [(Scope::Root, spawn.into())]
        .into_iter()
        .chain(said)
        .chain([(scope.clone(), StreamComplete::new(Outcome::Completed).into())])
        .collect();
    script.splice(1..1, nested);
    let agent = Agent::builder("master", calls(&["theirs"]))
        .tool(Runs::new("theirs", move || stream::iter(numbered(script.clone()))))
        .build();
    let session = agent.session();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    let outer = of_child(&seen, "theirs").next().unwrap().scope.child().unwrap().clone();
    let mut inner = of_child(&seen, "inner").peekable();
    assert!(inner.peek().is_some());
    for event in inner {
        let scope = event.scope.child().unwrap();
        assert_eq!((&scope.parent_session_id, scope.depth), (&outer.child_session_id, 2));
    }
    let spawns = kind(&seen, |kind| {
        if let EventKind::SpawnSessionStart(spawn) = kind {
            Some((spawn.depth, &spawn.parent_session_id))
        } else {
            None
        }
    });
    assert_eq!(spawns, [(1, session.id()), (2, &outer.child_session_id)]);
    assert_eq!(session.counters().reparented, 0);
}

#[tokio::test]
async fn a_foreign_stream_that_panics_is_a_child_that_failed() {
    let agent = Agent::builder("master", calls(&["theirs"]))
        .tool(Runs::new("theirs", || {
            stream::iter(numbered(a_reply("so far").into_iter().take(3)))
                .chain(stream::once(async { panic!("at sea") }))
        }))
        .build();
    let seen = events(agent.reply_stream("Go.")).await;
    let ends = kind(own(&seen), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { Some((end.state, &end.response)) } else { None }
    });
    let keys: Vec<_> = ends[0].1.iter().map(|(key, _)| key).collect();
    assert_eq!(
        (ends[0].0, &*keys),
        (ToolResultState::Error, ["subagent_id", "child_session_id", "outcome", "node_id"].as_slice())
    );
    let complete = kind(of_child(&seen, "theirs"), |kind| {
        if let EventKind::StreamComplete(complete) = kind { Some(complete) } else { None }
    });
    assert_eq!(complete[0].error.as_ref().unwrap().message, "the sub-agent panicked: at sea");
}

/// A tool that runs two children side by side in one call.
struct Both(ToolDefinition);

impl Tool for Both {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, _: ToolInvocation, context: ToolContext) -> ToolStream {
        let run =
            |name: &'static str, text| Spawn::new(&context, name, "Go.").unwrap().run(&says(name, text));
        stream::select(run("quick", "q"), run("slow", "one two three four five six")).boxed()
    }
}

#[tokio::test]
async fn one_call_may_spawn_several_children_and_both_complete() {
    let definition = ToolDefinition::new("both", "", Json::parse(r#"{"type":"object"}"#).unwrap());
    let agent = Agent::builder("master", calls(&["both"])).tool(Both(definition)).build();
    let seen = events(agent.reply_stream("Go.")).await;
    for name in ["quick", "slow"] {
        let complete = kind(of_child(&seen, name), |kind| {
            if let EventKind::StreamComplete(complete) = kind { Some(complete.outcome) } else { None }
        });
        assert_eq!(complete, [Outcome::Completed], "{name}");
    }
}

#[tokio::test]
async fn children_that_nobody_spawned_count_for_the_limit_too() {
    let strangers = || {
        let scope = |number: i32| {
            Scope::from(ChildScope::new(
                format!("stranger-{number}"),
                "theirs",
                format!("sa-{number}"),
                "stranger",
            ))
        };
        let mut script = a_reply("x");
        let said = (0..3).map(|number| (scope(number), TextBlockStart::new("r", "b").into()));
        script.splice(1..1, said);
        stream::iter(numbered(script))
    };
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("theirs", serde_json::json!({})))
        .turn(|_| Turn::new().call("spawn_subagent", serde_json::json!({ "task": "x" })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let agent = Agent::builder("master", model)
        .tool(Runs::new("theirs", strangers))
        .tool(SpawnSubagent::new(says("worker", "hi")))
        .limits(Limits::default().max_spawned(4))
        .build();
    let session = agent.session();
    let finished = session.prompt("Go.").await.unwrap().finished().await.unwrap();
    assert_eq!(
        finished.text(),
        "4 sub-agents have been spawned in this session, which is the limit; do the work yourself"
    );
    assert_eq!(session.counters().refused_events, 0);
}

#[tokio::test]
async fn a_templates_metadata_is_on_its_childs_events() {
    let model = ScriptedModel::new("scripted").turn(|_| Turn::new().text("hi"));
    let keys = Metadata::default().with("plugin_id", "p1").with("node_id", "overridden");
    let worker = Agent::builder("worker", model).metadata(keys).build();
    let seen = events(master(worker, vec![node("x", "n1")]).reply_stream("Go.")).await;
    for event in of_child(&seen, "n1") {
        assert_eq!(event.metadata.get_str("plugin_id").as_deref(), Some("p1"));
        assert_eq!(event.metadata.get_str("node_id").as_deref(), Some("n1"));
    }
}

#[tokio::test]
async fn files_are_in_what_a_reply_came_to() {
    let write = FunctionTool::new("write", "", |_: Nothing, context| async move {
        context.artifact(Artifact::new("a.csv", "out/a.csv", "text/csv"));
        Ok::<_, String>("written")
    });
    let finished = Agent::builder("agent", calls(&["write"]))
        .tool(write)
        .build()
        .reply_stream("Go.")
        .finished()
        .await
        .unwrap();
    assert_eq!(finished.files, [Artifact::new("a.csv", "out/a.csv", "text/csv")]);
}

#[tokio::test]
async fn metadata_from_a_model_is_bounded() {
    let spawn = SpawnSubagent::new(says("worker", "hi"));
    let call = serde_json::json!({ "task": "x", "metadata": { "blob": "x".repeat(20_000) } });
    let finished = master_with(spawn, vec![call]).reply_stream("Go.").finished().await.unwrap();
    assert!(
        finished.text().starts_with("`metadata` has 20011 bytes and may have 16384"),
        "{}",
        finished.text()
    );
}

/// A log that takes so many batches, and that can be read until it is told otherwise.
#[derive(Debug)]
struct Faulty {
    log: MemoryLog,
    takes: u64,
    panics: bool,
    is_unreadable: AtomicBool,
}

impl Faulty {
    fn new(takes: u64, panics: bool) -> Arc<Self> {
        Arc::new(Self { log: MemoryLog::new(), takes, panics, is_unreadable: AtomicBool::new(false) })
    }
}

impl EventLog for Faulty {
    fn append(&self, batch: &[Admitted]) -> Result<(), AppendError> {
        // Once, so that a log that has room again is no excuse for a hole.
        let refuses = batch.iter().any(|admitted| admitted.seq == self.takes);
        assert!(!(refuses && self.panics), "a log that panics");
        if refuses { Err(AppendError::Full) } else { self.log.append(batch) }
    }

    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>> {
        if self.is_unreadable.load(Ordering::SeqCst) {
            return async { Err(LogError::new("the disk is gone")) }.boxed();
        }
        self.log.read(after, max)
    }

    fn appended(&self) -> watch::Receiver<u64> {
        self.log.appended()
    }
}

#[tokio::test]
async fn a_log_that_takes_no_more_ends_the_session_without_a_hole_and_says_so() {
    for panics in [false, true] {
        let session = says("agent", "hi").session_builder().log(Faulty::new(4, panics)).start().unwrap();
        let reply = session.prompt("Go.").await.unwrap();
        let numbers: Vec<_> = session
            .subscribe(0)
            .map(|read| if let Read::Event(admitted) = read { admitted.seq } else { 0 })
            .collect()
            .await;
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert!(numbers.len() < 4);
        for error in [reply.finished().await.err(), session.prompt("Again.").await.err()] {
            let Some(SessionError::LogRefused(why)) = error else { panic!("{error:?}") };
            let panicked = std::error::Error::source(&why).map(ToString::to_string);
            assert_eq!(panicked.as_deref(), panics.then_some("the log panicked: a log that panics"));
        }
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_no_orderly_end() {
    let log = Faulty::new(u64::MAX, false);
    let shared: Arc<dyn EventLog> = Arc::clone(&log) as _;
    let session = says("agent", "hi").session_builder().log(shared).start().unwrap();
    session.prompt("Go.").await.unwrap().finished().await.unwrap();
    log.is_unreadable.store(true, Ordering::SeqCst);
    let reply = session.prompt("Again.").await.unwrap();
    assert!(matches!(reply.finished().await, Err(SessionError::LogUnreadable(_))));
    let mut reader = session.subscribe(0);
    assert_eq!(reader.next().await, None);
    assert!(matches!(reader.error(), Some(SessionError::LogUnreadable(_))));
}

#[tokio::test]
async fn a_log_that_has_events_begins_no_second_session() {
    let log: Arc<dyn EventLog> = Arc::new(MemoryLog::new());
    let agent = says("agent", "hi");
    let session = agent.session_builder().log(Arc::clone(&log)).start().unwrap();
    session.prompt("Go.").await.unwrap().finished().await.unwrap();
    let error = agent.session_builder().log(log).start().unwrap_err();
    assert_eq!(error.to_string(), "the log has 9 events already; a new session needs a log of its own");
}

#[tokio::test]
async fn a_cancel_right_after_the_prompt_stops_it() {
    let session = says("agent", "one two three").session();
    for _ in 0..3 {
        let reply = session.prompt("Go.").await.unwrap();
        session.cancel();
        assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Interrupted);
    }
}

#[tokio::test]
async fn a_session_stopped_from_outside_is_no_orderly_end() {
    let (reply, _session) = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let agent =
            Agent::builder("agent", ScriptedModel::from_fn("scripted", |_| Turn::new().hang())).build();
        runtime.block_on(async {
            let session = agent.session();
            let mut reply = session.prompt("Go.").await.unwrap();
            reply.next().await.unwrap();
            (reply, session)
        })
    })
    .join()
    .unwrap();
    assert!(matches!(reply.finished().await, Err(SessionError::Aborted)));
}

#[tokio::test]
async fn output_of_tools_of_any_size_reaches_the_model_whole() {
    let chunks = FunctionTool::new("chunks", "", |_: Nothing, context| async move {
        for _ in 0..1_000 {
            context.send(ToolChunk::text("ü".repeat(100))).await.ok();
        }
        Ok::<_, String>(())
    });
    let finished = Agent::builder("agent", calls(&["chunks"]))
        .tool(chunks)
        .build()
        .reply_stream("Go.")
        .finished()
        .await
        .unwrap();
    assert_eq!(finished.text(), format!("success {}", "ü".repeat(100_000)));
}

/// Passes everything on; what it costs is stack.
struct PassesOn;

impl ActingLayer for PassesOn {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        ActingStream::boxed(next.run(call, context))
    }
}

/// The deepest that any limit allows, as the documentation of the limit says.
const DEEPEST: u32 = 32;

#[test]
fn the_deepest_tree_with_layers_at_every_level_fits_a_worker_threads_stack() {
    // 2 MiB, tokio's own figure, however this test's threads are.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_stack_size(2 * 1024 * 1024)
        .enable_all()
        .build()
        .unwrap();
    let mut agent = says("leaf", "the bottom");
    for level in 0..=DEEPEST {
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("spawn_subagent", serde_json::json!({ "task": "down" })))
            .turn(|request| Turn::new().text(request.last_result_text()));
        let limits = Limits::default().max_depth(u32::MAX).max_running(usize::MAX);
        let mut builder = Agent::builder(format!("level {level}"), model)
            .tool(SpawnSubagent::new(agent))
            .permissions(Permissions::new().allow("spawn_subagent"))
            .limits(limits);
        for _ in 0..12 {
            builder = builder.layer(PassesOn);
        }
        agent = builder.build();
    }
    let finished = runtime.block_on(async { agent.reply_stream("Go.").finished().await }).unwrap();
    // One level was too many, and the one above it says so.
    let refused = format!("would be at depth {}, and the limit is {DEEPEST};", DEEPEST + 1);
    assert!(finished.text().contains(&refused), "{}", finished.text());
}
