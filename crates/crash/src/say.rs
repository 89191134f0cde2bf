//! What a process tells the one that started it.

use std::{
    fmt,
    io::{Write as _, stdout},
};

/// A line, at once. Nobody may be there to hear it.
pub(crate) fn say(what: fmt::Arguments<'_>) {
    let mut out = stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush()).ok();
}
