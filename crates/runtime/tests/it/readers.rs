//! Readers: attached protocols, slow readers, gaps.

use std::{sync::Arc, time::Duration};

use anabranch_adapters::encode::NativeLines;
use anabranch_pipeline::FunctionTool;
use anabranch_proto::native;
use anabranch_runtime::{Agent, Limits, Read, ScriptedModel, Turn};
use anabranch_session::MemoryLog;
use futures::StreamExt;

use crate::support::{Nothing, events, master, node, says};

#[tokio::test]
async fn attached_bytes_are_the_events() {
    let session = master(says("worker", "done"), vec![node("a", "n1"), node("b", "n2")]).session();
    let attached = session.attach(0, NativeLines);
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    session.close().await;
    let chunks: Vec<_> = attached.collect().await;
    let text = String::from_utf8(chunks.concat()).unwrap();
    let mut reader = native::Reader::default();
    let lines: Vec<_> = text.lines().map(|line| reader.read(line).unwrap()).collect();
    assert_eq!(
        lines.iter().map(|line| line.seq.unwrap()).collect::<Vec<_>>(),
        (1..=lines.len() as u64).collect::<Vec<_>>()
    );
    assert!(lines.iter().map(|line| &line.event).eq(seen.iter().map(|event| &**event)));
}

/// An agent with a tool that gives many pieces of 1 KiB.
fn talks(pieces: usize, limits: Limits) -> Agent {
    let talk = FunctionTool::new("talk", "", move |_: Nothing, context| async move {
        for _ in 0..pieces {
            context.send(anabranch_proto::ToolChunk::text("x".repeat(1024))).await.ok();
        }
        Ok::<_, String>("")
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("talk", serde_json::json!({})))
        .turn(|_| Turn::new().text("end"));
    Agent::builder("agent", model).tool(talk).limits(limits).build()
}

#[tokio::test(start_paused = true)]
async fn a_stalled_reply_holds_its_producers_back_for_as_long_as_it_may() {
    let window = 64 * 1024;
    let limits = Limits::default().reader_window(window).stall(Duration::from_secs(7));
    let session = talks(1_000, limits).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    reply.next().await.unwrap();
    let start = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let produced = count(session.subscribe(0)).await;
    // The window, and what one turn of the driver may add to it.
    let most = window / 1024 + 64 + 10;
    assert!(
        (40..=most).contains(&produced),
        "{produced} events were produced into a window of {window} bytes"
    );
    session.close().await;
    assert!(start.elapsed() < Duration::from_secs(7), "closing does not wait for a stalled reader");
}

/// How many events are in the log now.
async fn count(mut reader: anabranch_runtime::Reader) -> usize {
    let mut count = 0;
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(1), reader.next()).await {
        count += 1;
    }
    count
}

#[tokio::test(start_paused = true)]
async fn after_the_stall_limit_the_run_goes_on_and_the_reader_can_catch_up() {
    let limits = Limits::default().reader_window(64 * 1024).stall(Duration::from_secs(7));
    let session = talks(1_000, limits).session();
    let reply = session.prompt("Go.").await.unwrap();
    let start = tokio::time::Instant::now();
    while session.messages().len() < 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!((7..8).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let seen = events(reply).await;
    assert!(seen.len() > 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_was_waited_for_too_long_is_waited_for_again_when_it_has_caught_up() {
    let (window, pause) = (64 * 1024, Duration::from_secs(100));
    let talk = FunctionTool::new("talk", "", move |_: Nothing, context| async move {
        for _ in 0..2 {
            for _ in 0..1_000 {
                context.send(anabranch_proto::ToolChunk::text("x".repeat(1024))).await.ok();
            }
            tokio::time::sleep(pause).await;
        }
        Ok::<_, String>("")
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("talk", serde_json::json!({})))
        .turn(|_| Turn::new().text("end"));
    let limits = Limits::default().reader_window(window).stall(Duration::from_secs(7));
    let session = Agent::builder("agent", model).tool(talk).limits(limits).build().session();
    let mut slow = session.subscribe_lossless(0);
    let reply = session.prompt("Go.").await.unwrap();
    drop(reply);
    tokio::time::sleep(Duration::from_secs(8)).await;
    let first = count(session.subscribe(0)).await;
    assert!(first > 1_000, "{first}: the reader was given up");
    for _ in 0..first {
        slow.next().await.unwrap();
    }
    tokio::time::sleep(pause).await;
    let second = count(session.subscribe(0)).await - first;
    assert!((40..=window / 1024 + 64 + 10).contains(&second), "{second}: it is waited for again");
    session.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_lags_holds_nobody_back() {
    let limits = Limits::default().reader_window(1024).stall(Duration::from_secs(7));
    let session = talks(1_000, limits).session();
    let lagging = session.subscribe(0);
    let start = tokio::time::Instant::now();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    session.close().await;
    assert_eq!(events(lagging).await, seen);
}

#[tokio::test]
async fn what_the_log_was_told_to_forget_is_a_gap() {
    let agent = talks(1_000, Limits::default());
    let session =
        agent.session_builder().log(Arc::new(MemoryLog::with_retention(64 * 1024))).start().unwrap();
    let lagging = session.subscribe(0);
    let total = session.prompt("Go.").await.unwrap().fold(0, |_, read| async move {
        match read {
            Read::Event(admitted) => admitted.seq,
            Read::Gap { to, .. } => to,
        }
    });
    let total = total.await;
    session.close().await;
    let read: Vec<_> = lagging.collect().await;
    let Read::Gap { from: 1, to } = read[0] else { panic!("a gap, not {:?}", read[0]) };
    assert!(to > 500);
    let seqs: Vec<_> = read[1..]
        .iter()
        .map(|read| if let Read::Event(admitted) = read { admitted.seq } else { 0 })
        .collect();
    assert_eq!(seqs, (to + 1..=total).collect::<Vec<_>>());
}
