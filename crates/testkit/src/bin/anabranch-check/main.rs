//! `anabranch-check`: says of a stream of events whether it is well formed.
//!
//! Reads a file or the standard input line by line, in either spelling, and holds the events to
//! `anabranch_proto::grammar`. Prints how many came of each kind, or the first line that is wrong and what is wrong
//! with it.

mod check;
mod cli;
mod finding;
mod spelling;
mod table;

use std::{
    fs::File,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

use crate::{check::Checked, cli::Cli, finding::Finding};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(checked) => {
            // Whoever reads this may have enough of it.
            let _ = writeln!(io::stdout(), "{}well-formed", table::of(&checked));
            ExitCode::SUCCESS
        }
        Err(finding) => {
            eprintln!("{finding}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<Checked, Finding> {
    if cli.input.as_os_str() == "-" {
        return check::check(io::stdin().lock(), cli);
    }
    let unreadable = |source| Finding::Input { input: cli.input.display().to_string(), source };
    check::check(File::open(&cli.input).map_err(unreadable)?, cli)
}
