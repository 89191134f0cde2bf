//! A model's text, made harmless piece by piece.

use crate::sanitize::next_shown;

/// A stream of a model's text; where its pieces are cut makes no difference.
///
/// `\r\n` becomes `\n`. A carriage return alone would let later text overwrite earlier, so it becomes its picture.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// The last piece ended in a carriage return, which is not out yet.
    after_return: bool,
    /// The last character, within its line.
    before: Option<char>,
}

impl Stream {
    /// Appends the next piece to `out`.
    pub(super) fn push(&mut self, piece: &str, out: &mut String) {
        for c in piece.chars() {
            if std::mem::take(&mut self.after_return) && c != '\n' {
                out.push(next_shown('\r', &mut self.before));
            }
            match c {
                '\r' => self.after_return = true,
                '\n' => {
                    self.before = None;
                    out.push(c);
                }
                '\t' => {
                    self.before = Some(c);
                    out.push(c);
                }
                c => out.push(next_shown(c, &mut self.before)),
            }
        }
    }

    /// Takes the next piece where it is plain and stays as it is. Whether it was.
    pub(super) fn passes(&mut self, piece: &str) -> bool {
        let is_plain = |byte: u8| byte == b'\n' || byte == b'\t' || (b' '..=b'~').contains(&byte);
        let passes = !self.after_return && piece.bytes().all(is_plain);
        if passes {
            self.before = piece.chars().next_back().map_or(self.before, |c| Some(c).filter(|c| *c != '\n'));
        }
        passes
    }

    /// Appends what was held back. The next piece begins anew.
    pub(super) fn end(&mut self, out: &mut String) {
        if std::mem::take(&mut self.after_return) {
            out.push(next_shown('\r', &mut self.before));
        }
        self.before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_lines_and_tabs_and_loses_escapes_wherever_it_is_cut() {
        let text = "a\tb\r\nc\rd\x1b]0;title\x07\u{202e}é\u{200d}\n\u{200d}x\u{2028}\u{85}\x0b\x0c\x08\r";
        let expected = "a\tb\nc␍d␛]0;title␇\u{fffd}é\u{200d}\n\u{fffd}x\u{fffd}\u{fffd}␋␌␈␍";
        for (cut, _) in text.char_indices() {
            let (mut stream, mut out) = (Stream::default(), String::new());
            stream.push(&text[..cut], &mut out);
            stream.push(&text[cut..], &mut out);
            stream.end(&mut out);
            assert_eq!(out, expected, "cut at {cut}");
        }
    }
}
