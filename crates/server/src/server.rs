//! The server.

use std::{fmt, future::Future, pin::pin, sync::Arc};

use anabranch_adapters::ag_ui::Mode;
use anabranch_runtime::{Agent, Session};
use anabranch_session::LogError;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    Limits, MemoryLogs, RunAgentInput, ServeError, SessionLogs, Sessions, Token, Tokens,
    ag_ui::{MakeAgent, Runs, Watch},
    api::Api,
    http::{Connections, Guard, Rate, Shared, describe, router},
};

/// Agents over HTTP: `POST /ag-ui` begins or resumes a run, `/sessions` has sessions that clients create and read from any
/// position, `GET /health` says whether the server is well.
///
/// ```no_run
/// use anabranch_runtime::{Agent, ScriptedModel, Turn};
/// use anabranch_server::Server;
/// use tokio::net::TcpListener;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::new(|_| {
///     Agent::builder("greeter", ScriptedModel::from_fn("scripted", |_| Turn::new().text("Hello."))).build()
/// });
/// let listener = TcpListener::bind("127.0.0.1:8080").await?;
/// server.serve(listener, async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Server {
    make: Box<MakeAgent>,
    watch: Box<Watch>,
    mode: Mode,
    sessions: Option<Sessions>,
    logs: Option<Arc<dyn SessionLogs>>,
    limits: Limits,
    tokens: Option<Tokens>,
}

impl Server {
    /// A server whose threads have the agents that `make` makes, each from its thread's first input. It is to be quick:
    /// other requests wait meanwhile.
    pub fn new(make: impl Fn(&RunAgentInput) -> Agent + Send + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            watch: Box::new(|_, _| {}),
            mode: Mode::default(),
            sessions: None,
            logs: None,
            limits: Limits::default(),
            tokens: None,
        }
    }

    /// Offers `/sessions` too. By default there are none.
    pub fn sessions(mut self, sessions: Sessions) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Where the events of threads are kept, and of sessions that [have no logs of their own](Sessions::logs). By default in
    /// memory, [so many](Limits::log) of each.
    ///
    /// Where they outlive the server, a thread is found again by the next one, and its agent is made of its first input again.
    pub fn logs(mut self, logs: impl SessionLogs + 'static) -> Self {
        self.logs = Some(Arc::new(logs));
        self
    }

    /// Shows each thread's session to `watch` as it begins, with the thread's first input, and again when it is opened again after it was closed: so its events can be kept elsewhere,
    /// from the first. It is to be quick, as what makes agents. By default nobody is shown any.
    pub fn watched_by(mut self, watch: impl Fn(&RunAgentInput, &Session) + Send + Sync + 'static) -> Self {
        self.watch = Box::new(watch);
        self
    }

    /// What clients are told of children. By default everything.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How much clients may ask for.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What clients have to show. By default nothing, and then only this machine's programs are served.
    pub fn token(self, token: Token) -> Self {
        self.tokens(token.into())
    }

    /// What clients have to show, each for its tenant.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Closes what was running under a server before, where its sessions outlived it, and serves until `stop` is ready; then refuses new runs, waits for those under way, stops them when
    /// [their time](Limits::drain) is over, and ends all sessions.
    ///
    /// # Errors
    /// When the listener can be reached from outside and there is no token, when the sessions from before cannot be read, and
    /// when the socket fails.
    ///
    /// # Cancel safety
    /// Dropping the future ends the server at once, with all connections.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Self { make, watch, mode, sessions, logs, limits, tokens } = self;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && tokens.is_none() {
            return Err(ServeError::Exposed { address });
        }
        let logs = logs.unwrap_or_else(|| Arc::new(MemoryLogs::new(limits.log)));
        let sessions = sessions.map(|sessions| Arc::new(Api::new(sessions, mode, &limits, &logs)));
        let runs = Arc::new(Runs::new(make, watch, mode, limits, Arc::clone(&logs)));
        let mut stop = pin!(stop);
        let load = async {
            // Sessions that are kept elsewhere than threads are read there.
            if !sessions.as_ref().is_some_and(|sessions| Arc::ptr_eq(sessions.logs(), &logs)) {
                logs.kept().await?;
            }
            if let Some(sessions) = &sessions {
                sessions.load().await?;
            }
            Ok::<_, LogError>(())
        };
        tokio::select! {
            loaded = load => loaded?,
            () = &mut stop => return Ok(()),
        }
        let [stopping, closing] = [CancellationToken::new(), CancellationToken::new()];
        let description = describe(sessions.is_some(), tokens.is_some());
        let shared = Shared {
            runs: Arc::clone(&runs),
            sessions: sessions.clone(),
            guard: Arc::new(Guard::new(tokens)),
            rate: Arc::new(Rate::new(&limits)),
            limits,
            description,
            stopping: stopping.clone(),
        };
        let connections = Connections::new(router(shared), &limits, closing.clone());
        tracing::info!(%address, "listening");
        tokio::select! {
            () = connections.accept(&listener) => {}
            () = &mut stop => {}
        }
        tracing::info!("stopping: runs under way may end");
        stopping.cancel();
        let finish = async {
            if let Some(sessions) = &sessions {
                sessions.finish().await;
            }
        };
        let drained = async { tokio::join!(runs.drained(), finish) };
        // Whoever asks meanwhile is told to go elsewhere.
        let is_drained = tokio::select! {
            () = connections.accept(&listener) => false,
            drained = tokio::time::timeout(limits.drain, drained) => drained.is_ok(),
        };
        if !is_drained {
            tracing::warn!("runs under way are stopped");
            runs.stop();
        }
        drop(listener);
        closing.cancel();
        let ended = async {
            if let Some(sessions) = &sessions {
                sessions.close().await;
            }
            connections.ended().await;
        };
        if tokio::time::timeout(limits.stop, ended).await.is_err() {
            tracing::warn!("some clients do not read the end of their runs and are left");
        }
        runs.close(limits.stop).await;
        tracing::info!("stopped");
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("mode", &self.mode)
            .field("limits", &self.limits)
            .field("sessions", &self.sessions)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}
