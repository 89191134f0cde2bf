//! What keeps a server from serving.

use std::{io, net::SocketAddr};

use anabranch_session::LogError;

/// Why a server does not serve, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Others than this machine's programs could reach it, and nobody would have to show a token.
    #[error("{address} can be reached from outside; give a token with --token-file, or listen on 127.0.0.1")]
    Exposed {
        /// Where it would have listened.
        address: SocketAddr,
    },
    /// The sessions from before cannot be read.
    #[error("the sessions from before cannot be read")]
    Logs(#[from] LogError),
    /// The socket failed.
    #[error("the server cannot listen")]
    Io(#[from] io::Error),
}
