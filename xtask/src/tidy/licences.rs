//! Every package in the lock file may be used under a licence that asks for no more than ours do.

use std::collections::BTreeSet;

use crate::metadata::Package;
use crate::tidy::files::TextFile;
use crate::tidy::{Finding, sources, spdx};

/// The licences that may apply. `deny.toml` has the same list for `cargo deny`.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// One finding per package whose licences do not allow its use; `lock` tells where it comes in.
pub(super) fn check(packages: &[Package], lock: &TextFile) -> Vec<Finding> {
    let objection = |package: &Package| match package.license.as_deref() {
        // One of ours, whose manifest is looked at on its own.
        None if package.source.is_none() => None,
        None => Some("names no licence".to_owned()),
        Some(expression) => match spdx::is_satisfied(expression, ALLOWED) {
            Ok(true) => None,
            Ok(false) => {
                Some(format!("is under `{expression}`, which is not on the list of allowed licences"))
            }
            Err(error) => Some(format!("has the licence `{expression}`, which cannot be read: {error}")),
        },
    };
    let finding = |package: &Package, objection: String| {
        let line = sources::line_in_lock(lock, package);
        let Package { name, version, .. } = package;
        let message = format!("{name} {version} {objection}; use another package, or argue for the licence");
        Finding::new(&lock.path, line, message)
    };
    packages
        .iter()
        .filter_map(|package| objection(package).map(|objection| finding(package, objection)))
        .collect()
}

/// Finds where `deny.toml` allows other licences than this program.
pub(super) fn check_deny(deny: &TextFile) -> Vec<Finding> {
    let in_deny: BTreeSet<&str> = allowed_in(&deny.text).collect();
    let here: BTreeSet<&str> = ALLOWED.iter().copied().collect();
    let line = deny.numbered_lines().find(|(_, line)| line.starts_with("allow = [")).map_or(1, |(n, _)| n);
    let missing = here.difference(&in_deny).map(|name| format!("`{name}` is missing here"));
    let extra = in_deny.difference(&here).map(|name| format!("`{name}` is allowed here alone"));
    missing
        .chain(extra)
        .map(|what| format!("{what}; keep the list the same as in xtask/src/tidy/licences.rs"))
        .map(|message| Finding::new(&deny.path, line, message))
        .collect()
}

/// The strings of `[licenses]`' `allow` array.
fn allowed_in(deny: &str) -> impl Iterator<Item = &str> {
    let section = deny.split("\n[licenses]").nth(1).unwrap_or_default();
    let array = section.split("\nallow = [").nth(1).unwrap_or_default().split(']').next().unwrap_or_default();
    // Between quotes is every second piece.
    array.split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn licensed(name: &str, license: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: Some("registry+somewhere".to_owned()),
            ..Package::default()
        }
    }

    fn lock() -> TextFile {
        let text = "[[package]]\nname = \"good\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"bad\"\nversion = \"1.0.0\"\n";
        TextFile { path: "Cargo.lock".to_owned(), text: text.to_owned() }
    }

    fn deny(text: &str) -> TextFile {
        TextFile { path: "deny.toml".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_licence_off_the_list_is_found_where_it_comes_in() {
        let packages = [licensed("good", Some("MIT OR GPL-3.0")), licensed("bad", Some("GPL-3.0"))];
        let findings = check(&packages, &lock());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].line, 6);
        assert!(findings[0].message.starts_with("bad 1.0.0 is under `GPL-3.0`"), "{findings:?}");
    }

    #[test]
    fn no_licence_and_an_unreadable_one_are_found() {
        let packages = [licensed("good", None), licensed("bad", Some("MIT OR"))];
        let messages: Vec<_> = check(&packages, &lock()).into_iter().map(|finding| finding.message).collect();
        assert!(messages[0].contains("names no licence"), "{messages:?}");
        assert!(messages[1].contains("cannot be read: it ends"), "{messages:?}");
    }

    #[test]
    fn a_list_for_cargo_deny_that_differs_is_found() {
        let quoted: Vec<_> = ALLOWED.iter().map(|name| format!("    \"{name}\",\n")).collect();
        let same = format!("# why\n[licenses]\nconfidence = 1\nallow = [\n{}]\n[bans]\n", quoted.concat());
        assert_eq!(check_deny(&deny(&same)), []);

        let extra = same.replace("\"Zlib\"", "\"Zlib\", \"GPL-3.0\"");
        let findings = check_deny(&deny(&extra));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("`GPL-3.0` is allowed here alone"));

        assert_eq!(check_deny(&deny(&same.replace("    \"ISC\",\n", ""))).len(), 1);
        assert_eq!(check_deny(&deny("")).len(), ALLOWED.len());
    }
}
