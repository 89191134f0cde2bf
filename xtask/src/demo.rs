//! `cargo xtask demo`: builds and runs the demo.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::error::Error;
use crate::process;

/// Builds the demo and runs it with `args`, in the caller's folder, with its input, outputs and exit code.
pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode, Error> {
    become_process(&mut command(args))
}

fn command(args: Vec<OsString>) -> Command {
    let mut command = process::cargo();
    command.arg("run");
    // The first build takes a minute, and a silent minute looks like a hang; after that cargo's own lines are noise.
    if process::is_built("anabranch-demo") {
        command.arg("--quiet");
    }
    command.args(["-p", "anabranch-demo", "--"]).args(args);
    command
}

/// Replaces this process, so that a Ctrl-C reaches the demo alone and the prompt waits until it has ended.
#[cfg(unix)]
fn become_process(command: &mut Command) -> Result<ExitCode, Error> {
    use std::os::unix::process::CommandExt as _;

    let source = command.exec();
    Err(Error::Start { command: process::shown(command), source })
}

/// Runs the program and ends as it ends.
#[cfg(not(unix))]
fn become_process(command: &mut Command) -> Result<ExitCode, Error> {
    let status = process::status(command)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_comes_after_the_separator() {
        let command = process::shown(&command(vec!["--help".into(), "--as".into(), "native".into()]));
        assert!(command.ends_with("-p anabranch-demo -- --help --as native"), "{command}");
    }
}
