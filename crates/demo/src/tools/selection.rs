//! Which rows of a table count.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::{Cell, Row};

/// Which rows of a table count, by their numbers: the first row below the header is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Selection {
    /// Every row.
    #[default]
    All,
    /// Rows 1, 3, 5…
    Odd,
    /// Rows 2, 4, 6…
    Even,
}

impl Selection {
    /// The name that is also its JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Odd => "odd",
            Self::Even => "even",
        }
    }

    /// Whether a row is one of these and holds a number in one of the columns.
    pub(super) fn keeps(self, row: Row<'_>, columns: &[usize]) -> bool {
        let is_chosen = match self {
            Self::All => true,
            Self::Odd => !row.number.is_multiple_of(2),
            Self::Even => row.number.is_multiple_of(2),
        };
        is_chosen && columns.iter().any(|column| matches!(row.cell(*column), Cell::Number(_)))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.as_str())
    }
}
