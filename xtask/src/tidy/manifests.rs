//! What every manifest of ours has, and how it names dependencies.

use std::path::Path;

use crate::metadata::Package;
use crate::tidy::files::TextFile;
use crate::tidy::{Finding, Member};

/// Finds what a manifest lacks.
pub(super) fn check(member: &Member<'_>, files: &[TextFile]) -> Vec<Finding> {
    let mut found = check_fields(member, files);
    found.extend(check_text(&member.manifest));
    found
}

fn check_fields(member: &Member<'_>, files: &[TextFile]) -> Vec<Finding> {
    let Package { description, license, rust_version, readme, .. } = member.package;
    let readme = readme.as_deref().and_then(|readme| joined(member.folder(), readme));
    let present = [
        ("description", description.is_some(), "say in a line what the package is"),
        ("license", license.is_some(), "write `license.workspace = true`"),
        ("rust-version", rust_version.is_some(), "write `rust-version.workspace = true`"),
        ("readme", readme.is_some(), "write `readme = \"README.md\"` and the page"),
    ];
    let absent = present.iter().filter(|(_, present, _)| !present);
    let mut found: Vec<_> = absent
        .map(|(field, _, advice)| {
            Finding::new(&member.manifest.path, 1, format!("`{field}` is missing; {advice}"))
        })
        .collect();
    if let Some(readme) = readme.filter(|readme| !files.iter().any(|file| file.path == *readme)) {
        let message = format!("the readme {readme} does not exist; write it or name another");
        found.push(Finding::new(&member.manifest.path, 1, message));
    }
    found
}

/// A path from the repository's root; none when it leaves the repository.
fn joined(folder: &str, path: &Path) -> Option<String> {
    let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
    let path = path.to_string_lossy();
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn check_text(manifest: &TextFile) -> Vec<Finding> {
    let mut found = Vec::new();
    let takes_the_lints =
        entries(&manifest.text).any(|entry| entry.section == "lints" && entry.line == "workspace = true");
    if !takes_the_lints {
        let message = "the workspace's lints are missing; write `[lints]` and `workspace = true` below it";
        found.push(Finding::new(&manifest.path, 1, message));
    }
    for entry in entries(&manifest.text).filter(|entry| entry.table != Table::Other) {
        if !entry.names_the_workspace() && !entry.is_by_path_for_tests() {
            let message = format!(
                "`{}` has a version of its own; version it in the root's [workspace.dependencies] and write \
                 `workspace = true` here",
                entry.name()
            );
            found.push(Finding::new(&manifest.path, entry.number, message));
        }
    }
    found
}

/// The line of a manifest that names a dependency or a section; the first line where none does.
pub(super) fn line_of_dependency(manifest: &str, name: &str) -> usize {
    let names = |line: &str| {
        let rest = line.trim_start().strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with([' ', '.', '='])).then_some(())
    };
    manifest.lines().position(|line| names(line).is_some()).map_or(1, |index| index + 1)
}

/// Which kind of table a line stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Dependencies,
    DevDependencies,
    Other,
}

/// One `key = value` of a manifest. A value over several lines counts by its first line, which the manifests' own
/// format makes enough: the inheritance and the path stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry<'a> {
    section: &'a str,
    table: Table,
    number: usize,
    line: &'a str,
}

impl Entry<'_> {
    fn name(&self) -> &str {
        self.line.split(['.', '=', ' ']).next().unwrap_or_default()
    }

    fn names_the_workspace(&self) -> bool {
        let line: String = self.line.split_whitespace().collect();
        line.contains(".workspace=true")
            || line.contains("{workspace=true")
            || line.contains(",workspace=true")
    }

    /// A crate from above, for tests; whether it may stand there is for the layers to say.
    fn is_by_path_for_tests(&self) -> bool {
        self.table == Table::DevDependencies && self.line.contains("path =") && !self.line.contains("version")
    }
}

