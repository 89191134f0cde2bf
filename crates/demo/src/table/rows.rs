//! The rows of a table, one at a time.

use std::{fmt, io::Read};

use csv::ByteRecord;

use super::{Header, Problem, TableError, line::line_at};
use crate::workspace::Source;

/// Reads a table a row at a time; what is kept is one row and the header.
pub(crate) struct Rows {
    file: String,
    source: Source,
    reader: csv::Reader<Box<dyn Read + Send>>,
    header: Header,
    record: ByteRecord,
    number: u64,
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// Which row this is, from 1; the header is none.
    pub(crate) number: u64,
    record: &'a ByteRecord,
}

impl Row<'_> {
    /// The text of a cell; nothing where there is no such cell.
    pub(crate) fn text(&self, column: usize) -> &str {
        self.record.get(column).and_then(|cell| std::str::from_utf8(cell).ok()).unwrap_or_default()
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
    Number(f64),
    /// Nothing, or white space.
    Empty,
    /// Anything else.
    Text,
}

impl Cell {
    pub(super) fn read(text: &str) -> Self {
        match text.trim() {
            "" => Self::Empty,
            text => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Self::Number(number),
                Ok(_) | Err(_) => Self::Text,
            },
        }
    }
}

impl Rows {
    /// Opens a file and reads its header.
    pub(crate) fn open(file: &str, source: Source) -> Result<Self, TableError> {
        let unopened = |problem| TableError::new(file, None, problem);
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(source.open().map_err(unopened)?);
        let mut rows = Self {
            file: file.to_owned(),
            source,
            reader,
            header: Header::default(),
            record: ByteRecord::new(),
            number: 0,
        };
        if !rows.read()? {
            return Err(rows.error(1, Problem::Empty));
        }
        let fields: Vec<&str> =
            rows.record.iter().filter_map(|field| std::str::from_utf8(field).ok()).collect();
        rows.header = Header::read(fields.into_iter()).map_err(|problem| rows.error_here(problem))?;
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
            return if self.number == 0 { Err(self.error_here(Problem::NoRows)) } else { Ok(None) };
        }
        let (found, expected) = (self.record.len(), self.header.len());
        if found != expected {
            return Err(self.error_here(Problem::Ragged { found, expected }));
        }
        self.number += 1;
        Ok(Some(Row { number: self.number, record: &self.record }))
    }

    /// A problem of the row that was read last.
    pub(crate) fn error_here(&self, problem: Problem) -> TableError {
        let offset = self.record.position().map_or(0, csv::Position::byte);
        let line = self.source.open().ok().and_then(|text| line_at(text, offset).ok());
        TableError::new(&self.file, line, problem)
    }

    fn error(&self, line: u64, problem: Problem) -> TableError {
        TableError::new(&self.file, Some(line), problem)
    }

    /// Reads the next record and sees that it is text.
    fn read(&mut self) -> Result<bool, TableError> {
        let before = self.reader.position().clone();
        match self.reader.read_byte_record(&mut self.record) {
            Ok(true) => {}
            Ok(false) => {
                self.record.set_position(Some(before));
                return Ok(false);
            }
            Err(error) => {
                // Bytes of any length are a record; all that can fail is the reading.
                return Err(TableError::new(&self.file, None, Problem::Unreadable(error.into())));
            }
        }
        match self.record.iter().position(|field| std::str::from_utf8(field).is_err()) {
            None => Ok(true),
            Some(index) => Err(self.error_here(Problem::NotUtf8 { field: index + 1 })),
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
            let mut rows = Rows::open("t.csv", Source::Embedded(bytes))?;
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
            (&b""[..], "t.csv: line 1: the file is empty; a header was expected"),
            (b"\n\r\n", "t.csv: line 1: the file is empty; a header was expected"),
            (b"1,2\n3,4\n", "t.csv: line 1: no header; every field of the first line is a number"),
            (b"a,b\n", "t.csv: line 2: no rows after the header"),
            (b"a,b\n1,2\n\n\n3\n", "t.csv: line 5: 1 field, but the header has 2"),
            (
                b"\xef\xbb\xbfa,b\r\n1,2\r\n\"x\ny\",2\r\n3,4,5\r\n",
                "t.csv: line 5: 3 fields, but the header has 2",
            ),
            (b"a,b\n1,2\n3,\xff\n", "t.csv: line 3: field 2 is not valid UTF-8"),
            (b"a,\xff\n", "t.csv: line 1: field 2 is not valid UTF-8"),
        ] {
            assert_eq!(read(bytes).unwrap_err(), error);
        }
    }

    #[test]
    fn a_cell_is_a_number_nothing_or_something_else() {
        for (text, expected) in [
            (" 1.5 ", Cell::Number(1.5)),
            ("-2e3", Cell::Number(-2000.0)),
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
