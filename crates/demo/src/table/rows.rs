//! The rows of a table, one at a time.

use std::fmt;

use super::{
    Header, Problem, TableError,
    records::{Record, Records},
};
use crate::{figure::Figure, workspace::Source};

/// Reads a table a row at a time; what is kept is one row and the header.
pub(crate) struct Rows {
    file: String,
    source: Source,
    records: Records,
    header: Header,
    record: Record,
    number: u64,
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// Which row this is, from 1; the header is none.
    pub(crate) number: u64,
    record: &'a Record,
}

impl Row<'_> {
    /// The line of the file that it begins on, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.record.line
    }

    /// The text of a cell; nothing where there is no such cell.
    pub(crate) fn text(&self, column: usize) -> &str {
        self.record.field(column).and_then(|cell| std::str::from_utf8(cell).ok()).unwrap_or_default()
    }

    /// What a cell holds.
    pub(crate) fn cell(&self, column: usize) -> Cell {
        Cell::read(self.text(column))
    }
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A finite number.
    Number(Figure),
    /// Nothing, or white space.
    Empty,
    /// Anything else.
    Text,
}

impl Cell {
    pub(super) fn read(text: &str) -> Self {
        match text.trim() {
            "" => Self::Empty,
            text => Figure::read(text).map_or(Self::Text, Self::Number),
        }
    }
}

impl Rows {
    /// Opens a file and reads its header.
    pub(crate) fn open(file: &str, source: &Source) -> Result<Self, TableError> {
        let unopened = |problem| TableError::new(file, None, problem);
        let records = source
            .open()
            .and_then(|bytes| Records::new(bytes).map_err(Problem::Unreadable))
            .map_err(unopened)?;
        let mut rows = Self {
            file: file.to_owned(),
            source: source.clone(),
            records,
            header: Header::default(),
            record: Record::default(),
            number: 0,
        };
        if !rows.read()? {
            return Err(rows.error(Problem::Empty));
        }
        let fields: Vec<&str> =
            rows.record.fields().filter_map(|field| std::str::from_utf8(field).ok()).collect();
        rows.header = Header::read(fields.into_iter()).map_err(|problem| rows.error(problem))?;
        Ok(rows)
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// How many rows have been read.
    pub(crate) fn count(&self) -> u64 {
        self.number
    }

    /// The next row.
    pub(crate) fn next(&mut self) -> Result<Option<Row<'_>>, TableError> {
        if !self.read()? {
            if self.number == 0 {
                return Err(self.error(Problem::NoRows));
            }
            return if self.is_as_before() { Ok(None) } else { Err(self.error(Problem::Changed)) };
        }
        let (found, expected) = (self.record.len(), self.header.len());
        if found != expected {
            return Err(self.error(Problem::Ragged { found, expected }));
        }
        self.number += 1;
        Ok(Some(Row { number: self.number, record: &self.record }))
    }

    /// A problem, of the row that was read last where it is one of a row.
    pub(crate) fn error(&mut self, problem: Problem) -> TableError {
        let line = self.record.line;
        self.error_in(Some(line), problem)
    }

    fn error_in(&mut self, line: Option<u64>, problem: Problem) -> TableError {
        // What an earlier tool found no fault with may be at fault because it is no longer the same.
        let problem = if self.source.was_read() && !self.is_as_before() { Problem::Changed } else { problem };
        TableError::new(&self.file, line.filter(|_| problem.is_of_a_line()), problem)
    }

    /// Whether the file holds what it held when it was first read to its end. Reads what is left of it.
    fn is_as_before(&mut self) -> bool {
        self.records.digest().is_ok_and(|digest| self.source.is_as_before(digest))
    }

    /// Reads the next record and sees that it is text.
    fn read(&mut self) -> Result<bool, TableError> {
        match self.records.read(&mut self.record) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err((line, problem)) => return Err(self.error_in(line, problem)),
        }
        let broken = self.record.fields().position(|field| std::str::from_utf8(field).is_err());
        match broken {
            None => Ok(true),
            Some(index) => Err(self.error(Problem::NotUtf8 { field: index + 1 })),
        }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("file", &self.file).field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all of a table: the header and each row's first cell, or what is wrong.
    fn read(bytes: &'static [u8]) -> Result<(Vec<String>, Vec<String>), String> {
        let read = || {
            let mut rows = Rows::open("t.csv", &Source::embedded(bytes))?;
            let mut cells = Vec::new();
            while let Some(row) = rows.next()? {
                cells.push(row.text(0).to_owned());
            }
            Ok((rows.header().names().to_vec(), cells))
        };
        read().map_err(|error: TableError| error.to_string())
    }

    #[test]
    fn a_byte_order_mark_quotes_and_any_line_ends_are_read() {
        let (header, cells) = read(b"\xef\xbb\xbf\"a\",b\r\n\"1,5\",2\r\n\r\n\"x\ny\",3").unwrap();
        assert_eq!(header, ["a", "b"]);
        assert_eq!(cells, ["1,5", "x\ny"]);
    }

    #[test]
    fn what_is_no_table_says_file_line_and_reason() {
        for (bytes, error) in [
            (&b""[..], "t.csv: the file is empty; a header was expected"),
            (b"\n\r\n", "t.csv: the file is empty; a header was expected"),
            (b"1,2\n3,4\n", "t.csv: line 1: no header; every field of the first line is a number"),
            (b"a,b\n", "t.csv: no rows after the header"),
            (b"a,b\n1,2\n\n\n3\n", "t.csv: line 5: 1 field, but the header has 2"),
            (
                b"\xef\xbb\xbfa,b\r\n1,2\r\n\"x\ny\",2\r\n3,4,5\r\n",
                "t.csv: line 5: 3 fields, but the header has 2",
            ),
            (b"a,b\n1,2\n3,\xff\n", "t.csv: line 3: field 2 is not valid UTF-8"),
            (b"a,b\n1,\"2\n3,4\n", "t.csv: line 2: a quote is opened and never closed"),
            (
                b"a,b\n\"1\"2,3\n",
                "t.csv: line 2: text after a closing quote; within quotes, a quote is written twice",
            ),
            (b"a,\xff\n", "t.csv: line 1: field 2 is not valid UTF-8"),
        ] {
            assert_eq!(read(bytes).unwrap_err(), error);
        }
    }

    #[test]
    fn a_cell_is_a_number_nothing_or_something_else() {
        let number = |text| Cell::Number(Figure::read(text).unwrap());
        for (text, expected) in [
            (" 1.5 ", number("1.5")),
            ("-2e3", number("-2000")),
            ("  ", Cell::Empty),
            ("1,5", Cell::Text),
            ("inf", Cell::Text),
            ("NaN", Cell::Text),
            ("1e999", Cell::Text),
        ] {
            assert_eq!(Cell::read(text), expected, "{text}");
        }
    }
}
