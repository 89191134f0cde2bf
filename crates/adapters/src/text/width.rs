//! How much of a text fits.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::sanitize::next_shown;

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The largest place up to `bytes` where a text can be cut, so that no character is cut from its marks. `text` is longer
/// than that; where the first character is, it is cut.
pub(super) fn cut_at(text: &str, bytes: usize) -> usize {
    let whole = text.grapheme_indices(true).map(|(at, _)| at).take_while(|at| *at <= bytes).last();
    match whole {
        Some(at) if at > 0 => at,
        Some(_) | None => {
            (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
        }
    }
}

/// One line of others' text with white space collapsed and made harmless, cut to at most `most` columns, `…` included
/// where it is cut or `is_cut` says that it was before.
pub(super) fn shortened(text: &str, most: usize, is_cut: bool) -> String {
    // Of what has no width there can be as much as somebody likes.
    let longest = most.saturating_mul(8).saturating_add(64);
    let (mut clean, mut before, mut is_cut) = (String::new(), None, is_cut);
    let mut words = text.split_whitespace().peekable();
    'words: while let Some(word) = words.next() {
        for c in word.chars().chain(words.peek().map(|_| ' ')) {
            if clean.len() >= longest {
                is_cut = true;
                break 'words;
            }
            clean.push(next_shown(c, &mut before));
        }
    }
    fitting(&clean, most, is_cut).into_owned()
}

/// The begin of a text that fits in so many columns, with `…` where something is left out or was before.
pub(super) fn fitting(text: &str, most: usize, is_cut: bool) -> Cow<'_, str> {
    if !is_cut && width(text) <= most {
        return Cow::Borrowed(text);
    }
    let (mut fits, mut columns) = (String::new(), 0);
    for grapheme in text.graphemes(true) {
        columns += width(grapheme);
        if columns >= most {
            break;
        }
        fits.push_str(grapheme);
    }
    fits.push('…');
    Cow::Owned(fits)
}

/// Gives the lines of at most so many columns that a line becomes, at least one: ended behind a space where one is in the
/// second half. Tabs become spaces. What `lead` says of a line's first character stands before it.
pub(super) fn wrapped(text: &str, most: usize, lead: fn(&str) -> &'static str, line: &mut dyn FnMut(&str)) {
    let (mut begun, mut columns) = (String::new(), 0);
    pieces(text, most, &mut |piece| {
        let (_, wide) = sized(piece, columns, most);
        if !begun.is_empty() && columns + wide > most {
            let space = begun.rfind(' ').map(|at| at + 1).filter(|at| *at > begun.len() / 2);
            let rest = begun.split_off(space.unwrap_or(begun.len()));
            line(&begun);
            begun = format!("{}{rest}", if rest.is_empty() { "" } else { lead(&rest) });
            columns = width(&begun);
        }
        if begun.is_empty() {
            begun.push_str(lead(piece));
            columns = begun.len();
        }
        let (shown, wide) = sized(piece, columns, most);
        begun.push_str(&shown);
        columns += wide;
    });
    line(&begun);
}

/// Gives the characters of a text, each with its marks, unless that has more columns than a line.
pub(super) fn pieces(text: &str, most: usize, piece: &mut dyn FnMut(&str)) {
    for grapheme in text.graphemes(true) {
        // One column is for what may stand before it.
        if width(grapheme) < most {
            piece(grapheme);
        } else {
            for c in grapheme.chars() {
                piece(c.encode_utf8(&mut [0; 4]));
            }
        }
    }
}

/// Where the last character begins, which may get more marks.
pub(super) fn last_begins(text: &str) -> usize {
    text.grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
}

/// A character as it is shown in this column of so many, and how many it takes.
pub(super) fn sized(piece: &str, column: usize, most: usize) -> (Cow<'_, str>, usize) {
    const STOP: usize = 8;
    if piece == "\t" {
        let wide = (STOP - column % STOP).min(most.saturating_sub(column));
        return (Cow::Owned(" ".repeat(wide)), wide);
    }
    (Cow::Borrowed(piece), width(piece))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(shortened(&"\u{301}".repeat(10_000), 80, false).chars().last(), Some('…'));
    }

    #[test]
    fn wide_characters_count_twice_and_none_is_cut_from_its_marks() {
        assert_eq!(shortened("東京都", 5, false), "東京…");
        assert_eq!(shortened("東京都", 4, false), "東…");
        assert_eq!(shortened("東京都", 6, false), "東京都");
        let family = "👩\u{200d}👩\u{200d}👧";
        assert_eq!(shortened(&family.repeat(3), 5, false), format!("{family}{family}…"));
        assert_eq!(shortened("e\u{301}e\u{301}e\u{301}", 2, false), "e\u{301}…");
        assert_eq!(cut_at("ae\u{301}b", 2), 1);
        assert_eq!(cut_at("ae\u{301}b", 4), 4);
        assert_eq!(cut_at("e\u{301}\u{301}\u{301}", 2), 1);
    }

    #[test]
    fn a_line_is_wrapped_between_characters() {
        let lines = |text: &str, most| {
            let mut lines = Vec::new();
            wrapped(text, most, |_| "", &mut |line| lines.push(line.to_owned()));
            lines
        };
        assert_eq!(lines("", 4), [""]);
        assert_eq!(lines("abcd", 4), ["abcd"]);
        assert_eq!(lines("abcde", 4), ["abcd", "e"]);
        assert_eq!(lines("東京都", 5), ["東京", "都"]);
        assert_eq!(lines("one two three", 9), ["one two ", "three"]);
        assert_eq!(lines("a bcdefghijk", 9), ["a bcdefgh", "ijk"]);
        assert_eq!(lines("a\tb", 20), ["a       b"]);
        assert_eq!(lines("a\t\tb", 5), ["a    ", "b"]);
        // Letters that are joined without an end.
        assert!(lines(&"क\u{94d}".repeat(40), 6).iter().all(|line| width(line) <= 6));
    }
}
