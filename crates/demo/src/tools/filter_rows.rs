//! Which rows count.

use anabranch_pipeline::{FunctionTool, Tool, ToolContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault, Selection, json,
    scan::{positions, scan},
};
use crate::{table::TableError, workspace::Workspace};

const NAME: &str = "filter_rows";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// The file's name.
    file: String,
    /// Which rows to take.
    #[serde(default)]
    rows: Selection,
    /// The columns in one of which a row must hold a number.
    columns: Vec<String>,
}

/// How many rows count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filtered {
    pub(crate) file: String,
    pub(crate) rows: Selection,
    /// How many rows the file has.
    pub(crate) of: u64,
    /// How many of them are kept.
    pub(crate) kept: u64,
}

/// Finds the rows that are chosen and hold a number.
pub(crate) fn filter_rows(workspace: Workspace, fault: Fault) -> impl Tool {
    FunctionTool::new(
        NAME,
        "Filters the rows of a CSV file: all, the odd or the even ones, and of these only rows that hold a number \
         in one of the columns. Tells how many are kept; `aggregate` with the same arguments computes over them.",
        move |args: Args, context: ToolContext| {
            let workspace = workspace.clone();
            async move {
                fault.check()?;
                let filtered = filter(&workspace, args, &context).await.map_err(|error| error.to_string())?;
                json(&filtered)
            }
        },
    )
}

async fn filter(workspace: &Workspace, args: Args, context: &ToolContext) -> Result<Filtered, TableError> {
    let Args { file, rows: selection, columns } = args;
    let mut rows = workspace.rows(&file)?;
    let columns = positions(&mut rows, &columns)?;
    let mut kept = 0;
    scan(context, NAME, &file, &mut rows, |row| {
        kept += u64::from(selection.keeps(row, &columns));
        Ok(())
    })
    .await?;
    Ok(Filtered { file, rows: selection, of: rows.count(), kept })
}
