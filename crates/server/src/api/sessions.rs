//! How sessions are made.

use std::{fmt, sync::Arc};

use anabranch_runtime::{Agent, Session};

use super::Unusable;
use crate::{NewSession, SessionLogs};

/// Makes the agent of a session.
pub(super) type Make = dyn Fn(&NewSession) -> Result<Agent, Unusable> + Send + Sync;

/// Is shown each session as it begins.
pub(super) type Watch = dyn Fn(&NewSession, &Session) + Send + Sync;

/// How the sessions of `/sessions` are made, and where their events are kept.
///
/// ```
/// use anabranch_runtime::{Agent, ScriptedModel, Turn};
/// use anabranch_server::{Server, Sessions, Unusable};
///
/// let greeter = || Agent::builder("greeter", ScriptedModel::from_fn("scripted", |_| Turn::new().text("Hello."))).build();
/// let sessions = Sessions::new(move |new| match &new.options {
///     None => Ok(greeter()),
///     Some(_) => Err(Unusable::new("the greeter has no options; leave them out")),
/// });
/// # let server = Server::new(|_| Agent::builder("greeter", ScriptedModel::new("scripted")).build());
/// let server = server.sessions(sessions);
/// ```
#[must_use]
pub struct Sessions {
    pub(super) make: Box<Make>,
    pub(super) watch: Box<Watch>,
    /// Where they are kept, where that is not where the server's are.
    pub(super) logs: Option<Arc<dyn SessionLogs>>,
}

impl Sessions {
    /// Sessions with the agents that `make` makes, each of what its client wants. It is to be quick: other requests may wait
    /// meanwhile. Where sessions outlive the server, it is asked again for those that are opened again.
    pub fn new(make: impl Fn(&NewSession) -> Result<Agent, Unusable> + Send + Sync + 'static) -> Self {
        Self { make: Box::new(make), watch: Box::new(|_, _| {}), logs: None }
    }

    /// Where the events are kept. By default where the server's [are](crate::Server::logs).
    pub fn logs(mut self, logs: impl SessionLogs + 'static) -> Self {
        self.logs = Some(Arc::new(logs));
        self
    }

    /// Shows each session to `watch` as it begins, before its first event, and again when it is opened again after it was
    /// closed, such as by another server before. By default nobody is shown any.
    pub fn watched_by(mut self, watch: impl Fn(&NewSession, &Session) + Send + Sync + 'static) -> Self {
        self.watch = Box::new(watch);
        self
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("logs", &self.logs).finish_non_exhaustive()
    }
}
