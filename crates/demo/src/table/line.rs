//! Which line of a text a byte lies in.

use std::io::{self, Read};

/// The line, from 1, of the first byte at or after `offset` that is no line end.
///
/// The `csv` crate counts a record's line from the end of the record before it, which is too low after blank lines and
/// after CR LF. Errors are rare, so the text is read again for them.
pub(super) fn line_at(text: impl Read, offset: u64) -> io::Result<u64> {
    let (mut line, mut previous, mut at) = (1, 0, 0);
    for byte in io::BufReader::new(text).bytes() {
        let byte = byte?;
        if at >= offset && byte != b'\n' && byte != b'\r' {
            break;
        }
        if byte == b'\r' || (byte == b'\n' && previous != b'\r') {
            line += 1;
        }
        previous = byte;
        at += 1;
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_counts_once() {
        for (text, offset, line) in [
            ("a\nb", 2, 2),
            ("a\r\nb", 2, 2),
            ("a\rb", 1, 2),
            ("a\n\n\nb", 2, 4),
            ("a", 0, 1),
            ("", 0, 1),
            ("a\n", 9, 2),
        ] {
            assert_eq!(line_at(text.as_bytes(), offset).unwrap(), line, "{text:?}");
        }
    }
}
