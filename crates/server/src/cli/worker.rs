//! `anabranch worker`.

use std::{error::Error, io, num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use anabranch_demo::{Pace, Plan};
use anabranch_remote::nats::Worker;
use anabranch_runtime::Order;
use tracing::Level;

use super::{
    event_logs::OrderLogs,
    nats::{self, Broker},
    results::Results,
    signals,
};

/// How to work.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    broker: Broker,
    /// How many sub-agents run at once
    #[arg(long, value_name = "NUMBER", default_value = "8")]
    concurrency: NonZeroUsize,
    /// For how long sub-agents may go on when the worker is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
    /// Let the scripted models answer at once, instead of at a pace to watch
    #[arg(long)]
    quick: bool,
    /// Let the demo's n1 spawn a sub-agent of its own
    #[arg(long)]
    nested: bool,
    /// Where results are written, each sub-agent's in a folder of its own; by default a temporary folder, which is taken away
    /// at the end
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write all events of each sub-agent into this folder before they are sent: native JSON lines, in a file of its session's
    /// id, run and attempt
    #[arg(long, value_name = "DIR")]
    log_events: Option<PathBuf>,
    /// What is logged, on stderr
    #[arg(long, value_name = "LEVEL", default_value_t = Level::INFO)]
    log: Level,
}

pub(super) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(options.log).with_writer(io::stderr).with_ansi(false).init();
    let stop = signals::stop()?;
    let queue = options.broker.queue().await?;
    let queue = queue.ok_or("a worker needs a broker: give `--nats nats://HOST:PORT`")?;
    let folder = Results::new(options.out)?;
    let pace = if options.quick { Pace::default() } else { Pace::watchable() };
    let plan = if options.nested { Plan::new().nested() } else { Plan::new() }.pace(pace);
    let results = folder.folder().to_owned();
    let agent = move |order: &Order| {
        let name = format!("{}-{}", nats::file_name(order.session_id.as_str()), order.run);
        Ok(plan.clone().out(results.join(name)).node(order))
    };
    let worker = Worker::choosing(queue, agent)
        .concurrency(options.concurrency.get())
        .drain(Duration::from_secs(options.drain));
    let worker = match options.log_events {
        Some(folder) => {
            let logs = Arc::new(OrderLogs::new(folder)?);
            worker.watched_by(move |order| logs.keep(order))
        }
        None => worker,
    };
    tracing::info!("a worker takes orders");
    Ok(worker.run(stop).await?)
}
