//! A copy of the workspace to plant faults in.

use std::fs;
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
        for name in String::from_utf8_lossy(&list).split('\0').filter(|name| !name.is_empty()) {
            // A file that is tracked and gone belongs to no copy either.
            let Ok(content) = fs::read(root.join(name)) else { continue };
            let path = folder.join(name);
            if fs::read(&path).ok().as_ref() != Some(&content) {
                let parent = path.parent().unwrap_or(folder);
                fs::create_dir_all(parent)
                    .and_then(|()| fs::write(&path, content))
                    .map_err(|source| write(&path, source))?;
            }
        }
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

fn write(path: &Path, source: std::io::Error) -> Error {
    Error::Write { path: path.display().to_string(), source }
}
