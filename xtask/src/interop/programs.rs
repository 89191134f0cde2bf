//! Our programs that the judge runs.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

use crate::error::Error;
use crate::process;

/// Our programs, built.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) workspace_root: PathBuf,
    pub(super) target_folder: PathBuf,
    /// What `cargo build` says it did.
    built: String,
}

/// What `cargo metadata` says of where things are.
#[derive(Debug, Deserialize)]
struct Places {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

/// A line of what `cargo build` says it did.
#[derive(Debug, Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

impl Programs {
    /// Builds the programs of a package, its examples among them.
    pub(super) fn build(package: &str) -> Result<Self, Error> {
        let mut metadata = process::cargo();
        metadata.args(["metadata", "--format-version", "1", "--no-deps"]);
        let places: Places = serde_json::from_slice(&process::output(&mut metadata)?)?;

        let mut build = process::cargo();
        build.args(["build", "--quiet", "-p", package, "--bins", "--examples"]);
        build.args(["--message-format", "json-render-diagnostics"]);
        let said = String::from_utf8_lossy(&process::output(&mut build)?).into_owned();
        Ok(Self {
            workspace_root: places.workspace_root,
            target_folder: places.target_directory,
            built: said,
        })
    }

    /// Where the program of this name is.
    pub(super) fn executable(&self, name: &str) -> Result<PathBuf, Error> {
        executable(&self.built, name, &self.target_folder)
    }

    /// The version of a package that they were built with.
    pub(super) fn locked(&self, package: &str) -> Result<String, Error> {
        let path = self.workspace_root.join("Cargo.lock");
        let unreadable = |source| Error::Read { path: path.display().to_string(), source };
        let lock = fs::read_to_string(&path).map_err(unreadable)?;
        locked(&lock, package).ok_or_else(|| unreadable(io::ErrorKind::NotFound.into()))
    }
}

/// The version of a package in a lock file.
fn locked(lock: &str, package: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    let version = lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')?;
    Some(version.to_owned())
}

/// Where `cargo build` has put the program of this name.
fn executable(built: &str, name: &str, target_folder: &Path) -> Result<PathBuf, Error> {
    for line in built.lines() {
        let message: Message = serde_json::from_str(line)?;
        if let (Some(target), Some(executable)) = (message.target, message.executable)
            && target.name == name
        {
            return Ok(executable);
        }
    }
    let path = target_folder.join(name).display().to_string();
    Err(Error::Read { path, source: io::ErrorKind::NotFound.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_what_cargo_says() {
        let built = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"anabranch_demo"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"messages"},"executable":"t/examples/messages"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(built, "messages", Path::new("t")).unwrap(), Path::new("t/examples/messages"));
        let error = executable(built, "anabranch-demo", Path::new("t")).unwrap_err();
        assert!(error.to_string().contains("anabranch-demo"), "{error}");
    }
    #[test]
    fn a_version_is_that_of_the_package_and_not_of_another() {
        let lock = "[[package]]\nname = \"a-b\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.1.0\"\n";
        assert_eq!(locked(lock, "a").as_deref(), Some("2.1.0"));
        assert_eq!(locked(lock, "b"), None);
    }
}
