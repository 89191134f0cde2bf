//! Workers on a NATS JetStream queue, and the runner that gives them orders.
//!
//! ```text
//!  session ─ NatsRunner ──────▶ <prefix>.orders.<queue> ──────▶ Worker   a work queue: one worker takes an order
//!               ▲                                                  │
//!               └───── <prefix>.runs.<giver>.<child>.<run>.> ◀─────┘      a stream: claims, events, instructions
//! ```
//!
//! An order is a message of a work queue, acknowledged when its child has ended. Whoever takes one claims the child first,
//! with a message that is stored only where it is the next claim; so of two workers one has it, however often the broker
//! delivers. All that is said of a child is one stream of the broker's, in one order: events count where they lie behind their
//! worker's claim and before the next. [`NatsRunner`] reads that stream from wherever it was when a connection is lost.
//!
//! # When a worker is lost
//! A worker says four times in its [`Queue::lost_after`] that it lives. Who was not heard for that time is lost. Its children
//! then end as failed, or are [run again](NatsRunner::attempts) by another worker: that one's claim follows the other's, and
//! after it nothing of the lost one's counts, even where it was only slow.
//!
//! # What the broker needs
//! JetStream, from `nats-server` 2.9 on, and an account that may create the two streams `<PREFIX>_ORDERS` and
//! `<PREFIX>_RUNS`, or finds them. What is in them is as secret as the conversations are.

mod alive;
mod claim;
mod error;
mod fence;
mod names;
mod parts;
mod publish;
mod queue;
mod runner;
mod tail;
mod work;
mod worker;
mod writer;

pub use error::NatsError;
pub use queue::Queue;
pub use runner::NatsRunner;
pub use worker::{Produced, Worker};
