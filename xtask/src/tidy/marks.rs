//! Marks of unfinished work and of rules set aside, which have no place in a commit. And what makes a source file
//! hard to enter: no word on what it is, or too many lines.

use crate::tidy::Finding;
use crate::tidy::files::TextFile;

/// The most lines that a file has without its tests.
const MOST_LINES: usize = 800;

/// What is written nowhere, in pieces so that this file passes, and what to do instead.
const MARKS: &[(&str, &str)] = &[
    (concat!("todo", "!"), "write the code, or leave the item out"),
    (concat!("unimplemented", "!"), "write the code, or leave the item out"),
    (concat!("dbg", "!"), "remove it"),
    (concat!("TO", "DO"), "do it, or describe the limit in the item's documentation"),
    (concat!("FIX", "ME"), "mend it, or describe the limit in the item's documentation"),
    (concat!("XX", "X"), "settle it, or describe the limit in the item's documentation"),
    (concat!("HA", "CK"), "say why it has to be so in a sentence"),
    (concat!("#[", "ignore"), "a test runs or does not exist"),
    (concat!("#[", "allow("), "write `#[expect(…, reason = \"…\")]`, which ends when its cause does"),
    (concat!("#![", "allow("), "write `#![expect(…, reason = \"…\")]`, which ends when its cause does"),
];

/// Channels without a bound, which hide that a reader is too slow until memory is gone.
const CHANNELS: &[&str] =
    &[concat!("unbounded", "("), concat!("unbounded", "_channel"), "UnboundedSender", "UnboundedReceiver"];

/// Finds marks, missing module documentation and files that are too long.
pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let in_crates = file.path.starts_with("crates/");
    let mut found = Vec::new();
    for (number, line) in file.numbered_lines() {
        for (mark, advice) in MARKS.iter().filter(|(mark, _)| contains_word(line, mark)) {
            found.push(Finding::new(&file.path, number, format!("`{mark}`: {advice}")));
        }
        for channel in CHANNELS.iter().filter(|channel| in_crates && contains_word(line, channel)) {
            let message = format!("`{channel}`: use a bounded channel and say why its bound is enough");
            found.push(Finding::new(&file.path, number, message));
        }
    }
    found.extend(check_shape(file));
    found
}

fn check_shape(file: &TextFile) -> Vec<Finding> {
    let is_source = file.path.starts_with("xtask/src/")
        || file.path.strip_prefix("crates/").is_some_and(|rest| rest.split('/').nth(1) == Some("src"));
    if !is_source {
        return Vec::new();
    }
    let mut found = Vec::new();
    if !file.text.starts_with("//!") {
        found.push(Finding::new(&file.path, 1, "begin with `//!` and say what the module is for"));
    }
    let without_tests = file.text.lines().take_while(|line| line.trim_end() != "#[cfg(test)]").count();
    if without_tests > MOST_LINES {
        let message =
            format!("{without_tests} lines without the tests; split at {MOST_LINES}, one idea per file");
        found.push(Finding::new(&file.path, MOST_LINES + 1, message));
    }
    found
}

/// Whether `word` stands in `line` and neither begins nor ends within a longer name.
fn contains_word(line: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = line;
    let mut before = None;
    while let Some((head, tail)) = rest.split_once(word) {
        let starts = !word.starts_with(in_name) || !head.chars().next_back().or(before).is_some_and(in_name);
        let ends = !word.ends_with(in_name) || !tail.starts_with(in_name);
        if starts && ends {
            return true;
        }
        before = word.chars().next_back();
        rest = tail;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn each_mark_is_found() {
        for (mark, _) in MARKS {
            let text = format!("//! A module.\nfn f() {{}} // {mark} here\n");
            let found = found("crates/a/src/lib.rs", &text);
            assert_eq!(found.len(), 1, "{mark}: {found:?}");
            assert!(found[0].starts_with(&format!("crates/a/src/lib.rs:2: `{mark}`")), "{found:?}");
        }
    }

    #[test]
    fn a_mark_within_a_longer_name_is_none() {
        let text = "//! A module with a MASTODON, a `dbg` and an expectation.\n#[expect(dead_code)]\n";
        let text = text.replace("MASTODON", concat!("MASTO", "DOS, XX", "XX, a SHA", "CK, my_dbg!"));
        assert_eq!(found("crates/a/src/lib.rs", &text), [""; 0]);
        assert!(!contains_word("aab", "ab") && contains_word("aab ab", "ab"));
        assert!(!contains_word("abab", "ab"));
    }

    #[test]
    fn a_channel_without_a_bound_is_found_in_our_crates() {
        let text = "//! Module, with an unbounded wait.\nlet (a, b) = mpsc::CHANNEL();\n"
            .replace("CHANNEL", CHANNELS[1]);
        assert_eq!(found("crates/a/tests/b.rs", &text).len(), 1);
        assert_eq!(found("xtask/src/b.rs", &text), [""; 0]);
    }

    #[test]
    fn a_module_without_a_word_on_what_it_is_is_found() {
        assert_eq!(found("crates/a/src/b/c.rs", "use d;\n").len(), 1);
        assert_eq!(found("xtask/src/b.rs", "").len(), 1);
        assert_eq!(found("crates/a/tests/b.rs", "use d;\n"), [""; 0]);
        assert_eq!(found("crates/a/src/b.rs", "//! What it is.\n"), [""; 0]);
    }

    #[test]
    fn a_file_that_is_too_long_is_found_and_its_tests_do_not_count() {
        let long = format!("//! Long.\n{}", "fn f() {}\n".repeat(MOST_LINES));
        assert!(found("crates/a/src/b.rs", &long)[0].contains("801 lines"));
        let tested = format!("//! Short.\n#[cfg(test)]\n{}", "fn f() {}\n".repeat(MOST_LINES));
        assert_eq!(found("crates/a/src/b.rs", &tested), [""; 0]);
    }

    #[test]
    fn what_is_not_rust_is_not_looked_at() {
        assert_eq!(found("docs/a.md", concat!("TO", "DO")), [""; 0]);
    }
}
