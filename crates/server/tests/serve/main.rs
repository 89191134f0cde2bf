//! The server over loopback, by a client that shares no code with it.

mod agents;
mod cli;
mod client;
mod leaving;
mod questions;
mod refusals;
mod runs;
mod stopping;
mod tokens;
