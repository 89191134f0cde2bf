//! Others' text made fit to be shown: names, cells and paths.

/// The most characters of a name or a cell that are shown.
pub(crate) const LONGEST: usize = 40;

/// The text with each character that a terminal would obey, or that nobody would see, replaced by one that is seen; as
/// many characters as there were.
///
/// A control character becomes its picture (`␛` for escape); what changes the direction of writing, has no width or
/// separates lines becomes U+FFFD.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(visible_character).collect()
}

/// The text on one line: [`visible`], with every run of white space as one space and none at its ends.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split_whitespace().map(visible);
    words.collect::<Vec<_>>().join(" ")
}

/// The beginning of a text on one line, of at most [`LONGEST`] characters.
pub(crate) fn shortened(text: &str) -> String {
    // Only as much of a long text is looked at as can be shown.
    let head: String = text.trim_start().chars().take(8 * LONGEST).collect();
    let line = one_line(&head);
    if line.chars().count() <= LONGEST && head.len() == text.trim_start().len() {
        return line;
    }
    line.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The beginning and the end of a name, by which long names differ; on one line of at most [`LONGEST`] characters.
pub(crate) fn abridged(name: &str) -> String {
    let line = one_line(name);
    let count = line.chars().count();
    if count <= LONGEST {
        return line;
    }
    let tail = LONGEST / 2;
    line.chars().take(LONGEST - tail - 1).chain(['…']).chain(line.chars().skip(count - tail)).collect()
}

/// The end of a text on one line, where a path says the most, of at most [`LONGEST`] characters.
pub(crate) fn shortened_path(path: &str) -> String {
    let line = one_line(path);
    let count = line.chars().count();
    if count <= LONGEST {
        return line;
    }
    std::iter::once('…').chain(line.chars().skip(count - LONGEST + 1)).collect()
}

/// The first of many, with how many more there are.
pub(crate) fn listed(items: impl ExactSizeIterator<Item = String>) -> String {
    const MOST: usize = 8;
    let more = items.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("and {more} more"));
    items.take(MOST).chain(more).collect::<Vec<_>>().join(", ")
}

fn visible_character(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        // The soft hyphen, fillers, joiners and other characters without a width.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        // Marks, embeddings, overrides and isolates of direction; line and paragraph separators.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed_and_nothing_is_hidden() {
        assert_eq!(visible("a\x1b[31m\r\n\tb\x7f\u{9b}c  d"), "a␛[31m␍␊␉b␡\u{fffd}c  d");
        for c in
            ['\u{202e}', '\u{2067}', '\u{200b}', '\u{200d}', '\u{feff}', '\u{2028}', '\u{ad}', '\u{e0041}']
        {
            assert_eq!(visible(&format!("a{c}b")), "a\u{fffd}b", "{c:?}");
        }
        assert_eq!(visible("Zürich 東京 🚀"), "Zürich 東京 🚀");
    }

    #[test]
    fn a_line_has_single_spaces() {
        assert_eq!(one_line(" a\r\n \tb\x1b[0m "), "a b␛[0m");
        assert_eq!(one_line("\u{2028}"), "");
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = "ä".repeat(70_000);
        assert_eq!(shortened(&long), "ä".repeat(39) + "…");
        assert_eq!(shortened(&"ä".repeat(40)), "ä".repeat(40));
        assert_eq!(shortened(&format!("a{}b", " ".repeat(70_000))), "a…");
        assert_eq!(abridged(&format!("{long}bc")), format!("{}…{}bc", "ä".repeat(19), "ä".repeat(18)));
        assert_eq!(abridged("b c"), "b c");
        assert_eq!(shortened_path(&format!("{long}/b.csv")), format!("…{}/b.csv", "ä".repeat(33)));
        assert_eq!(listed((1..4_u8).map(|n| n.to_string())), "1, 2, 3");
        assert_eq!(listed((1..11_u8).map(|n| n.to_string())), "1, 2, 3, 4, 5, 6, 7, 8, and 2 more");
    }
}
