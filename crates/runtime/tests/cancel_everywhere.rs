//! A fixed tree of agents, stopped at every poll of whatever runs in it: the rules of a stream hold each time, and nothing
//! lives on.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use anabranch_pipeline::{FunctionTool, Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream};
use anabranch_proto::{
    Event, EventKind, Outcome, Scope, ToolResultState,
    grammar::{Profile, Verifier},
};
use anabranch_runtime::{
    Agent, Limits, Model, ModelRequest, ModelStream, Permissions, Read, Reply, ScriptedModel, Session,
    SpawnSubagent, Turn,
};
use futures::{FutureExt, Stream, StreamExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// How the tree is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Token,
    Session,
    DropReply,
    Close,
    /// Of one child, the one with a child of its own.
    OneChild,
    Never,
}

/// Counts the polls of every fake and what is alive, and stops the tree at one poll.
#[derive(Clone, Default)]
struct Probe(Arc<Inner>);

#[derive(Default)]
struct Inner {
    polls: AtomicUsize,
    at: AtomicUsize,
    alive: AtomicUsize,
    stop: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Probe {
    fn poll(&self) {
        let poll = self.0.polls.fetch_add(1, Ordering::SeqCst);
        if poll == self.0.at.load(Ordering::SeqCst)
            && let Some(stop) = self.0.stop.lock().unwrap().take()
        {
            stop();
        }
    }

    fn alive(&self) -> usize {
        self.0.alive.load(Ordering::SeqCst)
    }

    fn watch<S>(&self, stream: S) -> Watched<S> {
        self.0.alive.fetch_add(1, Ordering::SeqCst);
        Watched { stream, probe: self.clone(), has_paused: false }
    }
}

/// A stream whose polls are counted. It pauses before each item, so that there is a poll between any two.
struct Watched<S> {
    stream: S,
    probe: Probe,
    has_paused: bool,
}

impl<S: Stream + Unpin> Stream for Watched<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.probe.poll();
        self.has_paused = !self.has_paused;
        if self.has_paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_next(cx)
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        self.probe.0.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

struct WatchedModel(ScriptedModel, Probe);

impl Model for WatchedModel {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        Box::pin(self.1.watch(self.0.stream(request)))
    }
}

struct WatchedTool<T>(T, Probe);

impl<T: Tool> Tool for WatchedTool<T> {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        Box::pin(self.1.watch(self.0.call(invocation, context)))
    }
}

fn work(name: &'static str, probe: &Probe, hangs: bool) -> WatchedTool<impl Tool + use<>> {
    let tool = FunctionTool::new(name, "", move |_: Nothing, context| async move {
        context.custom("progress", &1).await.map_err(|error| error.to_string())?;
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok::<_, String>("worked")
    });
    WatchedTool(tool, probe.clone())
}

fn model(script: ScriptedModel, probe: &Probe) -> WatchedModel {
    WatchedModel(script, probe.clone())
}

fn call(name: &str, background: bool) -> serde_json::Value {
    json!({ "task": name, "timeout": 5, "background": background, "metadata": { "node_id": name } })
}

/// A root with three children, one of which has one of its own, hung: one hangs, one asks; and one in the background.
fn tree(probe: &Probe) -> Agent {
    let named = |agent: Agent| SpawnSubagent::new(agent).named_by(|args| args.metadata_str("node_id"));
    let works = |name: &'static str, hangs: bool| {
        let script = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().thinking("Hm.").text("I begin.").call(name, json!({})))
            .turn(|request| Turn::new().text(request.last_result_text()));
        Agent::builder("worker", model(script, probe)).tool(work(name, probe, hangs)).build()
    };
    let outer = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", call("deep", false)))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let outer = Agent::builder("outer", model(outer, probe)).tool(named(works("work", false))).build();
    let slow = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().paced_text("one two three", Duration::from_secs(1)).call("work", json!({})));
    let slow = Agent::builder("slow", model(slow, probe)).tool(work("work", probe, false)).build();
    let root = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new()
                .text("Go.")
                .call("slow", call("background", true))
                .call("outer", call("outer", false))
                .call("hangs", call("hangs", false))
                .call("asks", call("asks", false))
        })
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join(" | "))
        });
    Agent::builder("root", model(root, probe))
        .tool(named(outer).as_tool("outer", ""))
        .tool(named(works("hang", true)).as_tool("hangs", ""))
        .tool(named(works("ask", false)).as_tool("asks", ""))
        .tool(named(slow).as_tool("slow", ""))
        .permissions(Permissions::new().ask("ask"))
        .limits(Limits::default().request(Duration::from_secs(3)))
        .build()
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Stops the tree at one poll and checks all that must hold; gives the number of polls and the root's outcome.
async fn run(stop: Stop, at: usize) -> (usize, Outcome) {
    let before = alive_tasks();
    let probe = Probe::default();
    let session = tree(&probe).session();
    let token = CancellationToken::new();
    let reply = session.prompt_until("Go.", &token).await.unwrap().cancel_on_drop();
    let reply = Arc::new(Mutex::new(Some(reply)));
    arm(&probe, stop, at, &session, &token, &reply);

    // Beside the reply a reader of the whole; the reply is read as long as there is one.
    let mut reader = session.subscribe(0);
    let mut events = Vec::new();
    while !events.last().is_some_and(is_root_end) {
        // So far as there is something to read; the reader says when there is more.
        let _: Option<Option<Read>> =
            reply.lock().unwrap().as_mut().and_then(|reply| reply.next().now_or_never());
        let Some(Read::Event(admitted)) = reader.next().await else { break };
        events.push(admitted.event);
    }
    if stop == Stop::Token || stop == Stop::Session || stop == Stop::DropReply {
        let cancelled = at < probe.0.polls.load(Ordering::SeqCst);
        // Of a cancelled reply nothing lives but the session, not even in the background.
        if cancelled && outcome(&events) == Outcome::Interrupted {
            assert_eq!(probe.alive(), 0, "{stop:?} at {at}");
            assert_eq!(alive_tasks(), before + 1, "{stop:?} at {at}");
            assert_eq!(session.children_running(), 0, "{stop:?} at {at}");
        }
    }
    session.close().await;
    while let Some(Read::Event(admitted)) = reader.next().await {
        events.push(admitted.event);
    }
    check(&events, &format!("{stop:?} at {at}"));
    assert_eq!(probe.alive(), 0, "{stop:?} at {at}: a fake lives on");
    assert_eq!(session.children_running(), 0, "{stop:?} at {at}: a slot is taken");
    assert!(session.questions().is_empty(), "{stop:?} at {at}: a question is open");
    drop((reader, session, reply));
    assert_eq!(alive_tasks(), before, "{stop:?} at {at}: a task lives on");
    (probe.0.polls.load(Ordering::SeqCst), outcome(&events))
}

