//! Chunks of bytes into lines of text.

use super::MAX_LINE;

/// Splits bytes, as they come, into numbered lines of text.
///
/// A line ends with `\n` or `\r\n`. Blank lines count and are passed over, and so is a byte order mark at the start.
/// Keeps at most [`max_line`](Self::max_line) bytes: of a longer line, the first error is all that remains.
#[derive(Debug)]
pub struct LineSplitter {
    max_line: usize,
    /// The begin of the line that is not complete.
    begun: Vec<u8>,
    /// Whether `begun` was given out and is to be emptied.
    is_given: bool,
    /// Whether the rest of a line that was refused is to be passed over.
    is_skipping: bool,
    /// The number of the line that is not complete.
    number: u64,
}

/// A line of text with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextLine<'a> {
    /// The line's number, from 1.
    pub number: u64,
    /// The text, without the line's end.
    pub text: &'a str,
}

/// A line that is not given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The line is longer than allowed. Nothing of it was kept; the next line can be read.
    #[error(
        "line {number} is longer than {max_line} bytes; raise `max_line`, or have its producer split the event"
    )]
    TooLong {
        /// The line's number, from 1.
        number: u64,
        /// How long it may be.
        max_line: usize,
    },
    /// The line is not UTF-8.
    #[error("line {number} is not UTF-8 from byte {valid_up_to} on; its producer has to write UTF-8")]
    NotUtf8 {
        /// The line's number, from 1.
        number: u64,
        /// How many bytes of the line are.
        valid_up_to: usize,
    },
}

impl SplitError {
    /// The line's number, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        match self {
            Self::TooLong { number, .. } | Self::NotUtf8 { number, .. } => *number,
        }
    }
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl LineSplitter {
    /// A splitter at the start of a stream, for lines of at most [`MAX_LINE`] bytes.
    #[must_use]
    pub fn new() -> Self {
        Self { max_line: MAX_LINE, begun: Vec::new(), is_given: false, is_skipping: false, number: 1 }
    }

    /// How many bytes a line may have, without its end.
    #[must_use]
    pub fn max_line(mut self, max_line: usize) -> Self {
        self.max_line = max_line;
        self
    }

    /// The next line that ends in `chunk`, of which what was used is taken off.
    ///
    /// None when no further line ends in it: the chunk is then empty, and its rest is kept for the next one.
    pub fn next_line<'a, 'c: 'a>(
        &'a mut self,
        chunk: &mut &'c [u8],
    ) -> Option<Result<TextLine<'a>, SplitError>> {
        self.forget_given();
        loop {
            let Some(end) = chunk.iter().position(|byte| *byte == b'\n') else {
                let rest = std::mem::take(chunk);
                return self.keep(rest);
            };
            let (head, tail) = chunk.split_at_checked(end)?;
            *chunk = tail.get(1..).unwrap_or_default();
            let number = self.number;
            self.number += 1;
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if self.is_too_long(head) {
                self.release();
                return Some(Err(SplitError::TooLong { number, max_line: self.max_line }));
            }
            if self.begun.is_empty() {
                let line = trimmed(head, number);
                if !line.is_empty() {
                    return Some(text(line, number));
                }
            } else {
                self.begun.extend_from_slice(head);
                self.is_given = true;
                if !trimmed(&self.begun, number).is_empty() {
                    return Some(text(trimmed(&self.begun, number), number));
                }
                self.forget_given();
            }
        }
    }

    /// The last line, where it has no end. Called once, when no chunk will follow.
    pub fn finish(&mut self) -> Option<Result<TextLine<'_>, SplitError>> {
        self.forget_given();
        let number = self.number;
        self.is_given = true;
        let line = trimmed(&self.begun, number);
        (!line.is_empty()).then(|| text(line, number))
    }

    /// Keeps the begin of a line, and refuses it as soon as it is too long.
    fn keep<'a>(&mut self, rest: &[u8]) -> Option<Result<TextLine<'a>, SplitError>> {
        if self.is_skipping {
            return None;
        }
        if self.is_too_long(rest) {
            self.release();
            self.is_skipping = true;
            return Some(Err(SplitError::TooLong { number: self.number, max_line: self.max_line }));
        }
        self.reserve(rest.len());
        self.begun.extend_from_slice(rest);
        None
    }

    /// Whether the line with this behind what has come of it is too long. A last byte more may be the begin of its end.
    fn is_too_long(&self, more: &[u8]) -> bool {
        let last = more.last().or_else(|| self.begun.last());
        let longest = self.max_line.saturating_add(usize::from(last == Some(&b'\r')));
        self.begun.len().saturating_add(more.len()) > longest
    }

    /// Doubles the buffer, but never beyond the longest line.
    fn reserve(&mut self, more: usize) {
        let needed = self.begun.len() + more;
        if needed > self.begun.capacity() {
            let wanted = needed.max(self.begun.capacity().saturating_mul(2)).min(self.max_line.max(needed));
            self.begun.reserve_exact(wanted - self.begun.len());
        }
    }

    fn forget_given(&mut self) {
        if std::mem::take(&mut self.is_given) {
            self.begun.clear();
        }
    }

    fn release(&mut self) {
        self.begun = Vec::new();
    }
}

