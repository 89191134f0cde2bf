//! Agents and their sub-agents, over the protocols that their frontends speak.
#![doc = include_str!("../README.md")]
// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

pub mod acp;
mod cli;

pub use cli::main;