fn arm(
    probe: &Probe,
    stop: Stop,
    at: usize,
    session: &Session,
    token: &CancellationToken,
    reply: &Arc<Mutex<Option<Reply>>>,
) {
    probe.0.at.store(at, Ordering::SeqCst);
    let (session, token, reply) = (session.clone(), token.clone(), Arc::clone(reply));
    let act: Box<dyn FnOnce() + Send> = match stop {
        Stop::Token => Box::new(move || token.cancel()),
        Stop::Session => Box::new(move || session.cancel()),
        Stop::DropReply => Box::new(move || drop(reply.lock().unwrap().take())),
        Stop::Close => Box::new(move || {
            // The first poll asks for it; that it has come is waited for below.
            assert!(session.close().now_or_never().is_none());
        }),
        Stop::OneChild => Box::new(move || {
            let outer = session.with_tree(|tree| {
                tree.iter().find(|record| &*record.source_name == "outer").map(|record| record.id.clone())
            });
            // It may not have begun, or have ended.
            if let Some(outer) = outer {
                session.cancel_session(&outer).ok();
            }
        }),
        Stop::Never => return,
    };
    *probe.0.stop.lock().unwrap() = Some(act);
}

fn is_root_end(event: &Arc<Event>) -> bool {
    event.scope == Scope::Root && matches!(event.kind, EventKind::StreamComplete(_))
}

fn outcome(events: &[Arc<Event>]) -> Outcome {
    let end = events.iter().find(|event| is_root_end(event)).expect("the root's terminal");
    let EventKind::StreamComplete(end) = &end.kind else { panic!("no terminal") };
    end.outcome
}

/// The rules of a stream; one result for each call; nothing that was stopped is a success.
fn check(events: &[Arc<Event>], what: &str) {
    let mut verifier = Verifier::new(Profile::Native);
    for event in events {
        verifier.check(event).unwrap_or_else(|violation| panic!("{what}: {violation}"));
    }
    verifier.finish().unwrap_or_else(|violation| panic!("{what}: {violation}"));

    let mut results: HashMap<(String, String), usize> = HashMap::new();
    let whose = |event: &Event| {
        event
            .scope
            .child()
            .map_or_else(String::new, |child| format!("{}#{}", child.child_session_id, child.run))
    };
    let mut interrupted: Vec<String> = Vec::new();
    for event in events {
        if let EventKind::ToolCallStart(start) = &event.kind {
            results.entry((whose(event), start.tool_call_id.to_string())).or_default();
        } else if let EventKind::ToolResultEnd(end) = &event.kind {
            *results.entry((whose(event), end.tool_call_id.to_string())).or_default() += 1;
            if let Some(child) =
                end.response.get_str("child_session_id").filter(|id| interrupted.contains(id))
            {
                assert_eq!(end.state, ToolResultState::Interrupted, "{what}: the result of {child}");
            }
        } else if let EventKind::StreamComplete(end) = &event.kind
            && let Scope::Child(child) = &event.scope
            && end.outcome == Outcome::Interrupted
        {
            interrupted.push(child.child_session_id.to_string());
        }
    }
    assert!(results.values().all(|count| *count == 1), "{what}: {results:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_stop_the_tree_comes_to_its_end() {
    let (polls, outcome) = run(Stop::Never, usize::MAX).await;
    assert_eq!(outcome, Outcome::Completed);
    assert!(polls > 60, "{polls} polls are too few to mean anything");
}

/// Stops the tree at every poll, from the first to the last and one beyond.
async fn at_every_poll(stop: Stop) {
    let (polls, _) = run(Stop::Never, usize::MAX).await;
    let mut interrupted = 0;
    for at in 0..=polls {
        let (_, outcome) = run(stop, at).await;
        interrupted += usize::from(outcome == Outcome::Interrupted);
    }
    if stop == Stop::OneChild {
        assert_eq!(interrupted, 0, "the parent goes on");
    } else {
        // All but those polls at which the reply had ended and the background child went on.
        assert!(interrupted * 10 > polls * 8, "{interrupted} of {polls}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_stops_the_tree_at_every_poll() {
    at_every_poll(Stop::Token).await;
}

#[tokio::test(start_paused = true)]
async fn the_session_stops_the_tree_at_every_poll() {
    at_every_poll(Stop::Session).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reply_stops_the_tree_at_every_poll() {
    at_every_poll(Stop::DropReply).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_stops_the_tree_at_every_poll() {
    at_every_poll(Stop::Close).await;
}

#[tokio::test(start_paused = true)]
async fn one_child_is_stopped_at_every_poll_and_its_parent_goes_on() {
    at_every_poll(Stop::OneChild).await;
}
