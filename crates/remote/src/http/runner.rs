//! Who has another server run children.

use std::{fmt, sync::Arc, time::Duration};

use anabranch_proto::{ErrorInfo, ErrorType};
use anabranch_runtime::{Heard, Instructions, Order, Runner, RunnerStream};
use futures::{StreamExt, stream};
use reqwest::{Client, Method, RequestBuilder, Url, header::HeaderValue};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::talk::Talk;

/// How many events wait for the session: what is not taken waits at the server.
const HEARD: usize = 32;

type Options = dyn Fn(&Order) -> Option<Value> + Send + Sync;

/// Runs children on another anabranch server, each in a session of its own there.
///
/// ```
/// use std::sync::Arc;
///
/// use anabranch_remote::http::HttpRunner;
/// use anabranch_runtime::{Agent, ScriptedModel, SpawnSubagent};
/// use serde_json::json;
///
/// # fn agent(model: ScriptedModel) -> Result<Agent, Box<dyn std::error::Error>> {
/// let runner = HttpRunner::new("http://127.0.0.1:8080")?
///     .token("a token of that server's")?
///     .options(|order| Some(json!({ "agent": order.agent })));
/// let spawn = SpawnSubagent::on(Arc::new(runner), "analyst");
/// Ok(Agent::builder("master", model).tool(spawn).task_tools().build())
/// # }
/// ```
pub struct HttpRunner {
    server: Arc<Server>,
    permissions: Held,
}

/// Where what is above a child may forbid it something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Here alone, so that such a child is refused.
    Here,
    /// The other server has its own, which are enough.
    There,
}

/// Another server.
pub(super) struct Server {
    url: Url,
    client: Client,
    token: Option<HeaderValue>,
    options: Box<Options>,
    pub(super) patience: Duration,
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// An address that is none of a server.
    #[error("`{url}` is no address of a server; it is to be `http://HOST:PORT`, perhaps with a path")]
    Address {
        /// The address.
        url: String,
    },
    /// A token that cannot be sent.
    #[error("the token has what no header can have; it is to be visible ASCII")]
    Token,
    /// There can be no client.
    #[error("there can be no client of HTTP")]
    Client(#[source] reqwest::Error),
}

impl HttpRunner {
    /// A server at an address, with a client of HTTP without TLS.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(url: impl AsRef<str>) -> Result<Self, HttpError> {
        let client = Client::builder().connect_timeout(Duration::from_secs(10)).build();
        Self::with_client(url, client.map_err(HttpError::Client)?)
    }

    /// A server at an address, with a client of the application's: for TLS, proxies and certificates of its own. The client
    /// may have no time-out of whole requests, for a stream of events is one.
    ///
    /// # Errors
    /// When the address is none.
    pub fn with_client(url: impl AsRef<str>, client: Client) -> Result<Self, HttpError> {
        let address = || HttpError::Address { url: url.as_ref().to_owned() };
        let mut url = Url::parse(url.as_ref()).map_err(|_| address())?;
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some()
        {
            return Err(address());
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        url.set_query(None);
        let server = Server {
            url,
            client,
            token: None,
            options: Box::new(|_| None),
            patience: Duration::from_secs(60),
        };
        Ok(Self { server: Arc::new(server), permissions: Held::Here })
    }

    /// Shows a token of the other server's.
    ///
    /// # Errors
    /// When a header cannot have it.
    pub fn token(mut self, token: impl AsRef<str>) -> Result<Self, HttpError> {
        let mut shown =
            HeaderValue::from_str(&format!("Bearer {}", token.as_ref())).map_err(|_| HttpError::Token)?;
        shown.set_sensitive(true);
        self.with_server(|server| server.token = Some(shown));
        Ok(self)
    }

    /// What the other server is to make of an order: the `options` of a session, whose meaning is its application's. None by
    /// default.
    #[must_use]
    pub fn options(mut self, options: impl Fn(&Order) -> Option<Value> + Send + Sync + 'static) -> Self {
        self.with_server(|server| server.options = Box::new(options));
        self
    }

    /// How long the other server may be away before its child has failed. A minute by default.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.with_server(|server| server.patience = patience);
        self
    }

