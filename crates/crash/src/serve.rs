//! The server that is killed: the real one on the real store, with a trap before each log.

use std::{error::Error, path::PathBuf, sync::Arc};

use anabranch_server::{Limits, Server, Sessions, StoreLogs};
use anabranch_store::Store;
use clap::{Args, ValueEnum as _};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, stdin},
    net::TcpListener,
    sync::oneshot,
};

use crate::{
    agents,
    mode::Mode,
    say::say,
    trap::{Lifecycle, Trap, TrappedLogs, Wanted},
};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[arg(long)]
    file: PathBuf,
    #[arg(long)]
    mode: Mode,
}

/// Serves until it is told to stop, or until whoever started it is gone.
pub(crate) async fn serve(Serve { file, mode }: Serve) -> Result<(), Box<dyn Error>> {
    let trap = Arc::new(Trap::default());
    let store = Store::open(file, mode.options()).await?;
    let logs = TrappedLogs { inner: StoreLogs::new(store.clone()), trap: Arc::clone(&trap) };
    let sessions = Sessions::new(|_| Ok(agents::master())).logs(logs);
    let server = Server::new(|_| agents::master()).limits(Limits::default().rate(0, 0)).sessions(sessions);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    // Whoever connects is answered when what ran before has been closed.
    say(format_args!("listens {}", listener.local_addr()?));
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let mut lines = BufReader::new(stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match wanted(&line) {
                Some(wanted) => trap.set(wanted),
                None => break,
            }
        }
        drop(stop);
    });
    server.serve(listener, async { stopped.await.unwrap_or(()) }).await?;
    store.close().await?;
    Ok(())
}

/// `trap <event> <skip> <hold>`
fn wanted(line: &str) -> Option<Wanted> {
    let mut words = line.strip_prefix("trap ")?.split(' ');
    let event = Lifecycle::from_str(words.next()?, false).ok()?;
    Some(Wanted { event, skip: words.next()?.parse().ok()?, hold: words.next()? == "hold" })
}
