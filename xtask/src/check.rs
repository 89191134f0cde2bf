//! `cargo xtask check`: says of a stream of events whether it is well formed.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::error::Error;
use crate::process;

/// Builds the checker and runs it with `args`, in the caller's folder, with its input, outputs and exit code.
pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode, Error> {
    let status = process::status(&mut command(args))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn command(args: Vec<OsString>) -> Command {
    let mut command = process::cargo();
    command.arg("run");
    if process::is_built("anabranch-check") {
        command.arg("--quiet");
    }
    command.args(["-p", "anabranch-testkit", "--bin", "anabranch-check", "--"]).args(args);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_comes_after_the_separator() {
        let command = process::shown(&command(vec!["--profile".into(), "agentscope".into(), "-".into()]));
        assert!(command.ends_with("--bin anabranch-check -- --profile agentscope -"), "{command}");
    }
}
