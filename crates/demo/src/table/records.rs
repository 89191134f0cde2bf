//! Records of CSV text, read strictly.

use std::io::{self, BufRead as _, BufReader, Cursor, Read};

use super::Problem;

/// The longest record in bytes, so that a quote that is never closed does not fill the memory.
const LONGEST: usize = 4 * 1024 * 1024;

/// Reads records: fields between commas, lines that end in LF, CR LF or CR, quotes around a field as RFC 4180 has them.
/// Empty lines are skipped. A quote within a field that does not begin with one is a character like others.
pub(super) struct Records {
    input: BufReader<Box<dyn Read + Send>>,
    state: State,
    /// The line, from 1, of the byte that comes next.
    line: u64,
    /// Whether the last byte was a CR, so that an LF belongs to it.
    after_return: bool,
    digest: Digest,
}

/// A record: its fields and where it begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    bytes: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
    /// The line, from 1, that it begins on.
    pub(super) line: u64,
}

/// What a text was: a length and a hash of its bytes. One process compares it with its own alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    length: u64,
    hash: u64,
}

/// Where in a field the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between records.
    Between,
    /// At the beginning of a field.
    Field,
    /// In a field without quotes.
    Plain,
    /// In quotes that began on this line.
    Quoted { since: u64 },
    /// After a quote in these quotes: the end of the field, or the first of two.
    Closed { since: u64 },
}

impl Record {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn field(&self, index: usize) -> Option<&[u8]> {
        let begin = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.bytes.get(begin..*self.ends.get(index)?)
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.field(index))
    }

    fn begin(&mut self, line: u64) {
        self.bytes.clear();
        self.ends.clear();
        self.line = line;
    }

    fn end_field(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

impl Records {
    /// Begins to read, after a byte order mark where there is one.
    pub(super) fn new(mut input: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut head = Vec::new();
        input.by_ref().take(3).read_to_end(&mut head)?;
        if head == b"\xef\xbb\xbf" {
            head.clear();
        }
        Ok(Self {
            input: BufReader::new(Box::new(Cursor::new(head).chain(input))),
            state: State::Between,
            line: 1,
            after_return: false,
            digest: Digest::default(),
        })
    }

    /// Reads the next record; `false` at the end. An error comes with the line that it lies in, where there is one.
    pub(super) fn read(&mut self, record: &mut Record) -> Result<bool, (Option<u64>, Problem)> {
        record.begin(self.line);
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err((None, Problem::Unreadable(error))),
            };
            if bytes.is_empty() {
                return self.end(record);
            }
            let mut taken = 0;
            let mut stepped = Ok(false);
            for byte in bytes {
                taken += 1;
                self.digest.push(*byte);
                stepped = step(&mut self.state, &mut self.line, &mut self.after_return, *byte, record);
                if !matches!(stepped, Ok(false)) {
                    break;
                }
            }
            self.input.consume(taken);
            let is_complete = stepped.map_err(|problem| (Some(self.line), problem))?;
            if record.bytes.len() > LONGEST {
                return Err((Some(record.line), Problem::TooLong { mebibytes: LONGEST >> 20 }));
            }
            if is_complete {
                return Ok(true);
            }
        }
    }

    /// Reads what is left and says what the whole text was.
    pub(super) fn digest(&mut self) -> io::Result<Digest> {
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() {
                return Ok(self.digest);
            }
            for byte in bytes {
                self.digest.push(*byte);
            }
            let taken = bytes.len();
            self.input.consume(taken);
        }
    }

    fn end(&mut self, record: &mut Record) -> Result<bool, (Option<u64>, Problem)> {
        match self.state {
            State::Between => Ok(false),
            State::Quoted { since } => Err((Some(since), Problem::UnclosedQuote)),
            State::Field | State::Plain | State::Closed { .. } => {
                self.state = State::Between;
                record.end_field();
                Ok(true)
            }
        }
    }
}

/// Takes a byte; says whether it completes the record.
fn step(
    state: &mut State,
    line: &mut u64,
    after_return: &mut bool,
    byte: u8,
    record: &mut Record,
) -> Result<bool, Problem> {
    let belongs_to_return = std::mem::replace(after_return, byte == b'\r') && byte == b'\n';
    let ends_line = matches!(byte, b'\r' | b'\n');
    if *state == State::Between && !ends_line {
        record.begin(*line);
        *state = State::Field;
    }
    let mut is_complete = false;
    match (*state, byte) {
        (State::Between, _) => {}
        (State::Field, b'"') => *state = State::Quoted { since: *line },
        (State::Quoted { since }, b'"') => *state = State::Closed { since },
        (State::Quoted { .. }, _) => record.bytes.push(byte),
        (State::Closed { since }, b'"') => {
            record.bytes.push(byte);
            *state = State::Quoted { since };
        }
        (State::Field | State::Plain | State::Closed { .. }, b',') => {
            record.end_field();
            *state = State::Field;
        }
        (State::Field | State::Plain | State::Closed { .. }, b'\r' | b'\n') => {
            record.end_field();
            *state = State::Between;
            is_complete = true;
        }
        (State::Closed { .. }, _) => return Err(Problem::AfterQuote),
        (State::Field | State::Plain, _) => {
            record.bytes.push(byte);
            *state = State::Plain;
        }
    }
    if ends_line && !belongs_to_return {
        *line += 1;
    }
    Ok(is_complete)
}

