//! Decides what enters a session's stream of events, once and in order, and closes what is open.
//!
//! A root session's events and those of every sub-agent below it come together in an [`EventProcessor`]. It drops what
//! comes twice or too late, announces children that nobody announced, keeps the [`SessionTree`] and the conversation,
//! closes what an end leaves open, and numbers what it admits. An [`EventLog`] keeps the numbered events for readers,
//! which are cursors on it.
//!
//! It is **not** a driver: it polls no tool, spawns no task and reads no clock. Whoever owns a processor gives it one
//! event after another, appends what it admitted to the log, and wakes the readers, in this order. It knows no
//! frontend's format.
//!
//! # Invariants
//! - **One announcement.** Before a child's first event of a run comes exactly one spawn for that run, in the parent's
//!   scope; a run begins with its prompt. Where one is missing it is made.
//! - **One end.** Each run ends with one `STREAM_COMPLETE`, the first that came; nothing of the run follows. Blocks,
//!   calls, results, replies and children are closed before it, and here only. What waits for a child ends after it: a sync
//!   child is closed before its call's result and before its parent's reply ends, a child that code spawned or that nobody
//!   announced before its parent's run does, or where it began between two runs of the root when the session is closed, as a
//!   background child of the root is.
//! - **One voice.** What is made for a run has the scope and the metadata of the run, those of its prompt.
//! - **One order.** Numbers count 1, 2, 3… per root session, without gaps, in the order in which events came.
//! - **One conversation.** Messages are built from the admitted events and nothing else, so a replay builds the same.
//! - **Bounds.** The memory for duplicates and refusals does not grow with the number of events. That of the tree grows
//!   with the number of sessions, up to [`Limits::max_spawned`].
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! # use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use anabranch_proto::{ChildScope, Event, EventKind, Metadata, Outcome, Scope, Stamp, event};
//! use anabranch_session::{EventProcessor, Limits, Status};
//! # #[derive(Default)]
//! # struct Counter(AtomicU64);
//! # impl Stamp for Counter {
//! #     fn unique(&self) -> [u8; 16] {
//! #         u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
//! #     }
//! #     fn ascending(&self) -> [u8; 16] {
//! #         self.unique()
//! #     }
//! #     fn now(&self) -> anabranch_proto::Timestamp {
//! #         anabranch_proto::Timestamp::from_unix(0, 0)
//! #     }
//! # }
//! # let stamp = Counter::default();
//!
//! let mut processor = EventProcessor::new("ses_root".into(), Limits::default());
//! let mut admitted = Vec::new();
//!
//! // A child says something before anybody announced it, and is cancelled in mid-sentence.
//! let child = Scope::from(ChildScope::new("ses_child", "ses_root", "sa_child", "reader"));
//! let kinds: [EventKind; 2] = [
//!     event::TextBlockStart::new("reply", "block").into(),
//!     event::TextBlockDelta::new("reply", "block", "half a sent").into(),
//! ];
//! for kind in kinds {
//!     let event = Event::stamped(&stamp, child.clone(), Metadata::default(), kind);
//!     processor.process(Arc::new(event), &stamp, &mut admitted);
//! }
//! processor.close(Outcome::Interrupted, &stamp, &mut admitted);
//!
//! let kinds: Vec<_> = admitted.iter().map(|admitted| admitted.event.kind.tag()).collect();
//! assert_eq!(
//!     kinds,
//!     [
//!         "SPAWN_SESSION_START", // made, in the root's scope
//!         "USER_MESSAGE",        // made
//!         "TEXT_BLOCK_START",
//!         "TEXT_BLOCK_DELTA",
//!         "TEXT_BLOCK_END",      // made
//!         "STREAM_COMPLETE",     // made
//!     ]
//! );
//! let record = processor.tree().get(&"ses_child".into()).unwrap();
//! assert_eq!(record.status, Status::Ended(Outcome::Interrupted));
//! ```

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod accumulator;
mod child;
mod closer;
#[cfg(feature = "conformance")]
pub mod conformance;
mod content;
mod counters;
mod ending;
mod fallback;
mod hash;
mod layout;
mod limits;
mod log;
mod memory;
mod processor;
mod recent;
mod recovery;
mod refused;
mod run;
mod spawn;
mod tree;
mod update;

pub use accumulator::MessageAccumulator;
pub use counters::Counters;
pub use ending::Ending;
pub use limits::Limits;
pub use log::{AppendError, Batch, EventLog, Forgotten, LogError};
pub use memory::MemoryLog;
pub use processor::EventProcessor;
pub use recovery::{RecoverError, Recovered, ReplayError, recover};
pub use tree::{Announcement, SessionRecord, SessionTree, Status};
