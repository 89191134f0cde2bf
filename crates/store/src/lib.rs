//! A durable log of agents' events, on SQLite: many sessions in one file, group commit, recovery after a crash.
//!
//! A [`Store`] is a file. [`SessionLog`] is the log of one root session in it, an [`EventLog`] for `anabranch-runtime`: a
//! session appends, readers are cursors, and what was appended outlives the process. When a program comes back,
//! [`SessionQuery::unfinished`] says what was running, [`Store::recover`] closes it, and `SessionBuilder::resume` of the
//! runtime goes on with a conversation. A [`StoreReader`] lists sessions and shows their trees, in another process too, and
//! whoever has `sqlite3` can do the same.
//!
//! It is **not** a server and has no network; it knows no frontend's format, and what is in an event is none of its
//! business. It makes no copy of a session in another place: one machine has the file.
//!
//! # Invariants
//! - **Appends wait for no disk.** [`append`](EventLog::append) hands events to a thread that writes; what waits is bounded
//!   in bytes ([`StoreOptions::waiting_bytes`]), and [`room`](EventLog::room) is how a producer waits for that bound.
//! - **Durable means durable.** What [`durable`](EventLog::durable) says outlives a loss of power, or the process alone
//!   where the store was opened [so](Safety). A commit is there as a whole or not at all: no hole, no half event.
//! - **What somebody acts on can be held.** Where the store was opened [so](Barriers), a spawn, a terminal, a result, a
//!   question and its answer are seen by readers only when they are durable; or all is.
//! - **One writer.** A lock on a file beside the database keeps a second store out, and a log refuses events of a second
//!   session.
//! - **What is forgotten is a gap.** [`Retention`] takes whole runs, never what runs, and keeps the conversation.
//! - **A fault is said to all.** Appends are refused with the reason, readers have what was appended and then the reason;
//!   what waits stays in memory, is tried again, and is written when the fault has passed. No fault panics.
//!
//! # The file
//! `schema/1.sql` and what follows it make the tables, which are the store's own; `schema/views.sql` has the views that
//! others may rely on: `roots`, `sessions`, `spawns`, `events`. `PRAGMA application_id` is `0x616e6162`, `PRAGMA
//! user_version` the version of the schema. A file of an earlier version is brought up when it is opened for writing, in one
//! transaction; one of a later version is refused.
//!
//! The example is that of [`Store`]; the page `docs/store.md` shows more.

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod encode;
mod error;
mod forget;
mod insert;
mod lock;
mod log;
mod new_root;
mod options;
mod pool;
mod query;
mod reader;
mod schema;
mod shared;
mod store;
mod tail;
mod writer;

#[cfg(doc)]
use anabranch_session::EventLog;

pub use error::StoreError;
pub use new_root::NewRoot;
pub use options::{Barriers, Retention, Safety, StoreOptions};
pub use reader::{SessionQuery, StoreReader, StoredRoot, StoredSession};
pub use store::{SessionLog, Store};

/// The examples of the page on stores.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/store.md")]
struct Page;
