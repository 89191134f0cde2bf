//! Runs seeded random conversations of agents that misbehave, and holds each to every rule.
//!
//! A seed becomes a [`Plan`](plan::Plan): a tree of agents, what each model, tool, layer, foreign stream and reader does,
//! who stops what and when. Fakes play it under the real runtime, with ids that count and time that is paused, so the same
//! seed gives the same bytes. [`check`] then looks at all that happened. A plan that fails is shrunk to the least that
//! still does.
//!
//! ```text
//! seed ──generate──▶ Plan ──run──▶ Record ──check──▶ fine, or Failure ──shrink──▶ the least Plan that fails
//! ```
//!
//! It is **not** a replacement for tests that say what one thing does: it says that nothing else happens.
//!
//! # Invariants
//! - A plan is plain data, and says what must come out wherever that is certain.
//! - Nothing in a run depends on the machine: not its clock, its threads or its hash seeds.

pub mod checks;
mod fakes;
mod log;
mod person;
pub mod plan;
mod random;
mod read;
pub mod report;
mod run;
mod seen;
pub mod shrink;
mod stamp;
mod world;

pub use checks::{Failure, check};
pub use random::Random;
pub use run::{Record, catch_panics, name_of, run};
