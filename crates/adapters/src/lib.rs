//! Adapters from one stream of agent and sub-agent events to what frontends read.
#![doc = include_str!("../README.md")]
//! # What is here
//! - [`Adapter`]: what turns events into frames.
//! - [`encode`]: what turns an adapter into bytes, with the framing as a type.
//! - [`visibility`]: what hides thinking, prompts, children and more before an adapter.
//! - [`coalesce`]: what merges pieces of text before an adapter.
//! - [`intent`]: what the events mean to a frontend that shows cards; the adapters here are written over it.
//! - `acp` (feature `acp`): the Agent Client Protocol, for editors.
//! - `text` (feature `text`): lines for a terminal or a chat.
//! - `ag_ui` (feature `ag-ui`): the events of AG-UI 1.0, with a sub-agent per child.
//! - `agentscope` (feature `agentscope`): the events as agentscope 2 reads them.
//! - `tool_calls` (feature `tool-calls`): a card per child and per call, as RFC-0014 gives them.
//!
//! It is **not** a server: it does no I/O, reads no clock, spawns nothing and knows no session but by its events.
//!
//! # Invariants
//! - Adapters are pure: the same calls give the same frames.
//! - Every kind of event has its answer in [`intent::Intents`], and in `ag_ui` which is not written over it, by a match
//!   that names each of them. Nothing is dropped in a catch-all.
//! - Frames borrow from the event. What is kept is bounded by what is open, but for a short record per child, call
//!   and message, and the work is linear in the bytes.
//! - What a name or a model's text holds cannot move a cursor, forge a line or open a card twice.

#[cfg(feature = "acp")]
pub mod acp;
mod adapter;
#[cfg(feature = "ag-ui")]
pub mod ag_ui;
#[cfg(feature = "agentscope")]
pub mod agentscope;
pub mod coalesce;
pub mod encode;
mod error;
pub mod intent;
mod json;
#[cfg(any(feature = "ag-ui", feature = "tool-calls"))]
mod ordered;
pub mod sanitize;
#[cfg(feature = "text")]
pub mod text;
#[cfg(feature = "tool-calls")]
pub mod tool_calls;
mod unique;
pub mod visibility;

pub use adapter::Adapter;
pub use encode::Encode;
pub use error::EncodeError;

/// The example of the page on adding a protocol.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-protocol.md")]
struct AddingAProtocol;
