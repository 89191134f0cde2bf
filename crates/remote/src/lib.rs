//! Sub-agents on other machines.
#![doc = include_str!("../README.md")]
//! # Invariants
//! - A broker carries, keeps and repeats; nothing here does so in its place.
//! - A child that is run elsewhere ends once: by its own terminal, or as failed where whoever ran it is lost and it is not to
//!   be run again. Who runs it is decided by the order of one stream, so that late events of a worker that was given up are
//!   nobody's.
//! - Memory is bounded: what is not yet taken by the other side holds its producer back.

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "nats")]
pub mod nats;

/// The examples of the page on sub-agents on several machines.
#[cfg(all(doctest, feature = "http", feature = "nats"))]
#[doc = include_str!("../../../docs/remote.md")]
struct Remote;
