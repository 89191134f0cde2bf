//! `anabranch acp`.

use std::{error::Error, io, path::PathBuf, sync::Arc};

use super::{demo::Demo, event_logs::EventLogs, results::Results, signals};
use crate::acp::AcpServer;

/// How to speak.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Show sub-agents as cards, even to a client that knows sessions of theirs
    #[arg(long)]
    cards: bool,

    #[command(flatten)]
    demo: Demo,

    /// Write all events of each session into this folder as its log admits them: native JSON lines, in a file of the
    /// session's id
    #[arg(long, value_name = "DIR")]
    log_events: Option<PathBuf>,
}

pub(super) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    // Stdout is the protocol's.
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(tracing::level_filters::LevelFilter::WARN)
        .init();
    let stop = signals::stop()?;
    let plan = options.demo.plan();
    // An editor's folder is not written to.
    let results = Results::new(None)?;
    let folder = results.folder().to_owned();
    let server = AcpServer::new(move |new| {
        // The session's id is nobody's to guess.
        plan.clone().out(folder.join(new.id.as_str())).agent()
    });
    let server = server.always_cards(options.cards);
    let Some(folder) = options.log_events else { return Ok(server.serve_stdio_until(stop).await?) };
    let logs = Arc::new(EventLogs::new(folder)?);
    let kept = Arc::clone(&logs);
    server.watched_by(move |session| kept.keep(session)).serve_stdio_until(stop).await?;
    logs.end().await?;
    Ok(())
}
