//! Reading a table without keeping others waiting.

use anabranch_pipeline::ToolContext;
use serde::{Deserialize, Serialize};

use crate::shown::abridged;
use crate::table::{Problem, Row, Rows, TableError};

/// The name of the `CUSTOM` event that says how far a tool is.
pub(crate) const PROGRESS: &str = "progress";

/// How many rows are read before others have their turn: well below a millisecond's work.
const ROWS_PER_TURN: u64 = 250;

/// How far a tool is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The tool.
    pub(crate) tool: String,
    /// The file that it reads.
    pub(crate) file: String,
    /// How many rows it has read.
    pub(crate) rows: u64,
}

/// Gives every row to `each`. Every few hundred rows it reports and gives way, so that a file that is 50 times as long
/// takes 50 times as many turns and no sub-agent holds up another.
pub(super) async fn scan(
    context: &ToolContext,
    tool: &str,
    file: &str,
    rows: &mut Rows,
    mut each: impl FnMut(Row<'_>) -> Result<(), Problem> + Send,
) -> Result<(), TableError> {
    while let Some(row) = rows.next()? {
        each(row).map_err(|problem| rows.error(problem))?;
        if rows.count().is_multiple_of(ROWS_PER_TURN) {
            let progress = Progress { tool: tool.to_owned(), file: file.to_owned(), rows: rows.count() };
            // Nobody listens once the call has ended; the caller then drops this future.
            context.custom(PROGRESS, &progress).await.ok();
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Where the columns of these names are.
pub(super) fn positions(rows: &mut Rows, names: &[String]) -> Result<Vec<usize>, TableError> {
    names
        .iter()
        .map(|name| {
            let position = rows.header().position(name);
            position.ok_or_else(|| rows.error(Problem::NoColumn(abridged(name))))
        })
        .collect()
}
