//! Count, sum, mean, min and max.

use anabranch_pipeline::{FunctionTool, Tool, ToolContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault, Selection, json,
    scan::{positions, scan},
};
use crate::{
    columns::{ColumnFigures, Tally},
    shown::shortened,
    table::{Cell, Problem, TableError},
    workspace::Workspace,
};

const NAME: &str = "aggregate";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// The file's name.
    file: String,
    /// Which rows to take.
    #[serde(default)]
    rows: Selection,
    /// The columns to compute, all numeric.
    columns: Vec<String>,
}

/// The figures of a file's columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Aggregated {
    pub(crate) file: String,
    pub(crate) rows: Selection,
    pub(crate) columns: Vec<ColumnFigures>,
}

/// Computes the figures of numeric columns.
pub(crate) fn aggregate(workspace: Workspace, fault: Fault) -> impl Tool {
    FunctionTool::new(
        NAME,
        "Computes count, sum, mean, min and max of numeric columns of a CSV file, over all, the odd or the even rows. \
         Empty cells do not count.",
        move |args: Args, context: ToolContext| {
            let workspace = workspace.clone();
            async move {
                fault.check()?;
                let figures = figures(&workspace, args, &context).await.map_err(|error| error.to_string())?;
                json(&figures)
            }
        },
    )
}

async fn figures(workspace: &Workspace, args: Args, context: &ToolContext) -> Result<Aggregated, TableError> {
    let Args { file, rows: selection, columns } = args;
    let mut rows = workspace.rows(&file)?;
    let positions = positions(&mut rows, &columns)?;
    let mut tallies: Vec<(&String, usize, Tally)> =
        columns.iter().zip(&positions).map(|(name, position)| (name, *position, Tally::default())).collect();
    scan(context, NAME, &file, &mut rows, |row| {
        if !selection.keeps(row, &positions) {
            return Ok(());
        }
        for (name, position, tally) in &mut tallies {
            match row.cell(*position) {
                Cell::Number(number) => tally.add(number),
                Cell::Empty => {}
                Cell::Text => {
                    let (column, cell) = (name.clone(), shortened(row.text(*position)));
                    return Err(Problem::NotNumeric { column, cell });
                }
            }
        }
        Ok(())
    })
    .await?;
    let columns = tallies.into_iter().map(|(name, _, tally)| {
        tally.figures(name).ok_or_else(|| rows.error(Problem::TooLarge(name.clone())))
    });
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(Aggregated { file, rows: selection, columns })
}