    /// The other server's permissions are enough, whatever those of the agents above a child here are. Without this, children
    /// of agents that have any are refused, because nothing here can hold the other server to them.
    #[must_use]
    pub fn own_permissions(mut self) -> Self {
        self.permissions = Held::There;
        self
    }

    fn with_server(&mut self, change: impl FnOnce(&mut Server)) {
        // Nothing runs while it is being built, so nobody else has it.
        if let Some(server) = Arc::get_mut(&mut self.server) {
            change(server);
        }
    }

    /// Why an order cannot be given, where it cannot.
    fn refuse(&self, order: &Order) -> Result<(), ErrorInfo> {
        let refused = |text: &str| Err(ErrorInfo::new(ErrorType::INVALID_REQUEST, text));
        if !order.history.is_empty() {
            return refused(
                "a server over HTTP takes no conversation to start from; leave `fork` out, and spawn a sub-agent that has \
                 ended anew",
            );
        }
        if self.permissions == Held::Here && !order.permissions.is_empty() {
            return refused(
                "the agents above have permissions, which cannot be held on another server; its own may be enough, and then \
                 the application says so (`HttpRunner::own_permissions`)",
            );
        }
        Ok(())
    }
}

impl Runner for HttpRunner {
    fn run(&self, order: Order, instructions: Instructions) -> RunnerStream {
        if let Err(error) = self.refuse(&order) {
            return stream::iter([Err(error)]).boxed();
        }
        let (heard, receiver) = mpsc::channel(HEARD);
        let stopped = CancellationToken::new();
        tokio::spawn(run(Arc::clone(&self.server), order, instructions, heard, stopped.clone()));
        let unwanted: DropGuard = stopped.drop_guard();
        stream::unfold((receiver, unwanted), async |(mut receiver, unwanted)| {
            let heard = receiver.recv().await?;
            Some((heard, (receiver, unwanted)))
        })
        .boxed()
    }

    fn takes_messages(&self) -> bool {
        false
    }
}

/// Has the server run a child, until it has ended or nobody wants it any more.
async fn run(
    server: Arc<Server>,
    order: Order,
    instructions: Instructions,
    heard: mpsc::Sender<Result<Heard, ErrorInfo>>,
    stopped: CancellationToken,
) {
    // To its end, for a session that is not known of would go on.
    let mut talk = match Talk::begin(&server, &order).await {
        Ok(talk) => talk,
        Err(error) => {
            heard.send(Err(error)).await.ok();
            return;
        }
    };
    let followed =
        stopped.run_until_cancelled(Box::pin(follow(&mut talk, &order, instructions, &heard))).await;
    if let Some(Err(error)) = followed {
        heard.send(Err(error)).await.ok();
    }
    drop(heard);
    if let Err(error) = talk.end().await {
        tracing::warn!(%error, %server, child = %order.session_id, "the session of a sub-agent is left behind");
    }
}

async fn follow(
    talk: &mut Talk<'_>,
    order: &Order,
    mut instructions: Instructions,
    heard: &mpsc::Sender<Result<Heard, ErrorInfo>>,
) -> Result<(), ErrorInfo> {
    talk.prompt(order).await?;
    let mut ready: Option<(Heard, bool)> = None;
    loop {
        tokio::select! {
            permit = heard.reserve(), if ready.is_some() => {
                let Ok(permit) = permit else { return Ok(()) };
                if let Some((event, is_last)) = ready.take() {
                    permit.send(Ok(event));
                    if is_last {
                        return Ok(());
                    }
                }
            }
            next = talk.next(), if ready.is_none() => ready = Some(next?),
            Some(instruction) = instructions.next() => talk.instruct(&instruction).await?,
        }
    }
}

impl Server {
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        // Ours alone: ids in it are letters, digits and two marks, or refused by the server.
        let url = self.url.join(path).unwrap_or_else(|_| self.url.clone());
        let request = self.client.request(method, url);
        match &self.token {
            Some(token) => request.header("authorization", token.clone()),
            None => request,
        }
    }

    pub(super) fn options(&self, order: &Order) -> Option<Value> {
        (self.options)(order)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for HttpRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRunner")
            .field("server", &format_args!("{}", self.server))
            .field("permissions", &self.permissions)
            .finish_non_exhaustive()
    }
}
