//! The tools that the demo's agents work with.

mod aggregate;
mod compare;
mod fault;
mod filter_rows;
mod join_parts;
mod read_csv;
mod scan;
mod selection;
mod write_result;

pub(crate) use aggregate::{Aggregated, aggregate};
pub(crate) use compare::{CompareArguments, Compared, Side, compare};
pub(crate) use fault::Fault;
pub(crate) use filter_rows::{Filtered, filter_rows};
pub(crate) use join_parts::{JoinArguments, Joined, join_parts};
pub(crate) use read_csv::{Contents, Found, LeftOut, read_csv};
pub(crate) use scan::{PROGRESS, Progress};
pub(crate) use selection::Selection;
pub(crate) use write_result::write_result;

/// The names of the tools that the demo's agents have, for whoever chooses among them.
pub const TOOLS: [&str; 7] =
    ["aggregate", "compare", "filter_rows", "join_parts", "read_csv", "spawn_subagent", "write_result"];

/// A tool's result as the model reads it: compact JSON.
fn json(value: &impl serde::Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}
