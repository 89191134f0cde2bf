//! The files that the demo's agents can reach, by the names that they know them by.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    result_files::refuse_to_replace,
    table::{Digest, Problem, Rows, TableError},
};

/// A file that tools read, each from its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    place: Place,
    /// What it held when it was first read to its end; whoever reads it later must find the same.
    held: Arc<OnceLock<Digest>>,
}

/// Where a file's bytes come from.
#[derive(Clone, Debug)]
enum Place {
    /// The program itself.
    Embedded(&'static [u8]),
    /// The disk.
    Path(PathBuf),
}

impl Source {
    pub(crate) fn embedded(bytes: &'static [u8]) -> Self {
        Self { place: Place::Embedded(bytes), held: Arc::default() }
    }

    pub(crate) fn path(path: &Path) -> Self {
        Self { place: Place::Path(path.to_owned()), held: Arc::default() }
    }

    /// Begins to read. Reading waits for the disk: a few hundred rows at a time, which a page cache gives at once.
    pub(crate) fn open(&self) -> Result<Box<dyn Read + Send>, Problem> {
        match &self.place {
            Place::Embedded(bytes) => Ok(Box::new(*bytes)),
            Place::Path(path) => {
                // A pipe can be read once, and each tool reads from the start.
                if !fs::metadata(path).map_err(Problem::Unreadable)?.is_file() {
                    return Err(Problem::NotAFile);
                }
                Ok(Box::new(File::open(path).map_err(Problem::Unreadable)?))
            }
        }
    }

    /// Whether a tool has read it to its end.
    pub(crate) fn was_read(&self) -> bool {
        self.held.get().is_some()
    }

    /// Whether it still holds what it held when it was first read to its end, given what it holds now.
    pub(crate) fn is_as_before(&self, now: Digest) -> bool {
        *self.held.get_or_init(|| now) == now
    }
}

/// What the agents' tools share: files to read by name, a folder to write to.
#[derive(Clone, Debug)]
pub(crate) struct Workspace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sources: BTreeMap<String, Source>,
    folder: OnceLock<PathBuf>,
    has_written: AtomicBool,
}

impl Workspace {
    /// Knows these files by these names.
    pub(crate) fn new(sources: impl IntoIterator<Item = (String, Source)>) -> Self {
        Self(Arc::new(Inner {
            sources: sources.into_iter().collect(),
            folder: OnceLock::new(),
            has_written: AtomicBool::new(false),
        }))
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
            Some(source) => Rows::open(file, source),
            None => Err(TableError::new(file, None, Problem::Unknown)),
        }
    }

    /// Whether a result was written.
    pub(crate) fn has_written(&self) -> bool {
        self.0.has_written.load(Ordering::Acquire)
    }

    /// Writes a result and says where it lies. A name is one file's, without folders. What is there already is replaced
    /// where it is an earlier result.
    ///
    /// In task: a few lines to a regular file. In a thread of its own, who is done first would differ from run to run.
    pub(crate) fn write(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let refuse = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ':', '\0']);
        if !is_plain {
            return Err(refuse("a result's name is a file's name, without folders"));
        }
        let path = self.0.folder.get().ok_or_else(|| refuse("there is no folder for results"))?.join(name);
        refuse_to_replace(&path)?;
        fs::write(&path, content)?;
        self.0.has_written.store(true, Ordering::Release);
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