impl Default for Digest {
    fn default() -> Self {
        Self { length: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Digest {
    /// FNV-1a.
    fn push(&mut self, byte: u8) {
        self.length += 1;
        self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Read = (u64, Vec<String>);

    fn read(text: &[u8]) -> Result<Vec<Read>, (Option<u64>, String)> {
        let mut records = Records::new(Box::new(Cursor::new(text.to_vec()))).unwrap();
        let mut record = Record::default();
        let mut all = Vec::new();
        loop {
            match records.read(&mut record) {
                Ok(true) => {
                    let fields = record.fields().map(|field| String::from_utf8_lossy(field).into_owned());
                    all.push((record.line, fields.collect()));
                }
                Ok(false) => return Ok(all),
                Err((line, problem)) => return Err((line, problem.to_string())),
            }
        }
    }

    #[test]
    fn records_come_with_their_lines_whatever_ends_them() {
        for (text, expected) in [
            ("", &[][..]),
            ("\n\r\n", &[]),
            ("a", &[(1, &["a"][..])]),
            ("a,\n,", &[(1, &["a", ""]), (2, &["", ""])]),
            ("a\r\nb\rc\n\n\r\nd", &[(1, &["a"]), (2, &["b"]), (3, &["c"]), (6, &["d"])]),
            ("\u{feff}\"a\",b", &[(1, &["a", "b"])]),
            ("\u{feb0},b", &[(1, &["\u{feb0}", "b"])]),
            ("\"a\r\n\"\"b\"\"\"\r\nc", &[(1, &["a\r\n\"b\""]), (3, &["c"])]),
            ("5\" pipe, \"x\"\n\"\"", &[(1, &["5\" pipe", " \"x\""]), (2, &[""])]),
        ] {
            let expected: Vec<Read> = expected
                .iter()
                .map(|(line, fields)| (*line, fields.iter().map(|field| (*field).to_owned()).collect()))
                .collect();
            assert_eq!(read(text.as_bytes()), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn a_quote_is_closed_and_nothing_stands_between_it_and_the_comma() {
        let unclosed = "a quote is opened and never closed";
        let after = "text after a closing quote; within quotes, a quote is written twice";
        for (text, line, problem) in [
            ("a\n1,\"2\n3\n", 2, unclosed),
            ("a\n1,\"2\"\"\n", 2, unclosed),
            ("a\n\"1\n\",\"2\"\"\n", 3, unclosed),
            ("a\n\"1\"2,3\n", 2, after),
            ("a\n\"x\ny\" ,3\n", 3, after),
        ] {
            assert_eq!(read(text.as_bytes()), Err((Some(line), problem.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn a_record_is_bounded() {
        let text = format!("a\n\"{}", "x".repeat(LONGEST + 100_000));
        let (line, problem) = read(text.as_bytes()).unwrap_err();
        assert_eq!(line, Some(2));
        assert_eq!(problem, "longer than 4 MiB; is a quote never closed?");
    }

    #[test]
    fn a_digest_is_of_the_whole_text_however_much_of_it_was_read() {
        let digest = |text: &[u8], count: usize| {
            let mut records = Records::new(Box::new(Cursor::new(text.to_vec()))).unwrap();
            for _ in 0..count {
                records.read(&mut Record::default()).unwrap();
            }
            records.digest().unwrap()
        };
        assert_eq!(digest(b"a\n1\n2\n", 1), digest(b"a\n1\n2\n", 3));
        assert_ne!(digest(b"a\n1\n2\n", 1), digest(b"a\n1\n3\n", 1));
    }

    proptest! {
        #[test]
        fn what_the_csv_crate_writes_is_read(
            records in proptest::collection::vec(proptest::collection::vec("[a\", \r\né]{0,4}", 2..4), 0..5),
        ) {
            let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
            for record in &records {
                writer.write_record(record).unwrap();
            }
            let read = read(&writer.into_inner().unwrap()).unwrap();
            prop_assert_eq!(read.into_iter().map(|(_, fields)| fields).collect::<Vec<_>>(), records);
        }
    }
}
