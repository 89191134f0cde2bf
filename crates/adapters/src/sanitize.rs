//! What others wrote, made harmless to whoever shows it.
//!
//! Names, titles and descriptions become one line without control characters, terminal escapes, characters that reverse the
//! direction of writing or such as nobody sees. A model's text keeps line ends and tabs. A control character is replaced
//! by its picture (`␛` for escape), all else by U+FFFD; nothing is removed, so that what was there is seen. Joiners
//! and variation selectors stay where they belong: behind what they change, which makes emoji of emoji.

use std::borrow::Cow;

/// One line of others' text: a name, a title, a description. Borrowed where it is harmless as it stands.
///
/// ```
/// # use anabranch_adapters::sanitize;
/// assert_eq!(sanitize::line("Zoë 👩‍🌾"), "Zoë 👩‍🌾");
/// assert_eq!(sanitize::line("n1\n\u{1b}[2J"), "n1␊␛[2J");
/// ```
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    let mut before = None;
    let is_harmless = |c| {
        let shown = shown(c, before);
        before = Some(shown);
        shown == c
    };
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut before = None;
    Cow::Owned(text.chars().map(|c| next_shown(c, &mut before)).collect())
}

/// The character as it is shown behind the last one, of which note is taken.
pub(crate) fn next_shown(c: char, before: &mut Option<char>) -> char {
    let shown = shown(c, *before);
    *before = Some(shown);
    shown
}

/// The character, or what is shown for one that a terminal would obey or that nobody would see, behind another one or at
/// the begin of a line.
fn shown(c: char, before: Option<char>) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        // Joiners and variation selectors, behind what they can change: in a name of plain letters they would make
        // another that looks the same.
        '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' if changes(c, before) => c,
        '\u{80}'..='\u{9f}'
        // The soft hyphen, fillers, signs without ink, spaces without a width, tags.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{2800}' | '\u{16fe4}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        // Marks, embeddings, overrides and isolates of direction; line and paragraph separators.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    }
}

/// Whether a joiner or a variation selector can change what it follows.
fn changes(c: char, before: Option<char>) -> bool {
    let is_joiner = |c| matches!(c, '\u{200c}' | '\u{200d}');
    before.is_some_and(|before| match c {
        // The sign of a keycap.
        '\u{fe0f}' if matches!(before, '0'..='9' | '#' | '*') => true,
        _ => !before.is_ascii() && before != '\u{fffd}' && !is_joiner(before),
    })
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

    #[test]
    fn a_sign_without_ink_makes_no_name_of_another() {
        for hidden in ['\u{2800}', '\u{16fe4}', '\u{1bca0}', '\u{1bca3}', '\u{1d159}'] {
            assert_eq!(line(&format!("n1{hidden}")), "n1\u{fffd}", "{hidden:?}");
        }
    }

    #[test]
    fn a_joiner_stays_in_an_emoji_and_in_no_plain_name() {
        for kept in [
            "👩\u{200d}💻 coder",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
            "葛\u{e0100}",
        ] {
            assert!(matches!(line(kept), Cow::Borrowed(_)), "{kept:?}");
        }
        for (hidden, shown) in [
            ("n\u{200d}1", "n\u{fffd}1"),
            ("n1\u{200c}", "n1\u{fffd}"),
            ("\u{200d}n1", "\u{fffd}n1"),
            ("n\u{fe0f}1", "n\u{fffd}1"),
            ("é\u{200d}\u{200d}", "é\u{200d}\u{fffd}"),
            ("n\u{200b}\u{feff}\u{2060}1\u{ad}\u{e0041}", "n\u{fffd}\u{fffd}\u{fffd}1\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(line(hidden), shown, "{hidden:?}");
        }
    }
}
