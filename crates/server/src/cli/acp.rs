//! `anabranch acp`.

use std::{env, error::Error, io, path::PathBuf, sync::Arc};

use anabranch_demo::{Node, Pace, Plan};

use super::event_logs::EventLogs;
use crate::acp::AcpServer;

/// How to speak.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Show sub-agents as cards, even to a client that knows sessions of theirs
    #[arg(long)]
    cards: bool,

    /// Let the scripted models answer at once, instead of at a pace to watch
    #[arg(long)]
    quick: bool,

    /// Let the demo's n1 spawn a sub-agent of its own
    #[arg(long)]
    nested: bool,

    /// Ask before this tool of the demo's runs, such as `write_result`; may be given again
    #[arg(long, value_name = "TOOL")]
    ask: Vec<String>,

    /// Make the first tool of this node of the demo's fail; may be given again
    #[arg(long, value_name = "NODE", value_enum)]
    fail: Vec<Node>,

    /// Write all events of each session into this folder as its log admits them: native JSON lines, in a file of the
    /// session's id
    #[arg(long, value_name = "DIR")]
    log_events: Option<PathBuf>,
}

impl Options {
    fn plan(&self) -> Plan {
        let pace = if self.quick { Pace::default() } else { Pace::watchable() };
        let plan = self.ask.iter().fold(Plan::new().pace(pace), Plan::ask);
        let plan = self.fail.iter().fold(plan, |plan, node| plan.fail(*node));
        if self.nested { plan.nested() } else { plan }
    }
}

pub(super) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    // Stdout is the protocol's.
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(tracing::level_filters::LevelFilter::WARN)
        .init();
    let plan = options.plan();
    let server = AcpServer::new(move |new| {
        // An editor's folder is not written to. The session's id is nobody's to guess.
        let folder = env::temp_dir().join(format!("anabranch-demo-{}", new.id));
        plan.clone().out(folder).agent()
    });
    let server = server.always_cards(options.cards);
    let Some(folder) = options.log_events else { return Ok(server.serve_stdio().await?) };
    let logs = Arc::new(EventLogs::new(folder)?);
    let kept = Arc::clone(&logs);
    server.watched_by(move |session| kept.keep(session)).serve_stdio().await?;
    logs.end().await?;
    Ok(())
}
