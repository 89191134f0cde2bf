//! A connection: what its client asks for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent_client_protocol::{
    Agent as AgentRole, Client, ConnectTo, Error, on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo, Responder,
        schema::{
            AgentCapabilities, CancelNotification, CloseSessionRequest, CloseSessionResponse, ContentBlock,
            DeleteSessionRequest, Implementation, InitializeRequest, InitializeResponse, ListSessionsRequest,
            ListSessionsResponse, LoadSessionRequest, NewSessionRequest, NewSessionResponse, PromptRequest,
            PromptResponse, ResumeSessionRequest, SessionCapabilities, SessionCloseCapabilities,
            SessionId as WireSessionId, SessionInfo, SessionListCapabilities, SetSessionConfigOptionRequest,
            SetSessionModeRequest,
        },
    },
};
use anabranch_adapters::acp::Acp;
use anabranch_proto::Stamp as _;
use anabranch_runtime::SystemStamp;
use anabranch_session::MemoryLog;
use futures::future::join_all;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    AcpError, AcpServer, NewSession,
    flow::Flow,
    pump::Pump,
    refusal::Refusal,
    sessions::{Found, Root, Sessions, Turn},
    writer::{self, MAILBOX, Outgoing},
};

/// How many bytes of text a prompt has at most.
const PROMPT: usize = 1024 * 1024;

/// How many bytes of events a session keeps.
const LOG: usize = 16 * 1024 * 1024;

/// How long sessions may take to end when the client is gone; and how long a client that is gone may read nothing of what
/// was written.
const ENDING: Duration = Duration::from_secs(5);

/// What the handlers of a connection share.
pub(super) struct Connection {
    server: AcpServer,
    sessions: Sessions,
    mailbox: mpsc::Sender<Outgoing>,
    flow: Flow,
    /// Whether the client knows sessions of sub-agents.
    knows_subagents: AtomicBool,
    stamp: SystemStamp,
}

impl Connection {
    pub(super) async fn serve(
        server: AcpServer,
        transport: impl ConnectTo<AgentRole> + 'static,
        flow: Flow,
    ) -> Result<(), AcpError> {
        let (mailbox, outgoing) = mpsc::channel(MAILBOX);
        let connection = Arc::new(Self {
            server,
            sessions: Sessions::default(),
            mailbox,
            flow: flow.clone(),
            knows_subagents: AtomicBool::new(false),
            stamp: SystemStamp::new(),
        });
        let left = CancellationToken::new();
        let handled = Arc::clone(&connection).handle(transport, outgoing, flow, left.clone());
        let result = tokio::select! {
            result = handled => result,
            () = connection.give_up(&left) => {
                tracing::warn!("the client left and did not read what was written");
                Ok(())
            }
        };
        connection.end_sessions().await;
        Ok(result?)
    }

    /// Waits until the client has left and reads nothing of what is still written: an SDK that writes waits for ever.
    async fn give_up(&self, left: &CancellationToken) {
        left.cancelled().await;
        self.end_sessions().await;
        loop {
            let before = self.flow.lines();
            tokio::time::sleep(ENDING).await;
            if self.flow.lines() == before {
                return;
            }
        }
    }

    /// Ends all sessions: there is nobody who would read what they do.
    async fn end_sessions(&self) {
        let roots = self.sessions.take_all();
        let ended = join_all(roots.iter().map(|root| root.session.close()));
        if tokio::time::timeout(ENDING, ended).await.is_err() {
            tracing::warn!("sessions did not end in time when their client had left");
        }
    }

