//! The flat spelling: agentscope's own events, a child's among them told by `metadata.subagent_id`.
//!
//! Each event is the bare object `id`, `created_at`, `metadata`, `type` and the fields of its kind, whoever's it is:
//!
//! ```json
//! {"id":"01J…","created_at":"2026-11-30T10:00:00.000001Z","metadata":{"subagent_id":"sa_…","node_id":"n1"},
//!  "type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"hello"}
//! ```
//!
//! agentscope 2's union of events validates each line, and its `Msg.append_event` rebuilds each reply, where the
//! client keeps the events of each `subagent_id` apart.
//!
//! # What differs from the native spelling
//! - A child's metadata always has `subagent_id`, and a root's never has. Where an event's own metadata says otherwise,
//!   its scope wins.
//! - The kinds that agentscope does not have are `CUSTOM` events: `anabranch.user_message`,
//!   `anabranch.spawn_session_start`, `anabranch.session_updated` and `anabranch.stream_complete`, whose `value` has
//!   the fields of the kind. A spawn's fields are the scope of the child's events.
//! - `response` of a `TOOL_RESULT_END` is `metadata.tool_response`.
//! - agentscope wants an object as the `value` of a `CUSTOM`; any other value is written as `{"value":…}`.
//! - An error of a kind that agentscope does not have is `unknown` on a `REPLY_END`.
//! - A kind that we do not know is written as it is. agentscope's union refuses it.
//!
//! A line from which the event could not be told exactly has one field more, the last one: `anabranch`, an object with
//! what is missing. agentscope drops such a field. It holds `metadata` where the event's own is not what the line
//! shows, `error_type` where the error is `unknown` only to agentscope, `application` on a `CUSTOM` of the application whose name is one of ours, and `value` where the value was
//! wrapped.
//!
//! # The law
//! What [`Reader`] reads from the lines that [`write()`] wrote for a stream are equal events, if in that stream
//! - a child is announced before its first event, by the latest spawn of its `subagent_id`, with the scope that its
//!   events have; a spawn without a `run` announces the next run of its session, one without a
//!   `subagent_id` the sub-agent that is called like its session;
//! - no two children have the same `subagent_id` at the same time;
//! - what ends a reply, a block or a call of a child follows something of the same reply in that child's scope, and a
//!   `TOOL_RESULT_END` the `TOOL_RESULT_START`; where no other session has that reply's id, this is not needed;
//! - the fields in [`Event::extra`](crate::Event::extra) have names of their own.
//!
//! A well-formed stream need not meet them all. The [`grammar`](crate::grammar) knows children by their sessions and
//! runs: it compares neither `subagent_id`, name nor call of an event's scope with the spawn's. The events of two
//! children that share a `subagent_id` are in this spelling those of one.
//!
//! The other way, a line of another producer that is read and written again may differ where it says the same
//! otherwise: a `tool_response` is the last key of the metadata, of two only the last is kept, and white space goes.

pub(crate) mod note;
mod own;
mod read;
mod scopes;
mod visible;
mod write;

pub use read::{Line, Reader};
pub use write::{Flat, to_string, write};

/// The metadata key that says whose event it is.
const SUBAGENT_ID: &str = "subagent_id";

/// The metadata key under which a tool's structured result travels.
const TOOL_RESPONSE: &str = "tool_response";

/// The field with what the rest of the line does not say.
const NOTE: &str = "anabranch";
