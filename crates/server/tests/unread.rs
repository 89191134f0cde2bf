//! A client that does not read costs its server no more memory than it is configured to. In a program of its own, because it
//! measures the whole process.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::{FunctionTool, ToolContext};
use anabranch_runtime::{Agent, Limits as AgentLimits, ScriptedModel, SpawnSubagent, Turn};
use anabranch_server::{Limits, Server};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::Notify,
    task::JoinHandle,
};

const MIB: usize = 1024 * 1024;

/// What a thread keeps of its events.
const LOG: usize = 8 * MIB;

/// How far behind a reader holds agents back.
const WINDOW: usize = MIB;

/// How many events a child offers, each with about a kilobyte: many times what may be kept.
const OFFERED: usize = 30_000;

/// The most memory that the server may take for a client that does not read: what is kept of the events, and the same again for what
/// the allocator holds back and connections have at hand.
const BOUND: usize = 2 * (LOG + WINDOW);

/// For a test for ever.
const LONG: Duration = Duration::from_secs(3_600);

/// Soon over.
const SHORT: Duration = Duration::from_millis(100);

/// The most memory that the process has had at a time, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// What the agents did.
#[derive(Clone, Default)]
struct Offered {
    events: Arc<AtomicUsize>,
    all: Arc<Notify>,
}

impl Offered {
    /// A master with a child that offers many events in one call.
    fn agent(&self, stall: Duration) -> Agent {
        let offered = self.clone();
        let offer = FunctionTool::new("offer", "Offers.", move |_: Nothing, context: ToolContext| {
            let offered = offered.clone();
            async move {
                let text = "x".repeat(1_000);
                for number in 0..OFFERED {
                    let value = json!({ "number": number, "text": text });
                    context.custom("offer", &value).await.map_err(|error| error.to_string())?;
                    offered.events.store(number + 1, Ordering::Relaxed);
                }
                offered.all.notify_one();
                Ok::<_, String>("offered")
            }
        });
        let limits = AgentLimits::default().reader_window(WINDOW).stall(stall);
        let model = ScriptedModel::from_fn("child", |request| match request.turn {
            0 => Turn::new().call("offer", json!({})),
            _ => Turn::new().text("All was offered."),
        });
        let child = Agent::builder("child", model).tool(offer).build();
        let model =
            ScriptedModel::from_fn("master", |request| match (request.turn, request.messages.len()) {
                // The first prompt of a thread is to be short.
                (0, 1) => Turn::new().text("Go on."),
                (0, _) => Turn::new().call("spawn_subagent", json!({ "task": "Offer." })),
                _ => Turn::new().text("Done."),
            });
        Agent::builder("master", model).tool(SpawnSubagent::new(child)).limits(limits).build()
    }

    fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }

    /// Waits until nothing more is offered for a while: whoever offers waits.
    async fn stands_still(&self) -> usize {
        let mut before = None;
        loop {
            let now = self.events();
            if before == Some(now) && now > 0 {
                return now;
            }
            before = Some(now);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

async fn serve(offered: &Offered, stall: Duration, limits: Limits) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let offered = offered.clone();
    let server = Server::new(move |_| offered.agent(stall)).limits(limits.log(LOG));
    let serving = tokio::spawn(async move { server.serve(listener, std::future::pending()).await.unwrap() });
    (address, serving)
}

/// Sends a prompt, and reads nothing. By HTTP/1.0, where a body is as it is.
async fn prompt(address: SocketAddr) -> TcpStream {
    let body = json!({
        "threadId": "thread", "runId": "run", "messages": [{ "id": "1", "role": "user", "content": "Go." }],
    });
    let body = body.to_string();
    let socket = TcpSocket::new_v4().unwrap();
    // However much systems would hold for clients that do not read.
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    let mut stream = socket.connect(address).await.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    let request = format!("POST /ag-ui HTTP/1.0\r\nhost: localhost\r\n{head}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads a response to its end: how many offers were in it, in which order, and its last frame.
fn read(stream: TcpStream) -> io::Result<(Vec<usize>, Value)> {
    let mut offers = Vec::new();
    let mut last = Value::Null;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let Some(frame) = line.strip_prefix("data: ") else { continue };
        last = serde_json::from_str(frame)?;
        if last["name"] == "offer" {
            offers.push(last["value"]["number"].as_u64().and_then(|number| number.try_into().ok()).unwrap());
        }
    }
    Ok((offers, last))
}

/// Reads on a thread of its own.
async fn read_all(stream: TcpStream) -> (Vec<usize>, Value) {
    tokio::task::spawn_blocking(|| read(stream).unwrap()).await.unwrap()
}

// On one thread: for each more the allocator keeps an arena, of which it gives little back, and which of them has what is chance.
#[tokio::test]
async fn a_client_that_does_not_read_costs_no_more_than_is_kept() {
    // Its agents wait, and once it reads nothing is missing.
    let offered = Offered::default();
    let (address, serving) = serve(&offered, LONG, Limits::default()).await;
    let (_, first) = read_all(prompt(address).await).await;
    assert_eq!(first["outcome"]["type"], "success", "{first}");
    let before = peak();
    let stalled = prompt(address).await;
    let held = offered.stands_still().await;
    assert!(held < OFFERED, "its agents wait");
    let grown = peak() - before;
    assert!(grown < BOUND, "{grown} bytes for {held} events");
    let (offers, last) = read_all(stalled).await;
    assert_eq!(last["outcome"]["type"], "success", "{last}");
    assert!(offers.into_iter().eq(0..OFFERED), "all of them, in their order");
    let grown = peak() - before;
    assert!(grown < BOUND, "{grown} bytes for all events");
    serving.abort();

    // Its agents go on without it, and once it reads it is told that something is missing.
    let offered = Offered::default();
    let (address, serving) = serve(&offered, SHORT, Limits::default()).await;
    read_all(prompt(address).await).await;
    let stalled = prompt(address).await;
    offered.all.notified().await;
    let grown = peak() - before;
    assert!(grown < BOUND, "{grown} bytes for {OFFERED} events that nobody read");
    let (offers, last) = read_all(stalled).await;
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("incomplete")));
    assert!(offers.len() < OFFERED);
    assert!(offers.into_iter().enumerate().all(|(at, number)| at == number), "a beginning of them");
    // The thread begins anew.
    let (_, next) = read_all(prompt(address).await).await;
    assert_eq!(next["outcome"]["type"], "success", "{next}");
    serving.abort();

    // It is taken to have left, and its thread is free.
    let offered = Offered::default();
    let limits = Limits::default().unread(SHORT).patience(LONG);
    let (address, serving) = serve(&offered, LONG, limits).await;
    read_all(prompt(address).await).await;
    let stalled = prompt(address).await;
    let held = offered.stands_still().await;
    assert!(held < OFFERED, "its agents do not go on without it");
    let (offers, last) = read_all(prompt(address).await).await;
    assert_eq!((offers.len(), &last["outcome"]["type"]), (OFFERED, &json!("success")), "{last}");
    // It did not get the end of a run that was none.
    let rest = tokio::task::spawn_blocking(|| read(stalled)).await.unwrap();
    assert!(rest.is_err() || rest.is_ok_and(|(_, last)| last["type"] == "CUSTOM"));
    serving.abort();
}
