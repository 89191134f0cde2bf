//! What is printed: a table of what a run of many seeds had, and the plan and transcript of one that failed.

mod outline;
mod summary;

pub use outline::{outline, transcript};
pub use summary::Summary;
