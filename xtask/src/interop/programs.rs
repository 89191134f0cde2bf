//! Our programs that the judge runs.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::process;

/// Our programs, built.
#[derive(Debug)]
pub(super) struct Programs {
    /// Writes a run of the demo.
    pub(super) demo: PathBuf,
    /// Prints the messages that flat lines add up to.
    pub(super) messages: PathBuf,
    pub(super) workspace_root: PathBuf,
    pub(super) target_folder: PathBuf,
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
    pub(super) fn build() -> Result<Self, Error> {
        let mut metadata = process::cargo();
        metadata.args(["metadata", "--format-version", "1", "--no-deps"]);
        let places: Places = serde_json::from_slice(&process::output(&mut metadata)?)?;

        let mut build = process::cargo();
        build.args(["build", "--quiet", "-p", "anabranch-demo", "--bins", "--examples"]);
        build.args(["--message-format", "json-render-diagnostics"]);
        let said = String::from_utf8_lossy(&process::output(&mut build)?).into_owned();
        Ok(Self {
            demo: executable(&said, "anabranch-demo", &places.target_directory)?,
            messages: executable(&said, "messages", &places.target_directory)?,
            workspace_root: places.workspace_root,
            target_folder: places.target_directory,
        })
    }
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
    Err(Error::Read { path, source: std::io::ErrorKind::NotFound.into() })
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
}
