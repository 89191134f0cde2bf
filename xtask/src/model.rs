//! `cargo xtask model`: steps through the orders in which threads can wake the streams of the pipeline's merge: all of
//! them, or in the larger scenarios those with few interruptions, as it prints.

use std::process::ExitCode;

use crate::error::Error;
use crate::metadata::{Depth, Metadata};
use crate::process;

/// How the check is run from the workspace's root. Optimised: it takes some hundred thousand schedules.
pub(crate) const CARGO: [&str; 7] = [
    "run",
    "--release",
    "--locked",
    "--target-dir",
    "target",
    "--manifest-path",
    "crates/pipeline/model/Cargo.toml",
];

/// Prints the schedules of each scenario, and whether each merge that lacks something was found; fails where one was not.
pub(crate) fn run() -> Result<ExitCode, Error> {
    let root = Metadata::load(Depth::Members)?.workspace_root;
    let passed = process::status(process::cargo().args(CARGO).current_dir(root))?.success();
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
