//! The files that the demo's agents can reach, by the names that they know them by.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::table::{Problem, Rows, TableError};

/// Where a file's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The program itself.
    Embedded(&'static [u8]),
    /// The disk.
    Path(PathBuf),
}

impl Source {
    /// Begins to read. Reading waits for the disk: a few hundred rows at a time, which a page cache gives at once.
    pub(crate) fn open(&self) -> Result<Box<dyn Read + Send>, Problem> {
        match self {
            Self::Embedded(bytes) => Ok(Box::new(*bytes)),
            Self::Path(path) => {
                // A pipe can be read once, and each tool reads from the start.
                if !fs::metadata(path).map_err(Problem::Unreadable)?.is_file() {
                    return Err(Problem::NotAFile);
                }
                Ok(Box::new(File::open(path).map_err(Problem::Unreadable)?))
            }
        }
    }
}

/// What the agents' tools share: files to read by name, a folder to write to.
#[derive(Clone, Debug)]
pub(crate) struct Workspace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sources: BTreeMap<String, Source>,
    folder: OnceLock<PathBuf>,
}

impl Workspace {
    /// Knows these files by these names.
    pub(crate) fn new(sources: impl IntoIterator<Item = (String, Source)>) -> Self {
        Self(Arc::new(Inner { sources: sources.into_iter().collect(), folder: OnceLock::new() }))
    }

    /// Makes the folder for results, with the folders that lead to it, and writes there from now on.
    pub(crate) fn write_to(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        // The first folder stays: results of one run lie together.
        self.0.folder.get_or_init(|| folder.to_owned());
        Ok(())
    }

    /// Begins to read a table.
    pub(crate) fn rows(&self, file: &str) -> Result<Rows, TableError> {
        match self.0.sources.get(file) {
            Some(source) => Rows::open(file, source.clone()),
            None => Err(TableError::new(file, None, Problem::Unknown)),
        }
    }

    /// Writes a result and says where it lies. A name is one file's, without folders.
    pub(crate) fn write(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let refuse = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ':', '\0']);
        if !is_plain {
            return Err(refuse("a result's name is a file's name, without folders"));
        }
        let path = self.0.folder.get().ok_or_else(|| refuse("there is no folder for results"))?.join(name);
        fs::write(&path, content)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_stays_in_its_folder() {
        let workspace = Workspace::new([]);
        for name in ["", ".", "..", "../a", "a/b", "/a", "a\\b", "c:a", ".hidden"] {
            assert_eq!(workspace.write(name, "").unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }
}