fn entries(manifest: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut section = "";
    let mut depth = 0_usize;
    (1..).zip(manifest.lines()).filter_map(move |(number, line)| {
        // No manifest of ours has a `#` inside a string.
        let line = line.split('#').next().unwrap_or_default().trim();
        let begins = depth == 0;
        if begins && let Some(header) = line.strip_prefix('[') {
            section = header.trim_matches(['[', ']']);
            return None;
        }
        let opened = line.matches(['[', '{']).count();
        depth = (depth + opened).saturating_sub(line.matches([']', '}']).count());
        (begins && !line.is_empty()).then(|| Entry { section, table: table(section), number, line })
    })
}

fn table(section: &str) -> Table {
    // `[target.'cfg(unix)'.dependencies]` is one too; so would be `[dependencies.name]`, whose lines then fail
    // because none of them inherits in the short form.
    let section = section.strip_prefix("workspace.").map_or(section, |_| "");
    let is = |name: &str| {
        section == name || section.ends_with(&format!(".{name}")) || section.starts_with(&format!("{name}."))
    };
    if is("dev-dependencies") {
        Table::DevDependencies
    } else if is("dependencies") || is("build-dependencies") {
        Table::Dependencies
    } else {
        Table::Other
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const GOOD: &str = "\
[package]
name = \"a\"
keywords = [
    \"x\",
]

[dependencies]
serde.workspace = true
tokio = { workspace = true, features = [
    \"sync\",
] }
clap = { features = [\"x\"], workspace = true } # why

[dev-dependencies]
above = { path = \"../above\" }

[target.'cfg(unix)'.dependencies]
libc.workspace = true

[lints]
workspace = true
";

    fn manifest(text: &str) -> TextFile {
        TextFile { path: "crates/a/Cargo.toml".to_owned(), text: text.to_owned() }
    }

    fn lines(text: &str) -> Vec<usize> {
        check_text(&manifest(text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_manifest_that_inherits_passes() {
        assert_eq!(check_text(&manifest(GOOD)), []);
    }

    #[test]
    fn a_version_of_its_own_is_found() {
        assert_eq!(lines(&GOOD.replace("serde.workspace = true", "serde = \"1\"")), [8]);
        assert_eq!(lines(&GOOD.replace("libc.workspace = true", "libc = { version = \"0.2\" }")), [18]);
        assert_eq!(
            lines(&GOOD.replace("{ path = \"../above\" }", "{ path = \"../above\", version = \"1\" }")),
            [15]
        );
        assert_eq!(lines(&GOOD.replace("serde.workspace = true", "a = { path = \"../a\" }")), [8]);
        assert_eq!(lines(&format!("{GOOD}\n[dependencies.bytes]\nversion = \"1\"\n")), [24]);
    }

    #[test]
    fn lints_that_are_not_inherited_are_found() {
        assert_eq!(lines(&GOOD.replace("[lints]\nworkspace = true\n", "")), [1]);
        assert_eq!(
            lines(&GOOD.replace("[lints]\nworkspace = true\n", "[lints.rust]\nunsafe_code = \"warn\"\n")),
            [1]
        );
    }

    #[test]
    fn a_missing_field_is_found() {
        let full = Package {
            description: Some("A crate".to_owned()),
            license: Some("MIT".to_owned()),
            rust_version: Some("1.89".to_owned()),
            readme: Some(PathBuf::from("../../README.md")),
            ..Package::default()
        };
        let readme = [TextFile { path: "README.md".to_owned(), text: String::new() }];
        let found = |package: &Package, files: &[TextFile]| {
            let member = Member { package, manifest: manifest(GOOD) };
            check_fields(&member, files).into_iter().map(|finding| finding.message).collect::<Vec<_>>()
        };
        assert_eq!(found(&full, &readme), [""; 0]);
        assert_eq!(found(&Package::default(), &readme).len(), 4);
        assert!(found(&full, &[])[0].contains("README.md does not exist"));
    }

    #[test]
    fn a_dependency_is_found_by_its_line() {
        assert_eq!(line_of_dependency(GOOD, "tokio"), 9);
        assert_eq!(line_of_dependency(GOOD, "serde"), 8);
        assert_eq!(line_of_dependency(GOOD, "[lints]"), 20);
        assert_eq!(line_of_dependency(GOOD, "ser"), 1);
    }
}
