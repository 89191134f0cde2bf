//! A session whose background sub-agents run on the workers of a NATS JetStream queue, for `cargo xtask interop nats`.
//!
//! It starts so many, writes the session's events into a file as they come, says on stdout how many have ended, and ends when
//! all have.

use std::{
    collections::HashSet,
    error::Error,
    fs::File,
    io::{BufWriter, Write as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anabranch_adapters::{Encode as _, encode::NativeLines};
use anabranch_proto::EventKind;
use anabranch_remote::nats::{NatsRunner, Queue};
use anabranch_runtime::{
    Agent, Answer, Limits, OnCancel, Permissions, Read, ScriptedModel, SpawnSubagent, Turn,
};
use clap::Parser;
use futures::StreamExt as _;
use serde_json::json;

/// How to begin.
#[derive(Debug, Parser)]
struct Options {
    /// Where the broker is
    #[arg(long)]
    nats: String,
    /// How many sub-agents to start
    #[arg(long, default_value_t = 200)]
    children: usize,
    /// How often each may be run
    #[arg(long, default_value_t = 1)]
    attempts: u32,
    /// After how many seconds a worker is taken for lost
    #[arg(long, default_value_t = 30)]
    lost_after: u64,
    /// Ask before a result is written, and allow it
    #[arg(long)]
    ask: bool,
    /// How many sub-agents to stop when they have begun
    #[arg(long, default_value_t = 0)]
    stop: usize,
    /// Where the session's events are written
    #[arg(long)]
    log: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let client = async_nats::connect(&options.nats).await?;
    let queue = Queue::new(client).lost_after(Duration::from_secs(options.lost_after));
    let runner = NatsRunner::new(queue).attempts(options.attempts);
    let children = options.children;
    let model = ScriptedModel::new("scripted")
        .turn(move |_| {
            (0..children).fold(Turn::new(), |turn, child| turn.call("spawn_subagent", task(child)))
        })
        .turn(|_| Turn::new().text("All have begun."));
    let spawn = SpawnSubagent::on(Arc::new(runner), "node")
        .named_by(|arguments| arguments.metadata_str("child"))
        .on_cancel(OnCancel::Keep);
    let limits = Limits::default().max_running(children * 4).max_spawned(children * 4);
    let agent = Agent::builder("master", model).tool(spawn).limits(limits);
    let agent = if options.ask { agent.permissions(Permissions::new().ask("write_result")) } else { agent };
    let session = agent.build().session();
    let mut reader = session.subscribe_lossless(0);
    let mut log = BufWriter::new(File::create(&options.log)?);
    let mut line = Vec::new();
    let reply = session.prompt("Go.").await?;
    let mut ended = 0;
    let mut stopped = HashSet::new();
    while ended < children {
        let Some(read) = reader.next().await else { return Err("the session ended".into()) };
        let Read::Event(admitted) = read else { return Err("events were forgotten".into()) };
        line.clear();
        NativeLines.event(Some(admitted.seq), &admitted.event, &mut line)?;
        log.write_all(&line)?;
        let whose = admitted.event.scope.session(session.id());
        if let EventKind::RequireUserConfirm(ask) = &admitted.event.kind {
            for call in &ask.tool_calls {
                // One that was stopped meanwhile asks no more.
                session.answer(whose, &call.id, Answer::allow()).ok();
            }
        }
        let has_begun = matches!(admitted.event.kind, EventKind::ToolResultEnd(_));
        if has_begun
            && admitted.event.scope.depth() == 1
            && stopped.len() < options.stop
            && stopped.insert(whose.clone())
        {
            session.cancel_session(whose)?;
        }
        let is_end = matches!(admitted.event.kind, EventKind::StreamComplete(_));
        if is_end && admitted.event.scope.depth() == 1 {
            ended += 1;
            println!("{ended}");
        }
    }
    drop(reply);
    session.close().await;
    while let Some(Read::Event(admitted)) = reader.next().await {
        line.clear();
        NativeLines.event(Some(admitted.seq), &admitted.event, &mut line)?;
        log.write_all(&line)?;
    }
    log.flush()?;
    Ok(())
}

/// The task of a child: an analysis of one of the two files that the demo has.
fn task(child: usize) -> serde_json::Value {
    let (node, file) = if child.is_multiple_of(2) { ("n1", "seattle.csv") } else { ("n2", "new_york.csv") };
    let assignment = json!({ "node": node, "file": file, "rows": "all", "result": format!("{node}.csv") });
    json!({
        "task": format!("Analyse {file}."),
        "context": assignment.to_string(),
        "background": true,
        "metadata": { "node_id": node, "child": format!("c{child}") },
    })
}
