//! Another server, a line to it that breaks, and a session here.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{
    Event, EventKind, Outcome,
    grammar::{Profile, Verifier},
};
use anabranch_remote::http::HttpRunner;
use anabranch_runtime::{
    Agent, AgentBuilder, ModelRequest, Permissions, Read, ScriptedModel, Session, SpawnSubagent, Turn,
};
use anabranch_server::{Limits, Server, Sessions, Token, Unusable};
use futures::StreamExt;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Text {
    pub(crate) text: String,
}

/// Fails a test that would wait for ever.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it takes far too long")
}

/// Stops a task when it is dropped.
struct Stop(AbortHandle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Another server.
pub(crate) struct Other {
    pub(crate) address: SocketAddr,
    _serving: Stop,
}

pub(crate) const TOKEN: &str = "a-token-that-nobody-may-read-01";

impl Other {
    /// A server whose sessions have this agent.
    pub(crate) async fn new(agent: Agent) -> Self {
        Self::with(agent, None).await
    }

    pub(crate) async fn with(agent: Agent, token: Option<Token>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let for_threads = agent.clone();
        let sessions = Sessions::new(move |new| match &new.options {
            Some(options) if options.as_str().contains("unknown") => {
                Err(Unusable::new("there is no such agent"))
            }
            _ => Ok(agent.clone()),
        });
        let server =
            Server::new(move |_| for_threads.clone()).sessions(sessions).limits(Limits::default().rate(0, 0));
        let server = if let Some(token) = token { server.token(token) } else { server };
        let serving = tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
        Self { address, _serving: Stop(serving.abort_handle()) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many sessions it has.
    pub(crate) async fn sessions(&self) -> usize {
        let body = reqwest::get(format!("{}/sessions", self.url())).await.unwrap().text().await.unwrap();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        body["sessions"].as_array().unwrap().len()
    }

    /// Waits until it has no sessions any more.
    pub(crate) async fn is_left(&self) {
        within(async {
            while self.sessions().await > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

/// A line to a server that breaks after each so many bytes of events.
pub(crate) struct Line {
    pub(crate) url: String,
    pub(crate) broken: Arc<AtomicUsize>,
    _serving: Stop,
}

impl Line {
    pub(crate) async fn to(server: SocketAddr, after: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let broken = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&broken);
        let serving = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(server).await.unwrap();
                tokio::spawn(carry(client, server, after, Arc::clone(&counted)));
            }
        });
        Self { url, broken, _serving: Stop(serving.abort_handle()) }
    }
}

async fn carry(client: TcpStream, server: TcpStream, after: usize, broken: Arc<AtomicUsize>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let reads_events = Arc::<std::sync::atomic::AtomicBool>::default();
    let noted = Arc::clone(&reads_events);
    let there = async move {
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            if String::from_utf8_lossy(&bytes[..count]).contains("/events") {
                noted.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let mut bytes = [0; 256];
        let mut carried = 0;
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            if to_client.write_all(&bytes[..count]).await.is_err() {
                return;
            }
            if reads_events.load(Ordering::SeqCst) {
                carried += count;
                if carried > after {
                    broken.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        }
    };
    tokio::select! { () = there => {}, () = back => {} }
}

pub(crate) fn echo() -> impl anabranch_pipeline::Tool {
    FunctionTool::new("echo", "Says it again.", |args: Text, _| async move { Ok::<_, String>(args.text) })
}

/// An agent that thinks, calls a tool, has a helper and says what that said, in many words.
pub(crate) fn busy() -> AgentBuilder {
    let helper = ScriptedModel::new("scripted").turn(|_| Turn::new().text("one two three"));
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().thinking("How should I?").call("echo", json!({ "text": "mine" })))
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "help", "metadata": { "name": "h1" } })))
        .turn(|request: &ModelRequest| {
            Turn::new().text(format!("{} {}", request.last_result_text(), "and more ".repeat(20)))
        });
    let spawn = SpawnSubagent::new(Agent::builder("helper", helper).build());
    Agent::builder("busy", model).tool(echo()).tool(spawn.named_by(|args| args.metadata_str("name")))
}

/// A session here whose agent has one child on another server, and repeats what it came to.
pub(crate) fn here(runner: HttpRunner) -> Session {
    here_with(
        runner,
        Permissions::new(),
        json!({ "task": "Do it.", "timeout": 50, "metadata": { "node_id": "n1" } }),
    )
}

pub(crate) fn here_with(runner: HttpRunner, permissions: Permissions, task: serde_json::Value) -> Session {
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", &task))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = SpawnSubagent::on(Arc::new(runner), "busy").named_by(|args| args.metadata_str("node_id"));
    let agent = Agent::builder("master", model).tool(spawn);
    let is_bare = format!("{permissions:?}") == format!("{:?}", Permissions::new());
    if is_bare { agent.build().session() } else { agent.permissions(permissions).build().session() }
}

/// All events of a session, to its close. They are well-formed.
pub(crate) async fn all(session: &Session) -> Vec<Arc<Event>> {
    let reply = session.prompt("Go.").await.unwrap();
    within(reply.finished()).await.unwrap();
    closed(session).await
}

pub(crate) async fn closed(session: &Session) -> Vec<Arc<Event>> {
    within(session.close()).await;
    let mut reader = session.subscribe(0);
    let (mut events, mut verifier) = (Vec::new(), Verifier::new(Profile::Native));
    while let Some(Read::Event(admitted)) = reader.next().await {
        verifier.check(&admitted.event).unwrap();
        events.push(admitted.event);
    }
    verifier.finish().unwrap();
    assert_eq!(session.children_running(), 0);
    events
}

/// How the runs of a child ended, and why.
pub(crate) fn ends(events: &[Arc<Event>], name: &str) -> Vec<(Outcome, String)> {
    let of_it =
        events.iter().filter(|event| event.scope.child().is_some_and(|child| &*child.source_name == name));
    let end = |event: &Arc<Event>| {
        let EventKind::StreamComplete(end) = &event.kind else { return None };
        Some((end.outcome, end.error.as_ref().map(|error| error.message.clone()).unwrap_or_default()))
    };
    of_it.filter_map(end).collect()
}

/// What the events of a child and of all below it are, in order.
pub(crate) fn outline(events: &[Arc<Event>]) -> Vec<String> {
    let line = |event: &Arc<Event>| {
        let child = event.scope.child()?;
        Some(format!("{} {} {}", child.depth, child.source_name, event.kind.tag()))
    };
    events.iter().filter_map(line).collect()
}

pub(crate) fn last_text(session: &Session) -> String {
    session.messages().last().unwrap().text()
}
