//! Links between the pages of the repository lead somewhere.

use crate::tidy::Finding;
use crate::tidy::files::TextFile;

/// Finds relative links of pages at the top level and in `docs/` that no file answers. `exists` is asked with a path
/// from the repository's root.
pub(super) fn check(file: &TextFile, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let in_scope = file.path.starts_with("docs/") || !file.path.contains('/');
    if !file.is_markdown() || !in_scope {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, target) in targets(file) {
        let Some(path) = local(target) else { continue };
        let message = match resolved(&file.path, path) {
            None => format!("`{target}` leaves the repository; link to its public address"),
            Some(path) if exists(&path) => continue,
            Some(path) => format!("`{target}` leads to {path}, which does not exist; mend the link"),
        };
        found.push(Finding::new(&file.path, number, message));
    }
    found
}

/// What links and link definitions outside code point to, with their lines.
fn targets(file: &TextFile) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut targets = Vec::new();
    for (number, line) in file.numbered_lines() {
        let text = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => targets.extend(in_line(text).into_iter().map(|target| (number, target))),
        }
    }
    targets
}

fn in_line(line: &str) -> Vec<&str> {
    // Between backticks is every second piece, and code holds no links.
    let prose = line.split('`').step_by(2);
    let mut targets: Vec<_> = prose
        .flat_map(|text| text.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .collect();
    // A link's text may be code, which cuts the line just before the target.
    targets
        .extend(line.split("`](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target));
    if line.starts_with('[') && !line.starts_with("[^") {
        targets.extend(line.split_once("]: ").map(|(_, target)| target));
    }
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// The path of a target within the repository, without title and heading; none for an address elsewhere.
fn local(target: &str) -> Option<&str> {
    let target = target.split_whitespace().next()?.trim_start_matches('<').trim_end_matches('>');
    let path = target.split('#').next().filter(|path| !path.is_empty())?;
    let has_scheme = path.split('/').next().is_some_and(|first| first.contains(':'));
    (!has_scheme).then_some(path)
}

/// A target from the root, seen from a page; none when it leaves the repository.
fn resolved(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        let exists = |path: &str| ["README.md", "docs", "docs/a.md", "docs/b c.md"].contains(&path);
        check(&file, exists).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        for (page, text, path) in [
            ("README.md", "x\n[a](docs/b.md)", "docs/b.md"),
            ("README.md", "x\n[a](docs/a.md) and ![b](picture.svg \"title\")", "picture.svg"),
            ("docs/a.md", "x\n[`code`](./b.md#part)", "docs/b.md"),
            ("docs/a.md", "x\n[a]: ../b.md", "b.md"),
        ] {
            let found = found(page, text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with(&format!("{page}:2: ")) && found[0].contains(path), "{found:?}");
        }
    }

    #[test]
    fn a_link_that_leaves_the_repository_is_found() {
        assert!(found("docs/a.md", "[a](../../elsewhere.md)")[0].contains("leaves the repository"));
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for text in [
            "[a](docs/a.md), [b](docs/a.md#heading \"title\"), [c](docs/), [`d`](README.md)",
            "[a](https://example.org/x.md), [b](#here), [c](mailto:a@example.org)",
            "code: `[a](nowhere.md)` is no link",
            "```text\n[a](nowhere.md)\n```\n~~~\n```\n[b](nowhere.md)\n~~~",
            "[^1]: a note",
        ] {
            assert_eq!(found("README.md", text), [""; 0]);
        }
    }

    #[test]
    fn pages_of_the_crates_and_other_files_are_not_looked_at() {
        assert_eq!(found("crates/a/tests/x.md", "[a](nowhere.md)"), [""; 0]);
        assert_eq!(found("a.txt", "[a](nowhere.md)"), [""; 0]);
    }
}
