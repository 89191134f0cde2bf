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

pub(crate) mod payload;
mod read;
mod write;

pub use read::{Line, ReadError, Reader};
pub use write::{Native, to_string, write};
