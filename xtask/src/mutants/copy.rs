//! A copy of the workspace to plant faults in.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::mutants::table::Mutant;
use crate::process;

/// A copy of the files that git does not ignore. One that is there is brought up to date: what did not change is not built again.
#[derive(Debug)]
pub(super) struct Copy {
    folder: PathBuf,
}

/// A fault that was planted.
#[derive(Debug)]
pub(super) struct Planted {
    path: PathBuf,
    before: String,
}

impl Copy {
    pub(super) fn new(root: &Path, folder: &Path) -> Result<Self, Error> {
        let mut list = Command::new("git");
        let list = process::output(list.current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut copied = HashSet::new();
        for name in String::from_utf8_lossy(&list).split('\0').filter(|name| !name.is_empty()) {
            // A file that is tracked and gone belongs to no copy either.
            let Ok(content) = fs::read(root.join(name)) else { continue };
            let path = folder.join(name);
            copied.insert(path.clone());
            if fs::read(&path).ok().as_ref() != Some(&content) {
                let parent = path.parent().unwrap_or(folder);
                fs::create_dir_all(parent)
                    .and_then(|()| fs::write(&path, content))
                    .map_err(|source| write(&path, source))?;
            }
        }
        remove_others(folder, &copied).map_err(|source| write(folder, source))?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Plants a fault; says why not where it does not fit the source.
    pub(super) fn plant(&self, mutant: &Mutant) -> Result<Result<Planted, String>, Error> {
        let path = self.folder.join(mutant.file);
        let before = fs::read_to_string(&path)
            .map_err(|source| Error::Read { path: mutant.file.to_owned(), source })?;
        let count = before.matches(mutant.old).count();
        if count != 1 {
            return Ok(Err(format!("its text is {count} times in {}", mutant.file)));
        }
        let after = before.replacen(mutant.old, mutant.new, 1);
        fs::write(&path, after).map_err(|source| write(&path, source))?;
        Ok(Ok(Planted { path, before }))
    }
}

impl Planted {
    /// Takes the fault out again.
    pub(super) fn undo(self) -> Result<(), Error> {
        fs::write(&self.path, self.before).map_err(|source| write(&self.path, source))
    }
}

/// Takes away the files of an older copy: a module that moved would be there twice.
fn remove_others(folder: &Path, copied: &HashSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, copied)?;
        } else if !copied.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn write(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.display().to_string(), source }
}
