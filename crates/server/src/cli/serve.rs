//! `anabranch serve`.

use std::{
    error, io,
    net::SocketAddr,
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_adapters::ag_ui::Mode;
use anabranch_demo::Plan;
use anabranch_remote::nats::NatsRunner;
use clap::{Args, ValueEnum};
use tokio::net::TcpListener;
use tracing::Level;

use super::{
    demo::Demo, descriptors, event_logs::EventLogs, kept::Kept, nats::Broker, results::Results, signals,
};
use crate::{Limits, ServeError, Server, Sessions, Tokens};

/// How to serve.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Where to listen. An address that is not loopback's needs a token
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    addr: SocketAddr,
    /// A file with the tokens that clients have to show: a line for each, a tenant's name and the token, or the token alone
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// What clients are told of children
    #[arg(long, value_enum, default_value_t = Children::Attributed)]
    children: Children,
    #[command(flatten)]
    demo: Demo,
    #[command(flatten)]
    broker: Broker,
    /// The most bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value_t = at_least_one(Limits::default().body))]
    max_body: NonZeroUsize,
    /// The most threads that are kept
    #[arg(long, value_name = "NUMBER", default_value_t = at_least_one(Limits::default().threads))]
    pub(super) max_threads: NonZeroUsize,
    /// The most sessions that a tenant has; by default 10000, and in memory 64
    #[arg(long, value_name = "NUMBER")]
    max_sessions: Option<NonZeroUsize>,
    /// The most sessions that all tenants have together; by default 100000, and in memory 256
    #[arg(long, value_name = "NUMBER")]
    max_sessions_in_all: Option<NonZeroUsize>,
    /// The most sessions that are open at once, with --token-file a quarter of them a tenant's; an idle one is closed for another,
    /// and opened again when it is asked for
    #[arg(long, value_name = "NUMBER", default_value_t = at_least_one(Limits::default().open), conflicts_with = "memory")]
    max_open: NonZeroUsize,
    /// The most streams of events that a tenant reads at once
    #[arg(long, value_name = "NUMBER", default_value_t = at_least_one(Limits::default().readers))]
    max_readers: NonZeroUsize,
    /// The most connections
    #[arg(long, value_name = "NUMBER", default_value_t = at_least_one(Limits::default().connections))]
    max_connections: NonZeroUsize,
    /// How many requests of a tenant may come in a second, and twice as many at once beyond that; 0 for as many as come
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().rate)]
    max_rate: u32,
    /// The file in which sessions and threads are kept, from which the next server goes on
    #[arg(long, value_name = "FILE", default_value = "anabranch.db")]
    pub(super) store: PathBuf,
    /// Keep sessions and threads in memory alone: they end with the server
    #[arg(long, conflicts_with_all = ["store", "max_store"])]
    pub(super) memory: bool,
    /// The most bytes of the file
    #[arg(long, value_name = "BYTES")]
    pub(super) max_store: Option<NonZeroU64>,
    /// The most events that are kept of a session or thread; by default all
    #[arg(long, value_name = "NUMBER")]
    pub(super) keep_events: Option<NonZeroU64>,
    /// The most bytes of events that are kept of a session or thread; by default all, and in memory 16 MiB
    #[arg(long, value_name = "BYTES")]
    pub(super) keep_bytes: Option<NonZeroU64>,
    /// For how long events are kept; by default for good
    #[arg(long, value_name = "SECONDS")]
    pub(super) keep_for: Option<NonZeroU64>,
    /// For how long runs may go on when the server is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain: u64,
    /// Where results are written, each thread's and session's in a folder of its own; by default a temporary folder, which is taken
    /// away at the end
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write all events of each thread and session into this folder as its log admits them: native JSON lines, in a file of its
    /// session's id
    #[arg(long, value_name = "DIR")]
    log_events: Option<PathBuf>,
    /// What is logged, on stderr
    #[arg(long, value_name = "LEVEL", default_value_t = Level::INFO)]
    log: Level,
}

/// How many sessions a tenant and all tenants have, where they are in a file.
const IN_FILE: (usize, usize) = (10_000, 100_000);

fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

