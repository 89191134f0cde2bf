//! A child in process against one behind a server on this machine, as when `spawn_subagent` posts to a service.
//!
//! The server is the least there can be: a request, a session, its lines until the connection closes. A child has a
//! connection of its own, as a client has that is made for each call. Both sides run here, on one thread.

use std::sync::Arc;

use anabranch_adapters::encode::NativeLines;
use anabranch_pipeline::{ToolContext, ToolStream};
use anabranch_proto::{Event, EventKind, Stamp, native::Reader};
use anabranch_runtime::{Agent, Read, Spawn, SpawnSubagent};
use futures::{Stream, StreamExt as _, stream};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{TcpListener, TcpStream},
};

use crate::{
    measure::{Scale, cpu, in_turn, runtime},
    report::{Budget, Row, Unit},
    tools::{StreamTool, Talker, master, stamp},
};

/// One piece of text, and 200.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    [1, 200]
        .into_iter()
        .map(|pieces| {
            let times = (scale.events / 100 / pieces).clamp(20, 1_000);
            let worker = Agent::builder("worker", Talker { pieces }).build();
            let here = master("spawn_subagent", 1).tool(SpawnSubagent::new(worker.clone())).build();
            let mut in_process = (Vec::new(), Vec::new());
            let mut over_http = (Vec::new(), Vec::new());
            let mut ours = || {
                let (cpu, wall) = children(&here, None, times, pieces);
                in_process.0.push(cpu);
                in_process.1.push(wall);
                cpu
            };
            let mut served = || {
                let (cpu, wall) = children(&here, Some(&worker), times, pieces);
                over_http.0.push(cpu);
                over_http.1.push(wall);
                cpu
            };
            let ratio = in_turn(scale.rounds.min(5), &mut [&mut served, &mut ours]).ratio(0, 1);
            let middle = |values: Vec<f64>| crate::measure::median(values) / 1e3;
            Row::new(
                "http",
                format!("a child over loopback HTTP against in process, pieces: {pieces}"),
                ratio,
                Unit::Times,
                Budget::Shown,
            )
            .source(
                "CPU of both sides, a reply with one child; a connection each, lines of the native spelling",
            )
            .beside("in process", middle(in_process.0), Unit::Micros)
            .beside("over HTTP", middle(over_http.0), Unit::Micros)
            .beside("in process, on the wall", middle(in_process.1), Unit::Micros)
            .beside("over HTTP, on the wall", middle(over_http.1), Unit::Micros)
        })
        .collect()
}

/// What a reply with one child costs, by CPU and on the wall, where the child is behind a server that runs `served`.
fn children(here: &Agent, served: Option<&Agent>, times: usize, pieces: usize) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "a few thousands at most")]
    let each = 1.0 / times as f64;
    runtime().block_on(async {
        let there;
        let agent = match served {
            None => here,
            Some(worker) => {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback can be listened on");
                let port = listener.local_addr().expect("it is bound").port();
                tokio::spawn(serve(listener, worker.clone()));
                there = master("remote", 1).tool(remote(port)).build();
                &there
            }
        };
        let before = cpu();
        let waited = std::time::Instant::now();
        for _ in 0..times {
            let read =
                agent.reply_stream("go").filter(|read| std::future::ready(is_piece(read))).count().await;
            assert_eq!(read, pieces, "every piece is read");
        }
        #[expect(clippy::cast_precision_loss, reason = "a run takes seconds")]
        let waited = waited.elapsed().as_nanos() as f64;
        ((cpu() - before) * each, waited * each)
    })
}

fn is_piece(read: &Read) -> bool {
    matches!(read, Read::Event(admitted)
        if admitted.event.scope.depth() == 1 && matches!(admitted.event.kind, EventKind::TextBlockDelta(_)))
}

/// A tool that has its child behind a server.
fn remote(port: u16) -> StreamTool<impl Fn(ToolContext) -> ToolStream + Send + Sync> {
    StreamTool::new("remote", move |context| match Spawn::new(&context, "worker", "Say a few words.") {
        Ok(spawn) => spawn.stream(asked(port)),
        Err(refused) => panic!("{refused}"),
    })
}

/// The events that a server sends.
fn asked(port: u16) -> impl Stream<Item = Arc<Event>> + Send + 'static {
    let lines = async move {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
        let task = "Say a few words.";
        let request = format!(
            "POST /runs HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{task}",
            task.len()
        );
        connection.write_all(request.as_bytes()).await.expect("the server reads");
        let mut lines = BufReader::new(connection).lines();
        while !next(&mut lines).await.expect("there is a head").is_empty() {}
        lines
    };
    let stamp: Arc<dyn Stamp> = stamp();
    stream::once(lines).flat_map(move |lines| {
        stream::unfold((lines, Reader::new(Arc::clone(&stamp))), async |(mut lines, mut reader)| {
            let line = next(&mut lines).await?;
            let event = reader.read(&line).expect("the server writes events").event.into();
            Some((event, (lines, reader)))
        })
    })
}

async fn next(lines: &mut Lines<BufReader<TcpStream>>) -> Option<String> {
    lines.next_line().await.expect("the connection holds")
}

/// Answers requests, each with a session of its own.
async fn serve(listener: TcpListener, worker: Agent) {
    while let Ok((connection, _)) = listener.accept().await {
        let worker = worker.clone();
        tokio::spawn(async move {
            let mut connection = BufReader::new(connection);
            let (mut line, mut length) = (String::new(), 0);
            while connection.read_line(&mut line).await.is_ok_and(|read| read > 2) {
                if let Some(given) = line.strip_prefix("content-length:") {
                    length = given.trim().parse().expect("it is a number");
                }
                line.clear();
            }
            let mut task = vec![0; length];
            connection.read_exact(&mut task).await.expect("the client sends its task");
            let task = String::from_utf8(task).expect("it is text");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n";
            connection.write_all(head.as_bytes()).await.expect("the client reads");
            let session = worker.session();
            let mut bytes = session.attach(0, NativeLines);
            let reply = session.prompt(task.as_str()).await.expect("the session is open");
            tokio::spawn(async move {
                reply.finished().await.ok();
                session.close().await;
            });
            while let Some(bytes) = bytes.next().await {
                if connection.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            connection.shutdown().await.ok();
        });
    }
}