/// The line without the rest of its end, and without white space around it.
fn trimmed(line: &[u8], number: u64) -> &[u8] {
    let line = if number == 1 { line.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(line) } else { line };
    line.trim_ascii()
}

fn text(line: &[u8], number: u64) -> Result<TextLine<'_>, SplitError> {
    match std::str::from_utf8(line) {
        Ok(text) => Ok(TextLine { number, text }),
        Err(error) => Err(SplitError::NotUtf8 { number, valid_up_to: error.valid_up_to() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Owned = Result<(u64, String), SplitError>;

    fn owned(line: Result<TextLine<'_>, SplitError>) -> Owned {
        line.map(|line| (line.number, line.text.to_owned()))
    }

    fn split(splitter: &mut LineSplitter, chunks: &[&[u8]]) -> Vec<Owned> {
        let mut lines = Vec::new();
        for chunk in chunks {
            let mut chunk = *chunk;
            while let Some(line) = splitter.next_line(&mut chunk) {
                lines.push(owned(line));
            }
            assert!(chunk.is_empty());
        }
        lines.extend(splitter.finish().map(owned));
        lines
    }

    fn lines(expected: &[(u64, &str)]) -> Vec<Owned> {
        expected.iter().map(|(number, text)| Ok((*number, (*text).to_owned()))).collect()
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let bytes = "\u{FEFF}one\r\n\n  \nzwölf\nlast".as_bytes();
        let expected = lines(&[(1, "one"), (4, "zwölf"), (5, "last")]);
        for size in 1..=bytes.len() {
            let chunks: Vec<_> = bytes.chunks(size).collect();
            assert_eq!(split(&mut LineSplitter::new(), &chunks), expected, "chunks of {size}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_once_and_the_next_is_read() {
        let bytes = b"12345\n123456\r\nab\n";
        let mut expected = lines(&[(1, "12345"), (3, "ab")]);
        expected.insert(1, Err(SplitError::TooLong { number: 2, max_line: 5 }));
        for size in 1..=bytes.len() {
            let chunks: Vec<_> = bytes.chunks(size).collect();
            let mut splitter = LineSplitter::new().max_line(5);
            assert_eq!(split(&mut splitter, &chunks), expected, "chunks of {size}");
        }
        let exact = LineSplitter::new().max_line(5).next_line(&mut &b"12345\r\n"[..]).map(owned);
        assert_eq!(exact, Some(Ok((1, "12345".to_owned()))));
    }

    #[test]
    fn an_exact_line_is_read_wherever_its_bytes_are_split() {
        let bytes = b"12345\r\nabcde\n12345\r\n";
        let expected = lines(&[(1, "12345"), (2, "abcde"), (3, "12345")]);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let chunks = [&bytes[..first], &bytes[first..second], &[], &bytes[second..]];
                for max_line in [5, usize::MAX] {
                    let mut splitter = LineSplitter::new().max_line(max_line);
                    assert_eq!(split(&mut splitter, &chunks), expected, "at {first} and {second}");
                }
                let too_long = split(&mut LineSplitter::new().max_line(4), &chunks);
                assert_eq!(too_long.len(), 3, "at {first} and {second}: {too_long:?}");
                assert!(too_long.iter().all(Result::is_err), "at {first} and {second}: {too_long:?}");
            }
        }
    }

    #[test]
    fn no_more_than_the_longest_line_is_kept() {
        let mut splitter = LineSplitter::new().max_line(10_000);
        let mut most = 0;
        for _ in 0..1_000 {
            let mut chunk = &[b'x'; 100][..];
            while splitter.next_line(&mut chunk).is_some() {}
            most = most.max(splitter.begun.capacity());
        }
        assert_eq!(most, 10_000);
        assert_eq!(splitter.begun.capacity(), 0, "a refused line is given back");
    }

    #[test]
    fn what_is_not_utf8_is_refused_with_its_place() {
        let mut expected = lines(&[(1, "a"), (3, "e")]);
        expected.insert(1, Err(SplitError::NotUtf8 { number: 2, valid_up_to: 2 }));
        assert_eq!(split(&mut LineSplitter::new(), &[b"a\nbc\xFFd\ne\n"]), expected);
        assert!(split(&mut LineSplitter::new(), &[]).is_empty());
    }
}
