//! The parts of one node, put together.

use anabranch_pipeline::{FunctionTool, Tool, ToolContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fault, json};
use crate::columns::{ColumnFigures, Tally};

/// The arguments of `join_parts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JoinArguments {
    /// The node whose parts these are.
    pub(crate) node: String,
    /// The figures of each part.
    pub(crate) parts: Vec<Vec<ColumnFigures>>,
}

/// The figures of a node whose parts were joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Joined {
    pub(crate) node: String,
    pub(crate) parts: usize,
    pub(crate) columns: Vec<ColumnFigures>,
}

/// Joins the figures of parts.
pub(crate) fn join_parts(fault: Fault) -> impl Tool {
    FunctionTool::new(
        "join_parts",
        "Joins the figures of several parts of one file: counts and sums add, means are weighted by the counts, the \
         smallest min and the largest max stay.",
        move |JoinArguments { node, parts }, _context: ToolContext| async move {
            fault.check()?;
            let mut tallies: Vec<(&str, Tally)> = Vec::new();
            for figures in parts.iter().flatten() {
                let index = tallies.iter().position(|(column, _)| *column == figures.column);
                let index = index.unwrap_or_else(|| {
                    tallies.push((&figures.column, Tally::default()));
                    tallies.len() - 1
                });
                if let Some((_, tally)) = tallies.get_mut(index) {
                    tally.join(figures);
                }
            }
            let columns = tallies.into_iter().map(|(column, tally)| {
                tally.figures(column).ok_or_else(|| format!("the sum of column `{column}` is too large"))
            });
            let columns = columns.collect::<Result<_, _>>()?;
            json(&Joined { node, parts: parts.len(), columns })
        },
    )
}
