//! What a file holds.

use anabranch_pipeline::{FunctionTool, Tool, ToolContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault, json,
    scan::{scan, shown},
};
use crate::{
    table::{Cell, Problem, TableError},
    workspace::Workspace,
};

const NAME: &str = "read_csv";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// The file's name.
    file: String,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) file: String,
    /// How many rows there are below the header.
    pub(crate) rows: u64,
    /// All columns, in order.
    pub(crate) columns: Vec<String>,
    /// Those in which every cell that is not empty holds a number, and at least one does.
    pub(crate) numeric: Vec<String>,
}

/// Reads a file and says what it holds.
pub(crate) fn read_csv(workspace: Workspace, fault: Fault) -> impl Tool {
    FunctionTool::new(
        NAME,
        "Reads a CSV file with a header; tells its rows, its columns and which of them are numeric.",
        move |Args { file }, context: ToolContext| {
            let workspace = workspace.clone();
            async move {
                fault.check()?;
                let contents =
                    contents(&workspace, file, &context).await.map_err(|error| error.to_string())?;
                json(&contents)
            }
        },
    )
}

async fn contents(
    workspace: &Workspace,
    file: String,
    context: &ToolContext,
) -> Result<Contents, TableError> {
    let mut rows = workspace.rows(&file)?;
    let header = rows.header().clone();
    // Of each column that may still be numeric: its place, and whether a number was seen.
    let mut candidates: Vec<(usize, bool)> = (0..header.len()).map(|column| (column, false)).collect();
    scan(context, NAME, &file, &mut rows, |row| {
        let mut refused = None;
        candidates.retain_mut(|(column, seen)| match row.cell(*column) {
            Cell::Number(_) => {
                *seen = true;
                true
            }
            Cell::Empty => true,
            Cell::Text => {
                refused = Some(*column);
                false
            }
        });
        match refused {
            Some(column) if candidates.is_empty() => Err(Problem::NoNumericColumn {
                column: header.names().get(column).cloned().unwrap_or_default(),
                cell: shown(row.text(column)),
            }),
            Some(_) | None => Ok(()),
        }
    })
    .await?;
    let numeric = candidates.iter().filter(|(_, seen)| *seen);
    let numeric: Vec<String> =
        numeric.filter_map(|(column, _)| header.names().get(*column).cloned()).collect();
    if numeric.is_empty() {
        return Err(rows.error_here(Problem::NoNumbers));
    }
    Ok(Contents { file, rows: rows.count(), columns: header.names().to_vec(), numeric })
}
