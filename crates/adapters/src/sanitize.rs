//! What others wrote, made harmless to whoever shows it.
//!
//! Names, titles and descriptions become one line without control characters, terminal escapes or characters that
//! reverse the direction of writing. A model's text keeps line ends and tabs. A control character is replaced by its
//! picture (`␛` for escape), one without a picture by U+FFFD; nothing is removed, so that what was there is seen.

use std::borrow::Cow;

/// One line of others' text: a name, a title, a description.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| in_line(c) != c) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(in_line).collect())
}

/// One line of others' text with white space collapsed, cut to at most `most` characters, `…` included where it is
/// cut or `is_cut` says that it was before.
#[cfg(feature = "text")]
pub(crate) fn shortened(text: &str, most: usize, is_cut: bool) -> String {
    let mut out = String::new();
    let mut left = most;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        for c in word.chars().chain(words.peek().map(|_| ' ')) {
            if left == 0 {
                out.pop();
                out.push('…');
                return out;
            }
            out.push(in_line(c));
            left -= 1;
        }
    }
    if is_cut {
        if left == 0 {
            out.pop();
        }
        out.push('…');
    }
    out
}

/// A stream of a model's text, made harmless piece by piece; where the pieces are cut makes no difference.
///
/// `\r\n` becomes `\n`. A carriage return alone would let later text overwrite earlier, so it becomes its picture.
#[cfg(feature = "text")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// The last piece ended in a carriage return, which is not out yet.
    after_return: bool,
}

#[cfg(feature = "text")]
impl Stream {
    /// Appends the next piece to `out`.
    pub(crate) fn push(&mut self, piece: &str, out: &mut String) {
        for c in piece.chars() {
            if std::mem::take(&mut self.after_return) && c != '\n' {
                out.push('␍');
            }
            match c {
                '\r' => self.after_return = true,
                '\n' | '\t' => out.push(c),
                c => out.push(visible(c)),
            }
        }
    }

    /// Appends what was held back.
    pub(crate) fn end(&mut self, out: &mut String) {
        if std::mem::take(&mut self.after_return) {
            out.push('␍');
        }
    }

    /// Whether the next piece stays as it is.
    pub(crate) fn keeps(&self, piece: &str) -> bool {
        !self.after_return && !piece.contains(|c| c != '\n' && c != '\t' && visible(c) != c)
    }
}

/// The character, or what is shown for one that controls a line's looks.
fn in_line(c: char) -> char {
    match c {
        // Marks, embeddings, overrides and isolates of direction; line and paragraph separators.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => visible(c),
    }
}

/// The character, or what is shown for a control character.
fn visible(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}' => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_harmless_name_is_borrowed() {
        assert!(matches!(line("n1 ünï 🚀"), Cow::Borrowed("n1 ünï 🚀")));
    }

    #[test]
    fn a_name_is_one_line_without_controls() {
        assert_eq!(line("a\nb\r\tc"), "a␊b␍␉c");
        assert_eq!(line("\x1b[31mred\x07\x7f\0"), "␛[31mred␇␡␀");
        assert_eq!(line("\u{9b}31m\u{85}x"), "\u{fffd}31m\u{fffd}x");
        assert_eq!(line("a\u{202e}b\u{2067}c\u{2029}d"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
    }

    #[test]
    fn every_control_and_direction_character_is_replaced_in_a_line() {
        let dangerous = (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| {
            c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
        });
        for c in dangerous {
            let shown = line(c.encode_utf8(&mut [0; 4])).into_owned();
            assert!(!shown.contains(c) && shown.chars().count() == 1, "{c:?}");
        }
    }

    #[cfg(feature = "text")]
    #[test]
    fn shortening_collapses_and_cuts() {
        assert_eq!(shortened("  {\n  \"a\": 1\n}", 80, false), "{ \"a\": 1 }");
        assert_eq!(shortened("abcdef", 6, false), "abcdef");
        assert_eq!(shortened("abcdef", 5, false), "abcd…");
        assert_eq!(shortened("abc", 80, true), "abc…");
        assert_eq!(shortened("abc", 3, true), "ab…");
        assert_eq!(shortened("äöü ß", 4, false), "äöü…");
        assert_eq!(shortened("a\x1b[0m", 80, false), "a␛[0m");
        assert_eq!(shortened("", 80, false), "");
    }

    #[cfg(feature = "text")]
    #[test]
    fn text_keeps_lines_and_tabs_and_loses_escapes_wherever_it_is_cut() {
        let text = "a\tb\r\nc\rd\x1b]0;title\x07\r";
        let expected = "a\tb\nc␍d␛]0;title␇␍";
        for cut in 0..=text.len() {
            let (mut stream, mut out) = (Stream::default(), String::new());
            stream.push(&text[..cut], &mut out);
            stream.push(&text[cut..], &mut out);
            stream.end(&mut out);
            assert_eq!(out, expected, "cut at {cut}");
        }
        assert!(Stream::default().keeps("a\tb\nc 🚀"));
        assert!(!Stream::default().keeps("a\rb"));
    }
}
