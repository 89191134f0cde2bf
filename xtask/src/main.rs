//! `cargo xtask`: the project's own commands, one file or folder per command.
//!
//! It runs `cargo` and `git` as processes and links none of the workspace's crates, so that it works when they do
//! not compile.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::error::Error;

mod bench;
mod check;
mod ci;
mod counts;
mod crash;
mod demo;
mod error;
mod fuzz;
mod interop;
mod linear;
mod metadata;
mod model;
mod mutants;
mod process;
mod simulate;
mod tidy;

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the demo; everything after `demo` goes to it, `--help` included
    #[command(disable_help_flag = true)]
    Demo(PassedArgs),
    /// Check whether a stream of events is well formed; everything after `check` goes to the checker
    #[command(disable_help_flag = true)]
    Check(PassedArgs),
    /// Prove a change: format, lints, tests, each package and feature alone, docs, tidy, packaging
    Ci(CiArgs),
    /// Have another project judge what we write, and read what it writes
    Interop(InteropArgs),
    /// Run random conversations of agents that misbehave; everything after `simulate` goes to the simulator
    #[command(disable_help_flag = true)]
    Simulate(PassedArgs),
    /// Kill a server in mid-work, again and again: nothing that a reader saw is lost; everything after `crash` goes to the killer
    #[command(disable_help_flag = true)]
    Crash(PassedArgs),
    /// Plant faults into a copy of the workspace: the simulator must find each
    Mutants(mutants::MutantsArgs),
    /// Fuzz the readers and the verifier; prints executions, coverage and corpus
    Fuzz(fuzz::FuzzArgs),
    /// Measure what things cost, beside floors and others' libraries
    Bench(bench::BenchArgs),
    /// Count what an event, a frame, a line and a child take in instructions; no more than committed
    Counts(counts::CountsArgs),
    /// Count instructions at two sizes: what is linear stays so
    Linear,
    /// Step through the orders in which threads can wake the streams of the merge
    Model,
    /// Check what the compiler does not: layers, licences, sources, manifests, texts, links
    Tidy,
}

/// The arguments of another program, which parses them itself.
#[derive(Debug, Args)]
struct PassedArgs {
    #[arg(last = true)]
    args: Vec<OsString>,
}

/// How much to prove.
#[derive(Debug, Args)]
struct CiArgs {
    /// Only what differs from the last commit, and what depends on it
    #[arg(long)]
    quick: bool,
}

/// Whom to ask.
#[derive(Debug, Args)]
struct InteropArgs {
    #[arg(value_enum)]
    peer: interop::Peer,
}

fn main() -> ExitCode {
    let result = match Cli::parse_from(escaped(env::args_os())).command {
        Command::Demo(demo) => demo::run(demo.args),
        Command::Check(check) => check::run(check.args),
        Command::Simulate(simulate) => simulate::run(simulate.args),
        Command::Crash(crash) => crash::run(crash.args),
        Command::Ci(ci) => ci::run(if ci.quick { ci::Extent::Quick } else { ci::Extent::Full }),
        Command::Interop(interop) => interop::run(interop.peer),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Counts(args) => counts::run(&args),
        Command::Linear => linear::run(),
        Command::Model => model::run(),
        Command::Tidy => tidy::run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {}", error.with_sources());
        ExitCode::FAILURE
    })
}

/// The commands whose arguments are another program's.
const PASSED: [&str; 4] = ["demo", "check", "simulate", "crash"];

/// The command line with a `--` after a command whose arguments are another program's, a `--` of its own included.
fn escaped(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.into_iter().collect();
    if words.get(1).is_some_and(|command| PASSED.iter().any(|passed| command == passed)) {
        words.insert(2, "--".into());
    }
    words
}

impl Error {
    /// The error and what caused it, on one line.
    fn with_sources(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(source) = next {
            text.push_str(": ");
            text.push_str(&source.to_string());
            next = source.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_args(command: &str, line: &[&str]) -> Vec<OsString> {
        let words = ["cargo xtask", command].into_iter().chain(line.iter().copied()).map(OsString::from);
        match Cli::try_parse_from(escaped(words)).unwrap().command {
            Command::Demo(passed)
            | Command::Check(passed)
            | Command::Simulate(passed)
            | Command::Crash(passed) => passed.args,
            other @ (Command::Bench(_)
            | Command::Ci(_)
            | Command::Counts(_)
            | Command::Fuzz(_)
            | Command::Interop(_)
            | Command::Linear
            | Command::Mutants(_)
            | Command::Model
            | Command::Tidy) => {
                panic!("parsed as {other:?}")
            }
        }
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn other_programs_get_their_arguments_untouched() {
        for line in [
            &["--help"][..],
            &["-h"],
            &["--as", "native", "--fail", "n1"],
            &["--input", "a.csv", "b.csv", "--", "-x"],
            &["--version", "--quick"],
            &["--", "--help"],
            &[],
        ] {
            for command in PASSED {
                assert_eq!(passed_args(command, line), line);
            }
        }
    }

    #[test]
    fn an_unknown_option_exits_with_2() {
        let error = Cli::try_parse_from(["cargo xtask", "ci", "--quik"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.use_stderr());
        assert!(error.to_string().contains("Usage:"), "{error}");
    }

    #[test]
    fn an_error_names_its_cause_once() {
        let source = std::io::Error::other("no such file");
        let error = Error::Read { path: "README.md".to_owned(), source };
        assert_eq!(error.with_sources(), "cannot read README.md: no such file");
    }
}
