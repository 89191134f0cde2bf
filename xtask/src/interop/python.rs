//! A Python of the judge's own: a virtual environment with what it needs, made once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::error::Error;
use crate::process;

use super::Obstacle;

/// The oldest Python that all of it runs on.
const OLDEST: (u32, u32) = (3, 11);

/// A Python that is new enough.
#[derive(Debug)]
pub(super) struct Python {
    program: OsString,
    version: String,
}

impl Python {
    /// The first Python that is new enough.
    pub(super) fn find() -> Result<Self, Obstacle> {
        let chosen = env::var_os("PYTHON");
        let candidates = chosen.into_iter().chain(["python3", "python"].map(OsString::from));
        let mut found = Vec::new();
        for program in candidates {
            let mut ask = Command::new(&program);
            ask.args(["-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"]).stderr(Stdio::null());
            let Ok(answer) = ask.output() else { continue };
            let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            match parsed(&version) {
                Some(numbers) if numbers >= OLDEST => return Ok(Self { program, version }),
                Some(_) => found.push(format!("{} is {version}", program.to_string_lossy())),
                None => {}
            }
        }
        Err(Obstacle::Missing(missing(&found)))
    }

    /// The Python of an environment in `folder` with the packages of `requirements`. An environment that has been made
    /// for the same is used again.
    pub(super) fn environment(&self, folder: &Path, requirements: &Path) -> Result<PathBuf, Obstacle> {
        let unreadable = |source| Error::Read { path: requirements.display().to_string(), source };
        let wanted = fs::read_to_string(requirements).map_err(unreadable)?;
        let made_for = format!("{}\n{wanted}", self.version);
        let note = folder.join("made-for.txt");
        let python = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
        let python = folder.join(python);
        if python.is_file() && fs::read_to_string(&note).is_ok_and(|made| made == made_for) {
            return Ok(python);
        }
        println!("making an environment with {}", wanted.split_whitespace().collect::<Vec<_>>().join(", "));
        let made = process::status(Command::new(&self.program).args(["-m", "venv", "--clear"]).arg(folder))?;
        if !made.success() {
            return Err(Obstacle::Missing(
                "python has no `venv`; install it (Debian and Ubuntu: python3-venv)".to_owned(),
            ));
        }
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        if !process::status(install.arg(requirements))?.success() {
            return Err(Obstacle::Missing(
                "pip cannot install what the judge needs; pip's own messages above say why. Without a network, \
                 point pip at a mirror or a folder of wheels (PIP_INDEX_URL, PIP_FIND_LINKS)"
                    .to_owned(),
            ));
        }
        // Without the note the environment is made anew next time, which is all that is lost.
        fs::write(&note, made_for).ok();
        Ok(python)
    }
}

/// `3.11.7` as (3, 11).
fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

fn missing(found: &[String]) -> String {
    let (major, minor) = OLDEST;
    let found = if found.is_empty() { "there is none".to_owned() } else { found.join(", ") };
    format!(
        "python {major}.{minor} or newer is needed, with venv and pip; {found}. Install one, or name it in PYTHON"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parsed("3.11.7"), Some((3, 11)));
        assert!(parsed("3.9.1").unwrap() < OLDEST);
        assert!(parsed("3.13.0").unwrap() > OLDEST);
        assert_eq!(parsed(""), None);
    }

    #[test]
    fn what_is_missing_is_said_with_what_was_found() {
        assert_eq!(
            missing(&["python3 is 3.9.1".to_owned()]),
            "python 3.11 or newer is needed, with venv and pip; python3 is 3.9.1. Install one, or name it in PYTHON"
        );
        assert!(missing(&[]).contains("there is none"));
    }
}