/// What clients are told of children.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Children {
    /// They are announced, and all that is theirs bears their names
    Attributed,
    /// All that is theirs bears their names; for clients before 0.0.59
    AttributionOnly,
    /// Nothing; for clients with no place for children
    Inline,
}

pub(super) async fn run(options: Options) -> Result<(), Box<dyn error::Error>> {
    tracing_subscriber::fmt().with_max_level(options.log).with_writer(io::stderr).with_ansi(false).init();
    let tokens = options.token_file.as_deref().map(Tokens::from_file).transpose()?;
    // Before anything is opened, where nothing has to be opened to know.
    if tokens.is_none() && !options.addr.ip().is_loopback() {
        return Err(ServeError::Exposed { address: options.addr }.into());
    }
    descriptors::provide(options.max_connections.get());
    let stop = signals::stop()?;
    let listener = TcpListener::bind(options.addr).await.map_err(ServeError::Io)?;
    let results = Results::new(options.out.clone())?;
    let folder = results.folder().to_owned();
    let workers = options.broker.queue().await?.map(NatsRunner::new).map(Arc::new);
    let elsewhere = move |plan: Plan| match workers.clone() {
        Some(workers) => plan.elsewhere(workers),
        None => plan,
    };
    let kept = Kept::open(&options).await?;
    let server = kept.serve(server(&options, folder.clone(), elsewhere.clone()));
    let sessions = sessions(&options, folder.clone(), elsewhere);
    let server = if let Some(tokens) = tokens { server.tokens(tokens) } else { server };
    let logs = options.log_events.map(EventLogs::new).transpose()?.map(Arc::new);
    let server = match logs.clone() {
        Some(logs) => {
            let of_sessions = Arc::clone(&logs);
            let sessions = sessions.watched_by(move |_, session| of_sessions.keep(session));
            server.watched_by(move |_, session| logs.keep(session)).sessions(sessions)
        }
        None => server.sessions(sessions),
    };
    let ended = server.serve(listener, stop).await;
    drop(results);
    let closed = kept.close().await;
    ended?;
    closed?;
    if let Some(logs) = logs {
        logs.end().await?;
    }
    Ok(())
}

fn server(options: &Options, folder: PathBuf, elsewhere: impl Fn(Plan) -> Plan) -> Server {
    let threads = AtomicU64::new(0);
    let plan = elsewhere(options.demo.plan());
    let agent = move |_: &_| {
        let thread = threads.fetch_add(1, Ordering::Relaxed);
        // A folder that cannot be made fails the tool that writes into it, which says so.
        plan.clone().out(folder.join(format!("thread-{thread}"))).agent()
    };
    let defaults = Limits::default();
    let most = if options.memory { (defaults.sessions_of_tenant, defaults.sessions) } else { IN_FILE };
    let sessions = |chosen: Option<NonZeroUsize>, default| chosen.map_or(default, NonZeroUsize::get);
    // Where there are several, a tenant leaves room for others.
    let share = if options.token_file.is_some() { 4 } else { 1 };
    let open_of_tenant = options.max_open.get().div_ceil(share);
    let limits = defaults
        .body(options.max_body.get())
        .threads(options.max_threads.get())
        .sessions(sessions(options.max_sessions, most.0), sessions(options.max_sessions_in_all, most.1))
        .open(open_of_tenant, options.max_open.get())
        .readers(options.max_readers.get())
        .connections(options.max_connections.get())
        .rate(options.max_rate, options.max_rate.saturating_mul(2))
        .drain(Duration::from_secs(options.drain));
    let mode = match options.children {
        Children::Attributed => Mode::Attributed,
        Children::AttributionOnly => Mode::AttributionOnly,
        Children::Inline => Mode::Inline,
    };
    Server::new(agent).mode(mode).limits(limits)
}

/// Sessions of the demo's agents, each with what its client wants and a folder of its own.
fn sessions(
    options: &Options,
    folder: PathBuf,
    elsewhere: impl Fn(Plan) -> Plan + Send + Sync + 'static,
) -> Sessions {
    let demo = options.demo.clone();
    Sessions::new(move |new| {
        let plan = demo.plan_with(new.options.as_ref())?;
        Ok(elsewhere(plan).out(folder.join(new.id.as_str())).agent())
    })
}
