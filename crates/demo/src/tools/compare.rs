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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) difference: Option<Figure>,
    /// Why there is no difference although both have a mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) too_large: Option<String>,
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
        Some(ComparedColumn::new(&ours.column, ours.mean, theirs.mean))
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

impl ComparedColumn {
    /// The difference is that of the means as they are shown.
    fn new(column: &str, left_mean: Option<Figure>, right_mean: Option<Figure>) -> Self {
        let differ = left_mean.zip(right_mean).map(|(left, right)| right.minus(left));
        Self {
            column: column.to_owned(),
            left_mean,
            right_mean,
            difference: differ.flatten(),
            too_large: (differ == Some(None)).then(|| "too large for a 64-bit number".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_that_of_the_means_beside_it_or_says_why_there_is_none() {
        let compared = |left: &str, right: &str| {
            let column = ComparedColumn::new("a", Figure::read(left), Figure::read(right));
            (column.difference.map(|figure| figure.to_string()), column.too_large)
        };
        assert_eq!(compared("3.029", "2.86"), (Some("-0.169".to_owned()), None));
        assert_eq!(compared("", "1"), (None, None));
        assert_eq!(compared("-1e308", "1e308"), (None, Some("too large for a 64-bit number".to_owned())));
    }
}
