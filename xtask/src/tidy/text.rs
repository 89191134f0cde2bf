//! Text that is true on one machine only: absolute paths, and the hosts from which packages are fetched.

use crate::tidy::Finding;
use crate::tidy::files::TextFile;

/// Where machines keep what belongs to one of them, in pieces so that this file passes.
const FOLDERS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/m", "nt/"),
    concat!("/t", "mp/"),
    concat!("/var/fo", "lders/"),
];

/// Where packages come from is for the reader's own configuration to say.
const HOSTS: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("crates", ".io-index"),
    concat!("npm", "js."),
    concat!("registry.yarnpkg", ".com"),
    concat!("proxy.golang", ".org"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
];

/// Finds paths and hosts in any text file. Lock files have to name the hosts.
pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let is_lock = file.path.rsplit('/').next() == Some("Cargo.lock");
    let mut found = Vec::new();
    for (number, line) in file.numbered_lines() {
        for folder in FOLDERS.iter().filter(|folder| names_a_place_in(line, folder)) {
            let message =
                format!("a path in `{folder}` exists on one machine; write a relative path or a placeholder");
            found.push(Finding::new(&file.path, number, message));
        }
        for host in HOSTS.iter().filter(|host| !is_lock && line.contains(**host)) {
            let message = format!("`{host}` is a registry's host; leave it to the reader's configuration");
            found.push(Finding::new(&file.path, number, message));
        }
    }
    found
}

/// Whether `line` has something inside `folder`. A folder of that name further down a path or a link is another.
fn names_a_place_in(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.get(..at).and_then(|head| head.chars().next_back());
        let after = line.get(at + folder.len()..).and_then(|tail| tail.chars().next());
        let is_further_down = before.is_some_and(|c| c.is_alphanumeric() || "._-~})]".contains(c));
        !is_further_down && after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&file).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn each_folder_of_a_machine_is_found() {
        for folder in FOLDERS {
            for before in ["", "see `", "file://", "PATH=a:", "("] {
                let text = format!("first\n{before}{folder}someone\n");
                assert_eq!(found("a.snap", &text), [2], "{text}");
            }
        }
    }

    #[test]
    fn a_folder_of_that_name_further_down_is_none() {
        for folder in FOLDERS {
            for (before, after) in
                [("https://example.org", "a"), ("$DIR", "a"), ("..", "a"), ("", "$name"), ("", "")]
            {
                let text = format!("{before}{folder}{after}\n");
                assert_eq!(found("a.md", &text), [0; 0], "{text}");
            }
        }
    }

    #[test]
    fn each_host_is_found_but_in_a_lock_file() {
        for host in HOSTS {
            let text = format!("source = \"https://{host}/\"\n");
            assert_eq!(found("a.toml", &text), [1], "{host}");
            assert_eq!(found("Cargo.lock", &text), [0; 0]);
            assert_eq!(found("crates/a/fuzz/Cargo.lock", &text), [0; 0]);
        }
    }
}
