//! Running code that is not ours: tools, layers, and what they do when they are dropped.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs something, and gives the message of its panic where it panics.
#[inline]
pub(crate) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(caught)
}

/// The message of a panic.
#[cold]
fn caught(panic: Box<dyn Any + Send>) -> String {
    let message = message(&*panic).to_owned();
    // What was thrown is not ours either: it may panic when it is dropped, and so may what it throws then.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(again);
    }
    message
}

/// Drops something whose drop may panic.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(message) = catch(|| drop(value)) {
        tracing::warn!(message, "a tool or a layer panicked when it was dropped");
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
