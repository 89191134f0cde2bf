//! Agents and their sub-agents, over the protocols that their frontends speak.
#![doc = include_str!("../README.md")]
//! It is **not** a home for agents: a [`Server`] is given a function that makes one per thread, an
//! [`AcpServer`](acp::AcpServer) one that makes one per session; the binary `anabranch` gives them the demo's. Both keep
//! sessions in memory alone and offer no cursor to resume with.
//!
//! # Invariants of [`Server`]
//! - A thread is one session, and one request at a time is served from it.
//! - A response that is dropped before its run's end stops that run. A run that waits for an answer outlives its response.
//! - Whatever a client sends, the answer is a status with an error in JSON, or a run of the protocol; never the end of the
//!   server.
//! - Everything that a client can make grow has a bound in [`Limits`].
//! - Without a token it is heard on loopback alone.

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

pub mod acp;
mod ag_ui;
mod api;
mod cli;
mod error;
mod http;
mod limits;
mod server;
mod tenant;
mod token;

pub use ag_ui::{InputMessage, RunAgentInput};
pub use api::{Epoch, InvalidEpoch, NewSession, OpenLog, SessionLogs, Sessions, Unusable};
pub use cli::main;
pub use error::ServeError;
pub use limits::Limits;
pub use server::Server;
pub use tenant::{Tenant, Tokens};
pub use token::{Token, TokenError};
