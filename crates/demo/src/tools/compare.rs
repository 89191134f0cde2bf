//! Two nodes side by side.

use anabranch_pipeline::{FunctionTool, Tool, ToolContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fault, json};
use crate::{columns::ColumnFigures, figure::Figure};

/// A node's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Side {
    /// The node.
    pub(crate) node: String,
    /// Its figures.
    pub(crate) columns: Vec<ColumnFigures>,
}

/// The arguments of `compare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CompareArguments {
    /// One node.
    pub(crate) left: Side,
    /// The other.
    pub(crate) right: Side,
}

/// Two nodes side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Compared {
    pub(crate) left: String,
    pub(crate) right: String,
    /// The columns that both have.
    pub(crate) columns: Vec<ComparedColumn>,
    /// Columns that only the left one has.
    pub(crate) only_left: Vec<String>,
    /// Columns that only the right one has.
    pub(crate) only_right: Vec<String>,
}

/// A column that both nodes have. A side without a number has no mean, and then there is no difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ComparedColumn {
    pub(crate) column: String,
    pub(crate) left_mean: Option<Figure>,
    pub(crate) right_mean: Option<Figure>,
    /// The right mean less the left one.
    pub(crate) difference: Option<Figure>,
}

/// Compares the means of two nodes.
pub(crate) fn compare(fault: Fault) -> impl Tool {
    FunctionTool::new(
        "compare",
        "Compares the figures of two nodes: for each column that both have, the two means and the right less the left.",
        move |CompareArguments { left, right }, _context: ToolContext| async move {
            fault.check()?;
            json(&compared(left, right))
        },
    )
}

fn compared(left: Side, right: Side) -> Compared {
    let missing_in = |other: &Side, side: &Side| {
        let names = side.columns.iter().map(|figures| figures.column.clone());
        names.filter(|name| find(other, name).is_none()).collect()
    };
    let columns = left.columns.iter().filter_map(|ours| {
        let theirs = find(&right, &ours.column)?;
        Some(ComparedColumn {
            column: ours.column.clone(),
            left_mean: ours.mean,
            right_mean: theirs.mean,
            difference: difference(ours.exact_mean(), theirs.exact_mean()),
        })
    });
    Compared {
        columns: columns.collect(),
        only_left: missing_in(&right, &left),
        only_right: missing_in(&left, &right),
        left: left.node,
        right: right.node,
    }
}

fn find<'a>(side: &'a Side, column: &str) -> Option<&'a ColumnFigures> {
    side.columns.iter().find(|figures| figures.column == column)
}

/// The right mean less the left one; what is below the precision of both is nothing.
fn difference(left: Option<f64>, right: Option<f64>) -> Option<Figure> {
    let (left, right) = (left?, right?);
    let difference = right - left;
    let noise = left.abs().max(right.abs()) * f64::EPSILON * 4.0;
    Figure::rounded(if difference.abs() <= noise { 0.0 } else { difference })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_means_do_not_differ() {
        assert_eq!(difference(Some(0.1 + 0.2), Some(0.3)).unwrap().to_string(), "0");
        assert_eq!(difference(Some(1.5), Some(-1.0)).unwrap().to_string(), "-2.5");
        assert_eq!(difference(None, Some(1.0)), None);
    }
}
