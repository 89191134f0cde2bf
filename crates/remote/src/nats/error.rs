//! What can go wrong between us and the broker.

use std::error::Error;

/// Why the broker cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// A name that is none for the broker.
    #[error("`{name}` cannot be a name for the broker: 1 to 64 of a-z, A-Z, 0-9, `-` and `_`")]
    Name {
        /// The name.
        name: String,
    },
    /// The broker has no JetStream, or not for this account.
    #[error("the broker gives no stream `{stream}`; it needs JetStream (`nats-server -js`), and room")]
    Stream {
        /// The stream.
        stream: String,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The broker lets nobody read the queue.
    #[error("the broker gives no consumer of the queue `{queue}`")]
    Consumer {
        /// The queue.
        queue: String,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
}
