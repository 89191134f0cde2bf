//! A durable log of agents' events, on SQLite.

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod error;
mod forget;
mod insert;
mod lock;
mod log;
mod options;
mod pool;
mod query;
mod reader;
mod schema;
mod shared;
mod store;
mod tail;
mod writer;

pub use error::StoreError;
pub use options::{Barriers, Retention, Safety, StoreOptions};
pub use reader::{SessionQuery, StoreReader, StoredRoot, StoredSession};
pub use store::{SessionLog, Store};
