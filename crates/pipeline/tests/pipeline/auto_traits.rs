//! What every public type must be able to do across threads.

use anabranch_pipeline::{
    Acting, ActingLayer, ActingStream, Arguments, ArgumentsError, CallItem, CallTool, Caller, Counters,
    EmitError, ExecuteToolCall, ExecuteToolCalls, Executed, FunctionTool, Merge, Next, Tool, ToolCall,
    ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield, Toolkit,
};
use futures::stream::FusedStream;
use static_assertions::{assert_impl_all, assert_obj_safe};

assert_obj_safe!(Tool, ActingLayer);
assert_impl_all!(Acting: Send, Sync, Unpin, Clone);
assert_impl_all!(Arguments: Send, Sync, Unpin, Clone);
assert_impl_all!(ArgumentsError: Send, Sync, Unpin, Clone, std::error::Error);
assert_impl_all!(CallItem: Send, Sync, Unpin, Clone);
assert_impl_all!(Caller: Send, Sync, Unpin, Clone);
assert_impl_all!(Counters: Send, Sync, Unpin);
assert_impl_all!(EmitError: Send, Sync, Unpin, Copy, std::error::Error);
assert_impl_all!(Executed: Send, Sync, Unpin, Clone);
assert_impl_all!(FunctionTool<(), fn()>: Send, Sync, Unpin);
assert_impl_all!(Next: Send, Sync, Unpin, Clone);
assert_impl_all!(ToolCall: Send, Sync, Unpin, Clone);
assert_impl_all!(ToolContext: Send, Sync, Unpin, Clone);
assert_impl_all!(ToolDefinition: Send, Sync, Unpin, Clone);
assert_impl_all!(ToolInvocation: Send, Sync, Unpin, Clone);
assert_impl_all!(ToolYield: Send, Sync, Unpin, Clone);
assert_impl_all!(Toolkit: Send, Sync, Unpin, Clone);

// Streams hold tools' streams, which need not be `Sync`.
assert_impl_all!(ToolStream: Send, Unpin);
assert_impl_all!(ActingStream: Send, Unpin, FusedStream);
assert_impl_all!(CallTool: Send, Unpin, FusedStream);
assert_impl_all!(ExecuteToolCall: Send, Unpin, FusedStream);
assert_impl_all!(ExecuteToolCalls: Send, Unpin, FusedStream);
assert_impl_all!(Merge<futures::stream::Empty<()>>: Send, Sync, Unpin, FusedStream);
