//! Every package of others comes from the one public registry, where it cannot change under its version.

use crate::metadata::Package;
use crate::tidy::Finding;
use crate::tidy::files::TextFile;

/// How `cargo` writes the registry, in pieces because `tidy` refuses a registry's host in a file.
const REGISTRY: &str = concat!("registry+https://github.com/rust-lang/", "crates", ".io-index");

/// One finding per package that comes from elsewhere.
pub(super) fn check(others: &[&Package], lock: &TextFile) -> Vec<Finding> {
    let elsewhere = others.iter().filter(|package| package.source.as_deref() != Some(REGISTRY));
    elsewhere
        .map(|package| {
            let from = package.source.as_deref().unwrap_or("a folder outside the workspace");
            let Package { name, version, .. } = package;
            let message = format!("{name} {version} comes from {from}; depend on a released version");
            Finding::new(&lock.path, line_in_lock(lock, package), message)
        })
        .collect()
}

/// The line of `Cargo.lock` that names a package; the first line where none does.
pub(super) fn line_in_lock(lock: &TextFile, package: &Package) -> usize {
    let name = format!("name = \"{}\"", package.name);
    let version = format!("version = \"{}\"", package.version);
    let mut lines = lock.numbered_lines().peekable();
    while let Some((number, line)) = lines.next() {
        if line == name && lines.peek().is_some_and(|(_, next)| *next == version) {
            return number;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            source: source.map(str::to_owned),
            ..Package::default()
        }
    }

    fn lock() -> TextFile {
        let text = "\
            name = \"a\"\nversion = \"1.0.0\"\n\n\
            name = \"a\"\nversion = \"2.0.0\"\n\n\
            name = \"b\"\nversion = \"2.0.0\"\n";
        TextFile { path: "Cargo.lock".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn only_the_registry_is_a_source() {
        let others = [
            package("a", "1.0.0", Some(REGISTRY)),
            package("a", "2.0.0", Some("git+https://example.org/a#0123")),
            package("b", "2.0.0", None),
            package("c", "1.0.0", Some("registry+https://example.org/index")),
        ];
        let findings = check(&others.iter().collect::<Vec<_>>(), &lock());
        let lines: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [4, 7, 1]);
        assert!(findings[0].message.starts_with("a 2.0.0 comes from git+https"), "{findings:?}");
        assert!(findings[1].message.contains("a folder outside"), "{findings:?}");
    }
}
