//! Tables: CSV text with a header and numeric columns, read a row at a time.

mod error;
mod header;
mod records;
mod rows;

pub(crate) use error::{Problem, TableError};
pub(crate) use header::Header;
pub(crate) use records::Digest;
pub(crate) use rows::{Cell, Row, Rows};
