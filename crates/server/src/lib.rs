//! Agents and their sub-agents, over the protocols that their frontends speak.
#![doc = include_str!("../README.md")]
//! It is **not** a home for agents: a [`Server`] is given functions that make one per thread of AG-UI and one per session, an
//! [`AcpServer`](acp::AcpServer) one that makes one per session; the binary `anabranch` gives them the demo's. [`Sessions`] and threads
//! are kept where their [`SessionLogs`] keep them: in memory by default, or in a file ([`StoreLogs`]), from which the next server
//! goes on. Sessions are read from any position; threads of AG-UI offer no cursor to resume with; sessions over stdio are kept in
//! memory alone.
//!
//! # Invariants of [`Server`]
//! - A thread is one session, and one request at a time is served from it.
//! - A response that is dropped before its run's end stops that run. A run that waits for an answer outlives its response.
//! - A session's events are told once each and in order, from whichever position; readers hold nobody back, and change nothing.
//! - A session in a file is open once, and is resumed whenever it is opened: after a restart, and after it made room for another.
//! - What is somebody else's is as what never was.
//! - Whatever a client sends, the answer is a status with an error in JSON, or a run of the protocol; never the end of the
//!   server.
//! - Everything that a client can make grow has a bound in [`Limits`].
//! - Without tokens it is heard on loopback alone.

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

pub mod acp;
mod ag_ui;
mod api;
mod cli;
mod error;
mod http;
mod limits;
mod logs;
mod server;
mod tenant;
mod token;

pub use ag_ui::{InputMessage, RunAgentInput};
pub use api::{Epoch, InvalidEpoch, Sessions, Unusable};
pub use cli::main;
pub use error::ServeError;
pub use limits::Limits;
pub use logs::{KeptSession, MemoryLogs, NewSession, OpenLog, SessionLogs, StoreLogs};
pub use server::Server;
pub use tenant::{Tenant, Tokens};
pub use token::{Token, TokenError};
