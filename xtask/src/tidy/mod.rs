//! `cargo xtask tidy`: what the compiler does not check. Each check is a function over text and metadata; this file
//! collects what they look at and prints what they found.

use std::process::ExitCode;
use std::{fmt, fs};

use crate::error::Error;
use crate::metadata::{Depth, Metadata, Package};
use crate::tidy::files::TextFile;

mod files;
mod layers;
mod licences;
mod links;
mod manifests;
mod marks;
mod sources;
mod spdx;
mod text;

/// Something that has to change, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// The file, from the repository's root.
    path: String,
    /// Counted from 1.
    line: usize,
    /// What is wrong and what to do.
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A package of the workspace with its manifest.
#[derive(Debug)]
struct Member<'a> {
    package: &'a Package,
    manifest: TextFile,
}

impl Member<'_> {
    /// The package's folder from the repository's root.
    fn folder(&self) -> &str {
        self.manifest.path.trim_end_matches("Cargo.toml").trim_end_matches('/')
    }

    /// A finding at the line of the manifest that names a dependency.
    fn finding_at(&self, dependency: &str, message: impl Into<String>) -> Finding {
        let line = manifests::line_of_dependency(&self.manifest.text, dependency);
        Finding::new(&self.manifest.path, line, message)
    }
}

/// What the checks say of the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing found.
    Clean,
    /// Something has to change.
    Untidy,
}

/// Runs every check.
pub(crate) fn run() -> Result<ExitCode, Error> {
    Ok(match check(&Metadata::load(Depth::Everything)?)? {
        Verdict::Clean => ExitCode::SUCCESS,
        Verdict::Untidy => ExitCode::FAILURE,
    })
}

/// Runs every check and prints each finding on a line.
pub(crate) fn check(metadata: &Metadata) -> Result<Verdict, Error> {
    let files = files::tracked(&metadata.workspace_root)?;
    let findings = findings(metadata, &files)?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, {} packages, no findings", files.len(), metadata.packages.len());
        Ok(Verdict::Clean)
    } else {
        println!("tidy: {} findings", findings.len());
        Ok(Verdict::Untidy)
    }
}

fn findings(metadata: &Metadata, files: &[TextFile]) -> Result<Vec<Finding>, Error> {
    let members = members(metadata)?;
    let others = metadata.others();
    let lock = text_of(files, "Cargo.lock");
    let mut found = Vec::new();

    found.extend(layers::check(layers::TABLE, &members, &others));
    for member in &members {
        found.extend(layers::check_upward_uses(layers::TABLE, member, files));
        found.extend(manifests::check(member, files));
    }
    found.extend(licences::check(&metadata.packages, &lock));
    found.extend(licences::check_deny(&text_of(files, "deny.toml")));
    found.extend(sources::check(&others, &lock));
    for file in files {
        found.extend(text::check(file));
        found.extend(marks::check(file));
        found.extend(links::check(file, |path| metadata.workspace_root.join(path).exists()));
    }

    found.sort();
    Ok(found)
}

fn members(metadata: &Metadata) -> Result<Vec<Member<'_>>, Error> {
    let read = |package: &Package| {
        let path = metadata.relative(&package.manifest_path);
        match fs::read_to_string(&package.manifest_path) {
            Ok(text) => Ok(TextFile { path, text }),
            Err(source) => Err(Error::Read { path, source }),
        }
    };
    let members = metadata.members().into_iter();
    members.map(|package| Ok(Member { package, manifest: read(package)? })).collect()
}

/// The file of that path; an empty one where there is none, in which the checks then miss what they look for.
fn text_of(files: &[TextFile], path: &str) -> TextFile {
    let found = files.iter().find(|file| file.path == path);
    found.cloned().unwrap_or_else(|| TextFile { path: path.to_owned(), text: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_printed_so_that_an_editor_can_jump_to_it() {
        let finding = Finding::new("crates/proto/src/lib.rs", 3, "is wrong; do this");
        assert_eq!(finding.to_string(), "crates/proto/src/lib.rs:3: is wrong; do this");
    }
}
