//! Runs an agent's tool calls and turns what they yield into one stream of events.
//!
//! A tool yields chunks for the model and events for whoever watches. Events pass through untouched, chunks add up, and
//! one [`ToolResponse`](anabranch_proto::ToolResponse) ends each call. The calls of a turn run side by side and end up
//! on one stream.
//!
//! ```text
//! Tool ──ToolYield──▶ call_tool ──CallItem──▶ layers ──▶ ExecuteToolCall ──Executed──▶ ExecuteToolCalls
//! ```
//!
//! It is **not** an agent: it knows no model, no session and no protocol. It spawns nothing, sleeps never and reads no
//! clock; ids and times come from the [`Stamp`](anabranch_proto::Stamp) of the [`Caller`].
//!
//! # Invariants
//! - A tool that fails is an event and a response with state `error`; no stream here has an `Err`.
//! - An event that passes through decides nothing. A child's end, interruption or question cannot end, stop or park the
//!   caller; in the caller's own scope a tool may only announce, update and report.
//! - Nothing that passes by is copied or allocated: an event travels as the `Arc` that it was born in.
//!
//! # Example
//! ```
//! use anabranch_pipeline::{FunctionTool, Toolkit};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! let add = FunctionTool::new("add", "Adds two whole numbers.", |args: Add, _context| async move {
//!     args.a.checked_add(args.b).map(|sum| sum.to_string()).ok_or("the sum is too large")
//! });
//! let toolkit = Toolkit::new().with(add);
//! assert_eq!(&*toolkit.definitions()[0].name, "add");
//! ```

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod accumulate;
mod call_tool;
mod caller;
mod context;
mod execute_call;
mod execute_calls;
mod function;
mod layer;
mod merge;
mod tool;
mod toolkit;

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
