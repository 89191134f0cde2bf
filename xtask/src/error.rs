//! Why a command could not do its work at all. A check that finds something is no error: it prints what it found.

use std::io;
use std::process::ExitStatus;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program is missing or may not be run.
    #[error("cannot start `{command}`; is it installed and on the path?")]
    Start {
        /// What was to run, as it would be typed.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program whose output was needed failed.
    #[error("`{command}` failed with {status}")]
    Failed {
        /// What ran, as it would be typed.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// A file of the repository cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file, from the repository's root.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program printed something else than was expected of it.
    #[error("cannot understand the output of `{command}`:\n{output}")]
    Unreadable {
        /// What ran, as it would be typed.
        command: String,
        /// What it printed.
        output: String,
    },
    /// An option selects nothing.
    #[error("no {what} is called `{name}`; there are:\n{known}")]
    Nothing {
        /// What was looked for.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names that there are, a line each.
        known: String,
    },
    /// `cargo metadata` printed something else than was expected of it.
    #[error("cannot understand the output of `cargo metadata`")]
    Metadata(#[from] serde_json::Error),
}
