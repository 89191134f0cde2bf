//! Runs an agent's tool calls and turns what they yield into one stream of events.
#![doc = include_str!("../README.md")]
//! # Invariants
//! - Control flow looks at chunks, responses and [`Event::scope`](anabranch_proto::Event::scope), never at what an event
//!   says.
//! - A sync child's events travel only in its call's own stream. What leaves a call is looked at behind its layers: the
//!   caller's reports and announcements, the children of this call and all below them; anything else is dropped, counted
//!   and warned of.
//! - An event of a child travels as the `Arc` that it was born in: it is never copied, and passing it on allocates
//!   nothing. One in the caller's own scope is copied only where its metadata says what only the caller may.
//! - Code that is not ours (tools, layers) is called and dropped where a panic is caught.

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod accumulate;
mod call_tool;
mod caller;
mod context;
mod execute_call;
mod execute_calls;
mod function;
mod gate;
mod layer;
mod merge;
mod panics;
mod sync;
mod tool;
mod toolkit;
mod until;

pub use call_tool::{CallItem, CallTool};
pub use caller::{Caller, Counters};
pub use context::{EmitError, ToolContext};
pub use execute_call::{ExecuteToolCall, Executed};
pub use execute_calls::ExecuteToolCalls;
pub use function::{FunctionTool, IntoToolChunk};
pub use layer::{Acting, ActingLayer, ActingStream, DEFAULT_OUTPUT_LIMIT, Next};
pub use merge::Merge;
pub use tool::{
    Arguments, ArgumentsError, Tool, ToolCall, ToolDefinition, ToolInvocation, ToolStream, ToolYield,
};
pub use toolkit::Toolkit;
