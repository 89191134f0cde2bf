//! Scripts, transcripts and id normalisation for tests of whatever reads agent events.
#![doc = include_str!("../README.md")]
//! It is **not** a mock of the runtime: events are written down, not produced. What is written down with [`Stage`] is
//! well formed as long as its helpers are used in an order that makes sense; [`Actor::emit`] writes anything.
//!
//! # Invariants
//! - The same calls give the same bytes: ids are counted and the clock stands still.
//! - It panics instead of returning errors, with what was expected in the message. It is for tests alone.

pub mod ag_ui;

mod broken;
mod normalize;
mod script;
mod stage;
mod stamp;
mod transcript;

pub use broken::Broken;
pub use normalize::Normalizer;
pub use script::Script;
pub use stage::{Actor, SpawnBuilder, Stage};
pub use stamp::CountingStamp;
pub use transcript::transcript;
