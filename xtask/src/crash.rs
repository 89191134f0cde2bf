//! `cargo xtask crash`: kills a server in mid-work, again and again, and checks what is there after each restart.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::error::Error;
use crate::process;

/// Builds what kills and is killed, and runs it with `args`; its exit code is ours.
pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode, Error> {
    let status = process::status(&mut command(args))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn command(args: Vec<OsString>) -> Command {
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--locked", "-p", "anabranch-crash", "--"]);
    command.args(args);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_comes_after_the_separator() {
        let command = process::shown(&command(vec!["--rounds".into(), "10".into()]));
        assert!(command.ends_with("-p anabranch-crash -- --rounds 10"), "{command}");
    }
}
