//! `cargo xtask simulate`: runs seeded random conversations of agents that misbehave, and checks each.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::error::Error;
use crate::process;

/// Builds the simulator and runs it with `args`; its exit code is ours.
pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode, Error> {
    let status = process::status(&mut command(args))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn command(args: Vec<OsString>) -> Command {
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--profile", "simulate", "--locked", "-p", "anabranch-simulate", "--"]);
    command.args(args);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_comes_after_the_separator() {
        let command = process::shown(&command(vec!["--seeds".into(), "10".into()]));
        assert!(command.ends_with("-p anabranch-simulate -- --seeds 10"), "{command}");
    }
}
