//! What ends a connection.

/// Why a connection broke off.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the client broke off")]
pub struct AcpError(#[from] agent_client_protocol::Error);
