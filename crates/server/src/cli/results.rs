//! The folder into which the demo's agents write their results.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use anabranch_proto::Stamp as _;
use anabranch_runtime::SystemStamp;

/// The folder that was chosen, or a temporary one, which is taken away when this is dropped.
#[derive(Debug)]
pub(super) struct Results {
    folder: PathBuf,
    is_temporary: bool,
}

/// The folder that was chosen cannot be written into.
#[derive(Debug, thiserror::Error)]
#[error("results cannot be written into `{}`; choose another folder with --out", folder.display())]
pub(super) struct ResultsError {
    folder: PathBuf,
    source: io::Error,
}

impl Results {
    /// # Errors
    /// When the folder that was chosen cannot be made.
    pub(super) fn new(chosen: Option<PathBuf>) -> Result<Self, ResultsError> {
        let Some(folder) = chosen else {
            let folder = env::temp_dir().join(format!("anabranch-{}", SystemStamp::new().event_id()));
            return Ok(Self { folder, is_temporary: true });
        };
        match fs::create_dir_all(&folder) {
            Ok(()) => Ok(Self { folder, is_temporary: false }),
            Err(source) => Err(ResultsError { folder, source }),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        // It is not there where nothing was written.
        if self.is_temporary
            && let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, folder = %self.folder.display(), "the temporary folder stays");
        }
    }
}
