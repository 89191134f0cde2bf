//! A Node of the judge's own: its scripts and their packages in a folder, installed once.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::process;

use super::Obstacle;

/// The oldest Node that the clients run on.
const OLDEST: u32 = 20;

/// What the judge's folder has besides its scripts, and what its packages are installed from.
const MANIFESTS: [&str; 2] = ["package.json", "package-lock.json"];

/// Checks that there is a Node that is new enough; gives its version.
pub(super) fn find() -> Result<String, Obstacle> {
    let answer = Command::new("node").arg("--version").stderr(Stdio::null()).output();
    let version = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned());
    match version.as_deref().map(major) {
        Ok(Some(major)) if major >= OLDEST => Ok(version.unwrap_or_default()),
        Ok(_) | Err(_) => {
            let found = version.ok().filter(|version| !version.is_empty());
            let found =
                found.map_or_else(|| "there is none".to_owned(), |version| format!("this is {version}"));
            Err(Obstacle::Missing(format!("node {OLDEST} or newer is needed, with npm; {found}")))
        }
    }
}

/// Makes `place` a copy of the judge's folder with its packages beside it. Packages that have been installed for the same
/// lockfile and Node are used again.
pub(super) fn install(judge: &Path, place: &Path, version: &str) -> Result<(), Obstacle> {
    let unreadable = |path: &Path, source| Error::Read { path: path.display().to_string(), source };
    fs::create_dir_all(place).map_err(|source| unreadable(place, source))?;
    let files = fs::read_dir(judge).map_err(|source| unreadable(judge, source))?;
    for file in files {
        let file = file.map_err(|source| unreadable(judge, source))?;
        let is_script = file.path().extension().is_some_and(|extension| extension == "mjs");
        if is_script || MANIFESTS.iter().any(|manifest| file.file_name() == *manifest) {
            let copy = fs::copy(file.path(), place.join(file.file_name()));
            copy.map_err(|source| unreadable(&file.path(), source))?;
        }
    }
    let lockfile = place.join("package-lock.json");
    let wanted = fs::read_to_string(&lockfile).map_err(|source| unreadable(&lockfile, source))?;
    let made_for = format!("{version}\n{wanted}");
    let note = place.join("made-for.txt");
    if fs::read_to_string(&note).is_ok_and(|made| made == made_for) {
        return Ok(());
    }
    println!("installing the judge's packages");
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let mut install = Command::new(npm);
    install.args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(place);
    if !process::status(&mut install)?.success() {
        return Err(Obstacle::Missing(
            "npm cannot install what the judge needs; `npm ci` in the judge's folder says why. Without a network, point \
             npm at a mirror (npm config set registry)"
                .to_owned(),
        ));
    }
    // Without the note the packages are installed anew next time, which is all that is lost.
    fs::write(&note, made_for).ok();
    Ok(())
}

/// `v20.11.1` as 20.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_begins_with_its_major() {
        assert_eq!(major("v20.11.1"), Some(20));
        assert_eq!(major(""), None);
        assert_eq!(major("20"), None);
    }
}
