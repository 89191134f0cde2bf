//! The server.

use std::{fmt, future::Future, pin::pin, sync::Arc};

use anabranch_adapters::ag_ui::Mode;
use anabranch_runtime::{Agent, Session};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    Limits, RunAgentInput, ServeError, Token,
    ag_ui::{MakeAgent, Runs, Watch},
    http::{Guard, Shared, router},
};

/// Agents over HTTP: `POST /ag-ui` begins or resumes a run, `GET /health` says whether the server is well.
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
    limits: Limits,
    token: Option<Token>,
}

impl Server {
    /// A server whose threads have the agents that `make` makes, each from its thread's first input. It is to be quick:
    /// other requests wait meanwhile.
    pub fn new(make: impl Fn(&RunAgentInput) -> Agent + Send + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            watch: Box::new(|_, _| {}),
            mode: Mode::default(),
            limits: Limits::default(),
            token: None,
        }
    }

    /// Shows each thread's session to `watch` as it begins, with the thread's first input: so its events can be kept elsewhere,
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
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Serves until `stop` is ready; then refuses new runs, waits for those under way, stops them when
    /// [their time](Limits::drain) is over, and ends all sessions.
    ///
    /// # Errors
    /// When the listener can be reached from outside and there is no token, and when the socket fails.
    ///
    /// # Cancel safety
    /// Dropping the future takes no more requests; responses under way go on until their clients leave.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Self { make, watch, mode, limits, token } = self;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && token.is_none() {
            return Err(ServeError::Exposed { address });
        }
        let runs = Arc::new(Runs::new(make, watch, mode, limits));
        let guard = Arc::new(Guard::new(token));
        let [stopping, closing] = [CancellationToken::new(), CancellationToken::new()];
        let shared = Shared { runs: Arc::clone(&runs), guard, limits, stopping: stopping.clone() };
        let serving =
            axum::serve(listener, router(shared)).with_graceful_shutdown(closing.clone().cancelled_owned());
        let mut serving = pin!(serving.into_future());
        tracing::info!(%address, "listening");
        tokio::select! {
            ended = &mut serving => ended?,
            () = stop => {
                tracing::info!("stopping: runs under way may end");
                stopping.cancel();
                // Whoever asks meanwhile is told to go elsewhere.
                tokio::select! {
                    ended = &mut serving => ended?,
                    drained = tokio::time::timeout(limits.drain, runs.drained()) => {
                        if drained.is_err() {
                            tracing::warn!("runs under way are stopped");
                            runs.stop();
                        }
                        closing.cancel();
                        if tokio::time::timeout(limits.stop, &mut serving).await.is_err() {
                            tracing::warn!("some clients do not read the end of their runs and are left");
                        }
                    }
                }
            }
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
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
