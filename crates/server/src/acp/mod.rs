//! An agent of the [Agent Client Protocol](https://agentclientprotocol.com), version 1.
//!
//! ```text
//! session ──▶ Coalesce ──▶ Acp ──▶ mailbox (64) ──▶ writer ──▶ the SDK's queue (64 updates) ──▶ stdout
//!    pump, one per session                          one per connection
//!                                └──────────────────── 2 MiB ────────────────────┘
//! ```
//!
//! The SDK's handlers run in its loop, so none of them waits: they start things, and what comes of those is sent by the pump
//! of their session. The answer to a prompt goes through the same mailbox as its updates, behind them.
//!
//! # Invariants
//! - An update of a prompt is never behind the prompt's answer.
//! - A client that does not read holds back the agents, not the memory: each queue has a bound. On a transport that does not
//!   tell what it wrote ([`AcpServer::serve`]) the SDK's own queue has none.
//! - A client that has left ends its sessions at once, read or not; what is still to be written is given up as soon as it reads
//!   nothing for five seconds.
//! - Whatever a client asks of a session that is not there, or of a child what it was not granted, is refused with `-32602`.
//! - What was asked of a person is asked no longer when the call does not wait any more.

mod connection;
mod error;
mod flow;
mod pump;
mod refusal;
mod server;
mod sessions;
mod stdio;
mod writer;

pub use error::AcpError;
pub use server::{AcpServer, NewSession};
