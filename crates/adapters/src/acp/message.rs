//! What goes to the client.

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, RequestPermissionRequest, SessionId as WireSessionId, SessionNotification,
    SessionUpdate,
};
use anabranch_proto::{SessionId, ToolCallId};
use serde::{Serialize, Serializer};

/// A message to the client. Serialises as JSON-RPC 2.0.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// A notification `session/update`.
    Update(SessionNotification),
    /// A request `session/request_permission`. Only where [`Acp::permissions`](super::Acp::permissions) asks for it.
    Permission(Permission),
}

impl Message {
    pub(super) fn update(session: &WireSessionId, update: SessionUpdate) -> Self {
        Self::Update(SessionNotification::new(session.clone(), update))
    }
}

/// A question to the person at the client.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Permission {
    /// The request. Its tool call was opened in its session before.
    pub request: RequestPermissionRequest,
    /// The child session that asks; none where the root does. An answer finds the call by this and `call`.
    pub session: Option<SessionId>,
    /// The call's own id.
    pub call: ToolCallId,
}

/// The option of a [`Permission`] that lets the call run.
pub const ALLOW: &str = "allow";
/// The option of a [`Permission`] that does not.
pub const REJECT: &str = "reject";

#[derive(Serialize)]
struct Envelope<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    method: &'static str,
    params: &'a T,
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let jsonrpc = "2.0";
        match self {
            Self::Update(params) => {
                let method = CLIENT_METHOD_NAMES.session_update;
                Envelope { jsonrpc, id: None, method, params }.serialize(serializer)
            }
            // A call is asked about once at a time, so its id tells the answers apart. A connection with ids of its
            // own takes the request alone.
            Self::Permission(permission) => {
                let method = CLIENT_METHOD_NAMES.session_request_permission;
                let params = &permission.request;
                let id = Some(format!("permission:{}", params.tool_call.tool_call_id));
                Envelope { jsonrpc, id, method, params }.serialize(serializer)
            }
        }
    }
}
