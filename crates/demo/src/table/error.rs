//! What is wrong with a table.

use std::io;

/// A file that is no table: which, where and why.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {}{problem}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub(crate) struct TableError {
    pub(crate) file: String,
    /// From 1; absent where the problem lies in no line.
    pub(crate) line: Option<u64>,
    pub(crate) problem: Problem,
}

impl TableError {
    pub(crate) fn new(file: &str, line: Option<u64>, problem: Problem) -> Self {
        Self { file: file.to_owned(), line, problem }
    }
}

/// Why a file is no table.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("no such file is known here")]
    Unknown,
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is not a regular file")]
    NotAFile,
    #[error("changed while it was read; run again when nobody writes to it")]
    Changed,
    #[error("the file is empty; a header was expected")]
    Empty,
    #[error("no header; every field of the first line is a number")]
    NoHeader,
    #[error("no rows after the header")]
    NoRows,
    #[error("{found} {}, but the header has {expected}", if *found == 1 { "field" } else { "fields" })]
    Ragged { found: usize, expected: usize },
    #[error("field {field} is not valid UTF-8")]
    NotUtf8 { field: usize },
    #[error("a quote is opened and never closed")]
    UnclosedQuote,
    #[error("text after a closing quote; within quotes, a quote is written twice")]
    AfterQuote,
    #[error("longer than {mebibytes} MiB; is a quote never closed?")]
    TooLong { mebibytes: usize },
    #[error("no numeric column; `{column}` was the last that could be one, and `{cell}` is no number")]
    NoNumericColumn { column: String, cell: String },
    #[error("no numeric column; no field below the header is a number")]
    NoNumbers,
    #[error("there is no column `{0}`")]
    NoColumn(String),
    #[error("column `{column}` is not numeric; `{cell}` is no number")]
    NotNumeric { column: String, cell: String },
    #[error("the sum of column `{0}` is too large for a 64-bit number")]
    TooLarge(String),
}

impl Problem {
    /// Whether it is one of a line, the one that was read last.
    pub(super) fn is_of_a_line(&self) -> bool {
        match self {
            Self::Unknown
            | Self::Unreadable(_)
            | Self::NotAFile
            | Self::Changed
            | Self::Empty
            | Self::NoRows
            | Self::NoNumbers
            | Self::TooLarge(_) => false,
            Self::NoHeader
            | Self::Ragged { .. }
            | Self::NotUtf8 { .. }
            | Self::UnclosedQuote
            | Self::AfterQuote
            | Self::TooLong { .. }
            | Self::NoNumericColumn { .. }
            | Self::NoColumn(_)
            | Self::NotNumeric { .. } => true,
        }
    }
}
