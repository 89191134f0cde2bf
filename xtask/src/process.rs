//! Programs that are started, and how they are shown to the reader.

use std::env;
use std::process::{Command, ExitStatus, Stdio};

use crate::error::Error;
use crate::metadata::{Depth, Metadata};

/// The `cargo` that runs this program, so that no other toolchain is mixed in.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether a program of the workspace has been built before. Where that cannot be told it counts as not built.
pub(crate) fn is_built(name: &str) -> bool {
    let program = format!("debug/{name}{}", std::env::consts::EXE_SUFFIX);
    Metadata::load(Depth::Members).is_ok_and(|metadata| metadata.target_directory.join(program).exists())
}

/// Runs a program to its end with our input and outputs.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, Error> {
    command.status().map_err(|source| Error::Start { command: shown(command), source })
}

/// Runs a program to its end and returns what it printed; its errors go to ours.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, Error> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Start { command: shown(command), source })?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Error::Failed { command: shown(command), status: output.status })
    }
}

/// The program and its arguments as they would be typed.
pub(crate) fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    // The full path of the toolchain's `cargo` says nothing to the reader.
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut text = quoted(name.trim_end_matches(".exe"));
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&quoted(&argument.to_string_lossy()));
    }
    text
}

/// A word as a shell takes it: in quotes only where it needs them.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/opt/toolchain/bin/cargo");
        command.args(["test", "-p", "anabranch-proto", "a name", "it's", ""]);
        assert_eq!(shown(&command), r"cargo test -p anabranch-proto 'a name' 'it'\''s' ''");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = status(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(error.to_string().contains("no-such-program-anywhere"), "{error}");
    }

    #[test]
    fn a_program_that_fails_gives_no_output() {
        let error = output(Command::new("git").args(["rev-parse", "--quiet", "--verify", "no-such-commit"]))
            .unwrap_err();
        assert!(matches!(error, Error::Failed { .. }), "{error}");
    }
}
