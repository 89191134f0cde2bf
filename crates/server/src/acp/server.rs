//! Agents for the clients of the protocol.

use std::{fmt, future, path::PathBuf, sync::Arc};

use agent_client_protocol::{Agent as AgentRole, ConnectTo};
use anabranch_proto::SessionId;
use anabranch_runtime::{Agent, Session};

use super::{AcpError, connection::Connection, flow::Flow, stdio::Stdio};

/// A session that a client asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// The folder that the client works in.
    pub cwd: PathBuf,
}

/// Makes the agent of a session.
pub(super) type Make = dyn Fn(&NewSession) -> Agent + Send + Sync;

/// Is shown each session as it begins.
pub(super) type Watch = dyn Fn(&Session) + Send + Sync;

/// Serves clients of the Agent Client Protocol. Cloning is cheap.
#[derive(Clone)]
#[must_use]
pub struct AcpServer {
    pub(super) make: Arc<Make>,
    pub(super) watch: Arc<Watch>,
    pub(super) always_cards: bool,
}

impl AcpServer {
    /// Serves the agents that `make` makes, one for each session.
    pub fn new(make: impl Fn(&NewSession) -> Agent + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), watch: Arc::new(|_| {}), always_cards: false }
    }

    /// Whether sub-agents are cards even for a client that knows sessions of theirs. By default not.
    pub fn always_cards(mut self, always: bool) -> Self {
        self.always_cards = always;
        self
    }

    /// Shows each session to `watch` as it begins, before its client knows it: so its events can be kept elsewhere, from the
    /// first. It must not wait. By default nobody is shown any.
    pub fn watched_by(mut self, watch: impl Fn(&Session) + Send + Sync + 'static) -> Self {
        self.watch = Arc::new(watch);
        self
    }

    /// Serves the client at stdin and stdout, until stdin ends. Nothing else may write to stdout.
    ///
    /// # Errors
    /// When the connection breaks off.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn serve_stdio(self) -> Result<(), AcpError> {
        self.serve_stdio_until(future::pending()).await
    }

    /// Serves the client at stdin and stdout, until stdin ends or `stop` is ready: what runs then is stopped, and its logs
    /// have their ends.
    ///
    /// # Errors
    /// When the connection breaks off.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn serve_stdio_until(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), AcpError> {
        let flow = Flow::counted();
        let stdio = Stdio { flow: flow.clone(), stop: Box::pin(stop) };
        Connection::serve(self, stdio, flow).await
    }

    /// Serves the client at `transport`, until it closes. What the transport does not write waits without a bound.
    ///
    /// # Errors
    /// When the connection breaks off.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn serve(self, transport: impl ConnectTo<AgentRole> + 'static) -> Result<(), AcpError> {
        Connection::serve(self, transport, Flow::uncounted()).await
    }
}

impl fmt::Debug for AcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcpServer").field("always_cards", &self.always_cards).finish_non_exhaustive()
    }
}
