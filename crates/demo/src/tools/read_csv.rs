//! What a file holds.

use anabranch_pipeline::{FunctionTool, Tool, ToolContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fault, json, scan::scan};
use crate::{
    shown::{abridged, shortened},
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
    /// The others.
    pub(crate) left_out: Vec<LeftOut>,
}

/// A column that is not numeric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) column: String,
    /// Its first cell that is neither empty nor a number; absent where all are empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<Found>,
}

/// A cell that is no number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// The line that its row begins on.
    pub(crate) line: u64,
    /// The beginning of its text.
    pub(crate) cell: String,
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
    let mut refused: Vec<Option<Found>> = vec![None; header.len()];
    scan(context, NAME, &file, &mut rows, |row| {
        let mut last = None;
        candidates.retain_mut(|(column, seen)| match row.cell(*column) {
            Cell::Number(_) => {
                *seen = true;
                true
            }
            Cell::Empty => true,
            Cell::Text => {
                if let Some(found) = refused.get_mut(*column) {
                    *found = Some(Found { line: row.line(), cell: shortened(row.text(*column)) });
                }
                last = Some(*column);
                false
            }
        });
        match last {
            Some(column) if candidates.is_empty() => Err(Problem::NoNumericColumn {
                column: header.names().get(column).map(|name| abridged(name)).unwrap_or_default(),
                cell: shortened(row.text(column)),
            }),
            Some(_) | None => Ok(()),
        }
    })
    .await?;
    let (mut numeric, mut left_out) = (Vec::new(), Vec::new());
    for (index, (column, found)) in header.names().iter().zip(refused).enumerate() {
        if candidates.contains(&(index, true)) {
            numeric.push(column.clone());
        } else {
            left_out.push(LeftOut { column: column.clone(), found });
        }
    }
    if numeric.is_empty() {
        return Err(rows.error(Problem::NoNumbers));
    }
    Ok(Contents { file, rows: rows.count(), columns: header.names().to_vec(), numeric, left_out })
}
