//! The vocabulary of a stream of agent and sub-agent events.
//!
//! An agent that hands work to sub-agents produces one stream: its own events and those of every child, each
//! [`Event`] saying by its [`Scope`] whose it is. This crate holds the types of that stream, the messages that it
//! adds up to, and its JSON spelling ([`native`]).
//!
//! It is **not** a runtime. It polls nothing, reads no clock and makes no ids: whoever creates events brings a
//! [`Stamp`]. It depends on no async runtime, so a frontend, a log reader or a test can use it alone.
//!
//! # Invariants
//! - Control flow looks at [`Event::scope`], never at [`Event::metadata`]. Metadata is the application's.
//! - Scopes are flat: a grandchild's event names its own session, its parent and its depth, and is never wrapped twice.
//! - What was read is written back unchanged: unknown kinds, unknown fields, ids, times and numbers keep their spelling.
//!
//! # Example
//! ```
//! use anabranch_proto::{Event, EventId, EventKind, Metadata, Scope, Timestamp, event::TextBlockDelta, native};
//!
//! let event = Event::new(
//!     EventId::new("01JDXA0000000000000000000A"),
//!     Timestamp::from_unix(1_764_496_800, 0),
//!     Scope::Root,
//!     Metadata::default().with("tenant_id", "acme"),
//!     TextBlockDelta::new("reply", "block", "hello"),
//! );
//! let line = native::to_string(&event)?;
//! assert!(line.contains(r#""metadata":{"tenant_id":"acme"},"type":"TEXT_BLOCK_DELTA""#));
//!
//! let read = native::Reader::default().read(&line)?;
//! assert_eq!(read.event, event);
//! assert!(matches!(read.event.kind, EventKind::TextBlockDelta(delta) if delta.delta == "hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

pub mod event;
pub mod flat;
pub mod grammar;
pub mod lines;
pub mod native;

mod admitted;
mod base64;
mod fields;
mod id;
mod ids;
mod json;
mod message;
mod metadata;
mod outcome;
#[cfg(feature = "schema")]
mod schema;
mod scope;
mod stamp;
mod time;
mod tool;
mod weight;

pub use admitted::Admitted;
pub use event::{Event, EventKind};
pub use fields::Fields;
pub use id::{BlockId, EventId, MessageId, ReplyId, SessionId, SubagentId, ToolCallId};
pub use json::{Json, JsonError};
pub use message::{
    ContentBlock, DataBlock, DataSource, HintBlock, Message, OtherBlock, PermissionRule, Role, TextBlock,
    TextOrBlocks, ThinkingBlock, ToolCallBlock, ToolCallState, ToolResultBlock, Usage,
};
pub use metadata::{Metadata, NotAnObject};
pub use outcome::{ErrorInfo, ErrorType, FinishedReason, Outcome};
pub use scope::{ChildScope, Scope, SourceType, SpawnMechanism};
pub use stamp::Stamp;
pub use time::{Offset, Timestamp, TimestampError};
pub use tool::{Artifact, ToolChunk, ToolResponse, ToolResultState};
