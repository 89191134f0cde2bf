//! The native spelling: one JSON object per event.
//!
//! A root's event is written flat: `seq` where it came from a log, `id`, `created_at`, `metadata`, `type`, then the
//! fields of its kind. A child's event is the `event` of a `SUB_AGENT` object, which has the scope's fields:
//!
//! ```json
//! {"seq":7,"type":"SUB_AGENT","child_session_id":"ses_…","run":1,"parent_session_id":"ses_…","subagent_id":"sa_…",
//!  "tool_call_id":"call_1","source_name":"n1","source_type":"agent","depth":1,
//!  "event":{"id":"01J…","created_at":"2026-11-30T10:00:00.000001Z","metadata":{},"type":"TEXT_BLOCK_DELTA", …}}
//! ```
//!
//! # RFC-0014's spelling
//! [`Reader`] also reads events that are told apart by `event_kind`. They have neither id nor time, so they need
//! [`Reader::new`].
//!
//! | `event_kind` | read as |
//! |---|---|
//! | `spawn_session_start` | `SPAWN_SESSION_START`; its `metadata` becomes the event's |
//! | `subagent` | the scope of its `event`. Wrappers in wrappers are flattened to the innermost; its `depth` is at least the number of wrappers. The sub-agent is known by its session's id, the run is 1 |
//! | `stream_complete` | `STREAM_COMPLETE`, `interrupted` where `cancelled`, else `completed`. The message's `content` becomes one text block; what it has beyond id, name and role becomes its metadata |
//! | `run_error` | `STREAM_COMPLETE`, `failed`, with `code` as the error's type |
//! | `custom` | `CUSTOM`, `event_type` as its name and `event_data` as its value |
//! | any other | a kind that we do not know, kept unchanged. A `type` of ours is an error |
//!
//! An object under `metadata` is the event's metadata. Of a mapped event, a field that the RFC does not have and whose
//! name our kind has for something else (`outcome` of a `run_error`, `name` of a `custom`) is dropped.
//!
//! Parts and their deltas are of the last row: they name neither a reply nor a block, and one of them can be two of our
//! events.

pub(crate) mod as_written;
mod error;
pub(crate) mod nesting;
pub(crate) mod object;
pub(crate) mod payload;
pub(crate) mod read;
mod rfc;
#[cfg(feature = "schema")]
mod schema;
pub(crate) mod shared;
mod write;

pub use error::ReadError;
pub use read::{Line, Reader};
#[cfg(feature = "schema")]
pub use schema::schema;
pub use write::{Native, to_string, write};