    async fn handle(
        self: Arc<Self>,
        transport: impl ConnectTo<AgentRole> + 'static,
        outgoing: mpsc::Receiver<Outgoing>,
        flow: Flow,
        left: CancellationToken,
    ) -> Result<(), Error> {
        /// A handler that asks the connection what to answer.
        macro_rules! answer {
            ($method:ident) => {{
                let this = Arc::clone(&self);
                async move |request, responder: Responder<_>, _: ConnectionTo<Client>| {
                    responder.respond_with_result(this.$method(&request))
                }
            }};
        }
        /// A handler of what is not served: a child's session is told from that.
        macro_rules! refuse {
            ($request:ty) => {{
                let this = Arc::clone(&self);
                async move |request: $request, responder: Responder<_>, _: ConnectionTo<Client>| {
                    responder.respond_with_error(this.not_served(&request.session_id))
                }
            }};
        }
        let (prompted, cancelled) = (Arc::clone(&self), Arc::clone(&self));
        AgentRole
            .v1()
            .name("anabranch")
            .with_spawned(move |client| writer::write(client, outgoing, flow))
            .on_close(async move |_: ConnectionTo<Client>| {
                left.cancel();
                Ok(())
            })
            .on_receive_request(answer!(initialize), on_receive_request!())
            .on_receive_request(answer!(new_session), on_receive_request!())
            .on_receive_request(answer!(list_sessions), on_receive_request!())
            .on_receive_request(answer!(close_session), on_receive_request!())
            .on_receive_request(
                async move |request: PromptRequest, responder, client| {
                    prompted.prompt(&request, responder, &client)
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |request: CancelNotification, _: ConnectionTo<Client>| {
                    cancelled.cancel(&request);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(refuse!(LoadSessionRequest), on_receive_request!())
            .on_receive_request(refuse!(ResumeSessionRequest), on_receive_request!())
            .on_receive_request(refuse!(DeleteSessionRequest), on_receive_request!())
            .on_receive_request(refuse!(SetSessionModeRequest), on_receive_request!())
            .on_receive_request(refuse!(SetSessionConfigOptionRequest), on_receive_request!())
            .connect_to(transport)
            .await
    }

    #[expect(clippy::unnecessary_wraps, reason = "a handler like the others")]
    fn initialize(&self, request: &InitializeRequest) -> Result<InitializeResponse, Error> {
        self.knows_subagents.store(request.client_capabilities.subagents.is_some(), Ordering::Release);
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .close(SessionCloseCapabilities::new());
        Ok(InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(AgentCapabilities::new().session_capabilities(sessions))
            .agent_info(Implementation::new("anabranch", env!("CARGO_PKG_VERSION"))))
    }

    fn new_session(&self, request: &NewSessionRequest) -> Result<NewSessionResponse, Error> {
        if !request.cwd.is_absolute() {
            return Err(Refusal::Folder(request.cwd.display().to_string()).into());
        }
        let root = self.sessions.add(|| self.start(request))?;
        let id = root.session.id().as_str();
        let acp = if root.grants { Acp::sessions(id) } else { Acp::cards(id) };
        (self.server.watch)(&root.session);
        let reader = root.session.subscribe_lossless(0);
        // It ends with its session.
        tokio::spawn(
            Pump::new(root.clone(), acp.permissions(true), self.mailbox.clone(), self.flow.clone())
                .run(reader),
        );
        Ok(NewSessionResponse::new(WireSessionId::new(id)))
    }

    /// Whether children are sessions of their own.
    fn shows_sessions(&self) -> bool {
        self.knows_subagents.load(Ordering::Acquire) && !self.server.always_cards
    }

    fn start(&self, request: &NewSessionRequest) -> Root {
        let new = NewSession { id: self.stamp.session_ids().0, cwd: request.cwd.clone() };
        let agent = (self.server.make)(&new);
        let builder = agent.session_builder().id(new.id).log(Arc::new(MemoryLog::with_retention(LOG)));
        // A new log is empty, so it is started; were it not so, it would get another id.
        let session = builder.start().unwrap_or_else(|_| agent.session());
        Root::new(session, new.cwd, self.shows_sessions())
    }

    fn list_sessions(&self, request: &ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
        if request.cursor.is_some() {
            return Err(Refusal::Cursor.into());
        }
        let roots = self.sessions.roots().into_iter();
        let in_folder = roots.filter(|root| request.cwd.as_ref().is_none_or(|cwd| *cwd == root.cwd));
        let info = |root: Root| SessionInfo::new(WireSessionId::new(root.session.id().as_str()), root.cwd);
        Ok(ListSessionsResponse::new(in_folder.map(info).collect()))
    }

    fn close_session(&self, request: &CloseSessionRequest) -> Result<CloseSessionResponse, Error> {
        let root = self.sessions.root(&request.session_id.0)?;
        self.sessions.remove(&request.session_id.0);
        // Behind this its pump answers the prompt that is not answered.
        tokio::spawn(async move { root.session.close().await });
        Ok(CloseSessionResponse::new())
    }

    fn prompt(
        &self,
        request: &PromptRequest,
        responder: Responder<PromptResponse>,
        client: &ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let id = &request.session_id.0;
        let found = self.sessions.root(id).and_then(|root| Ok((root, text(&request.prompt)?)));
        let (root, text) = match found {
            Ok(found) => found,
            Err(refusal) => return responder.respond_with_error(refusal.into()),
        };
        let turn = Turn::new(responder);
        let cancel = turn.cancel.clone();
        if let Err(turn) = root.begin(Box::new(turn)) {
            return turn.responder.respond_with_error(Refusal::Busy(id.to_string()).into());
        }
        // The pump answers when the run has ended; only what was never begun is answered here.
        client.spawn(async move {
            let prompted = root.session.prompt_until(text, &cancel).await;
            match prompted.err().and_then(|error| Some((error, root.end()?))) {
                Some((error, turn)) => turn.responder.respond_with_internal_error(error),
                None => Ok(()),
            }
        })
    }

    fn cancel(&self, request: &CancelNotification) {
        let id = &*request.session_id.0;
        match self.sessions.find(id) {
            Some(Found::Root(root)) => root.cancel(),
            // Where children are cards none was announced, so nothing was granted.
            Some(Found::Child(root, child)) if root.grants => {
                if let Err(error) = root.session.cancel_session(&child) {
                    tracing::debug!(%error, "a child was cancelled that does not run");
                }
            }
            Some(Found::Child(..)) | None => tracing::warn!(session = id, "cancelled is what is not there"),
        }
    }

    fn not_served(&self, id: &WireSessionId) -> Error {
        match self.sessions.root(&id.0) {
            Ok(_) => Error::method_not_found(),
            Err(refusal) => refusal.into(),
        }
    }
}

/// The text of a prompt.
fn text(blocks: &[ContentBlock]) -> Result<String, Refusal> {
    let mut parts = Vec::new();
    for block in blocks {
        parts.push(match block {
            ContentBlock::Text(text) => text.text.as_str(),
            ContentBlock::ResourceLink(link) => link.uri.as_str(),
            ContentBlock::Image(_) => return Err(Refusal::Content("an image")),
            ContentBlock::Audio(_) => return Err(Refusal::Content("audio")),
            ContentBlock::Resource(_) => return Err(Refusal::Content("an embedded resource")),
            _ => return Err(Refusal::Content("something else")),
        });
    }
    let bytes = parts.iter().map(|part| part.len().saturating_add(1)).sum();
    if bytes > PROMPT {
        return Err(Refusal::TooLong { bytes, most: PROMPT });
    }
    Ok(parts.join("\n"))
}
