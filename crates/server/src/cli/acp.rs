//! `anabranch acp`.

use std::{env, error::Error, io};

use anabranch_demo::{Pace, Plan};

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
}

pub(super) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    // Stdout is the protocol's.
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(tracing::level_filters::LevelFilter::WARN)
        .init();
    let pace = if options.quick { Pace::default() } else { Pace::watchable() };
    let server = AcpServer::new(move |new| {
        // An editor's folder is not written to. The session's id is nobody's to guess.
        let folder = env::temp_dir().join(format!("anabranch-demo-{}", new.id));
        Plan::new().pace(pace).out(folder).agent()
    });
    server.always_cards(options.cards).serve_stdio().await?;
    Ok(())
}
