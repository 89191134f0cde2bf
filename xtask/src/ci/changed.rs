//! Which packages differ from the last commit, and which depend on them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::metadata::{Metadata, Package};
use crate::process;

/// What a change can break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Affected {
    /// Any package: the change is in what all of them share.
    Everything,
    /// These packages; none when only prose or the repository's own files changed.
    Packages(BTreeSet<String>),
}

/// Files that every package is built, formatted or linted by.
const SHARED: &[&str] = &["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml", "rust-toolchain.toml"];

/// Folders with configuration of `cargo` and of the test tools.
const SHARED_FOLDERS: &[&str] = &[".cargo/", ".config/"];

/// Asks `git` what differs from the last commit, files that are not yet tracked included.
pub(crate) fn packages(metadata: &Metadata) -> Result<Affected, Error> {
    let members = metadata.members();
    let folders: Vec<_> = members
        .iter()
        .map(|package| {
            let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
            (metadata.relative(folder), package.name.as_str())
        })
        .collect();
    Ok(affected(&changed_files(&metadata.workspace_root)?, &folders, &members))
}

fn changed_files(root: &Path) -> Result<Vec<String>, Error> {
    let has_commit =
        process::status(git(root).args(["rev-parse", "--quiet", "--verify", "HEAD"]).stdout(Stdio::null()))?
            .success();
    let mut listed = process::output(git(root).args(if has_commit {
        // Both names of a renamed file: the package that lost it is changed too.
        ["diff", "--name-only", "--no-renames", "-z", "HEAD"].as_slice()
    } else {
        ["ls-files", "--cached", "-z"].as_slice()
    }))?;
    listed.extend(process::output(git(root).args(["ls-files", "--others", "--exclude-standard", "-z"]))?);
    let text = String::from_utf8_lossy(&listed);
    Ok(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root);
    command
}

/// Maps files to packages by folder and adds everything that depends on them, in whatever way.
fn affected(files: &[String], folders: &[(String, &str)], members: &[&Package]) -> Affected {
    let mut names = BTreeSet::new();
    for file in files {
        if SHARED.contains(&file.as_str()) || SHARED_FOLDERS.iter().any(|folder| file.starts_with(folder)) {
            return Affected::Everything;
        }
        let owner = folders
            .iter()
            .find(|(folder, _)| file.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/')));
        names.extend(owner.map(|(_, name)| (*name).to_owned()));
    }
    loop {
        let before = names.len();
        for package in members {
            if package.dependencies.iter().any(|dependency| names.contains(&dependency.name)) {
                names.insert(package.name.clone());
            }
        }
        if names.len() == before {
            return Affected::Packages(names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Dependency, Kind};

    fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|&(name, kind)| Dependency { name: name.to_owned(), kind, ..Dependency::default() })
            .collect();
        Package { name: name.to_owned(), dependencies, ..Package::default() }
    }

    /// `proto` below `session` below `runtime`; `testkit` on `proto`, and `proto`'s tests on `testkit`.
    fn affected_by(files: &[&str]) -> Affected {
        let packages = [
            package("runtime", &[("session", Kind::Normal), ("serde", Kind::Normal)]),
            package("session", &[("proto", Kind::Normal)]),
            package("proto", &[("testkit", Kind::Dev)]),
            package("testkit", &[("proto", Kind::Normal)]),
            package("xtask", &[]),
        ];
        let folders = [
            ("crates/runtime".to_owned(), "runtime"),
            ("crates/session".to_owned(), "session"),
            ("crates/proto".to_owned(), "proto"),
            ("crates/testkit".to_owned(), "testkit"),
            ("xtask".to_owned(), "xtask"),
        ];
        let files: Vec<_> = files.iter().map(|&file| file.to_owned()).collect();
        affected(&files, &folders, &packages.iter().collect::<Vec<_>>())
    }

    fn packages(names: &[&str]) -> Affected {
        Affected::Packages(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn a_package_and_all_that_depends_on_it_are_affected() {
        assert_eq!(affected_by(&["crates/session/src/lib.rs"]), packages(&["session", "runtime"]));
        assert_eq!(
            affected_by(&["crates/runtime/tests/a.rs", "xtask/src/main.rs"]),
            packages(&["runtime", "xtask"])
        );
    }

    #[test]
    fn dependents_by_dev_dependency_count_and_a_circle_ends() {
        let all_but_xtask = packages(&["proto", "testkit", "session", "runtime"]);
        assert_eq!(affected_by(&["crates/testkit/src/lib.rs"]), all_but_xtask);
    }

    #[test]
    fn what_all_share_affects_everything() {
        for file in ["Cargo.toml", "Cargo.lock", "clippy.toml", ".cargo/config.toml"] {
            assert_eq!(affected_by(&["docs/a.md", file]), Affected::Everything, "{file}");
        }
    }

    #[test]
    fn prose_affects_no_package() {
        assert_eq!(affected_by(&["docs/adding-an-event.md", "README.md", "LICENSE-MIT"]), packages(&[]));
    }

    #[test]
    fn a_folder_whose_name_begins_alike_is_another() {
        assert_eq!(affected_by(&["crates/session-extras/src/lib.rs"]), packages(&[]));
    }
}
