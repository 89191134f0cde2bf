//! `cargo xtask linear`: counts instructions at two sizes, so that what is linear stays so whatever the machine does.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::error::Error;
use crate::metadata::{Depth, Metadata};
use crate::process;

/// A program that does so much of something.
struct Program {
    package: &'static str,
    example: &'static str,
    features: &'static str,
    /// What comes before what it is to do.
    arguments: &'static [&'static str],
    /// What it does, and how much of it at the smaller size.
    cases: &'static [(&'static str, u32)],
}

impl Program {
    const fn adapter(arguments: &'static [&'static str]) -> Self {
        Self { package: "anabranch-adapters", example: "adapt", features: "acp", arguments, cases: ADAPTED }
    }
}

/// What each adapter is given: pieces of one block; blocks, calls and children of which so many are open at once; runs of
/// one session.
const ADAPTED: &[(&str, u32)] =
    &[("pieces", 2_000), ("blocks", 300), ("calls", 300), ("children", 300), ("runs", 300)];

const PROGRAMS: [Program; 6] = [
    Program {
        package: "anabranch-session",
        example: "accumulate",
        features: "",
        arguments: &[],
        cases: &[("deltas", 10_000), ("blocks", 1_000), ("base64", 10_000), ("results", 1_000)],
    },
    Program::adapter(&["text"]),
    Program::adapter(&["tool-calls"]),
    Program::adapter(&["acp-cards"]),
    Program::adapter(&["acp-sessions"]),
    Program::adapter(&["ag-ui"]),
];

/// How much larger the larger size is.
const FACTOR: u32 = 10;

/// How much more an item may cost at the larger size: a hash table that grows is not quite linear.
const TOLERANCE: f64 = 1.25;

/// Counts and prints; fails where an item costs more among many.
pub(crate) fn run() -> Result<ExitCode, Error> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!(
            "valgrind is missing; get it from your system's packages (Debian: apt-get install valgrind)"
        );
        return Ok(ExitCode::FAILURE);
    }
    let metadata = Metadata::load(Depth::Members)?;
    println!(
        "{:<22} {:>10} {:>18} {:>10} {:>18} {:>7}",
        "what", "items", "instructions each", "items", "instructions each", "ratio"
    );
    let mut is_linear = true;
    for program in &PROGRAMS {
        let path = build(program, &metadata)?;
        for (what, small) in program.cases {
            let count = |items: u32| instructions(&path, program.arguments, what, items);
            let large = small * FACTOR;
            let (nothing, few, many) = (count(0)?, count(*small)?, count(large)?);
            let each = |instructions: u64, items: u32| {
                to_f64(instructions.saturating_sub(nothing)) / f64::from(items)
            };
            let (few, many) = (each(few, *small), each(many, large));
            let ratio = many / few;
            let verdict = if ratio <= TOLERANCE { "" } else { "  TOO MUCH" };
            is_linear &= ratio <= TOLERANCE;
            let what = [program.arguments, &[what]].concat().join(" ");
            println!("{what:<22} {small:>10} {few:>18.0} {large:>10} {many:>18.0} {ratio:>7.2}{verdict}");
        }
    }
    Ok(if is_linear { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds a program and says where it is.
fn build(program: &Program, metadata: &Metadata) -> Result<PathBuf, Error> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--locked", "-p", program.package, "--example", program.example]);
    build.args(["--features", program.features]);
    process::output(&mut build)?;
    Ok(metadata.target_directory.join("release/examples").join(program.example))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio to two places")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

/// What one run of the program executes.
fn instructions(program: &Path, arguments: &[&str], what: &str, items: u32) -> Result<u64, Error> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .args([what, &items.to_string()]);
    let output =
        command.output().map_err(|source| Error::Start { command: process::shown(&command), source })?;
    let log = String::from_utf8_lossy(&output.stderr);
    read(&log)
        .filter(|_| output.status.success())
        .ok_or_else(|| Error::Unreadable { command: process::shown(&command), output: log.into_owned() })
}

/// Reads callgrind's `==1== Collected : N`.
fn read(log: &str) -> Option<u64> {
    log.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_count_is_read() {
        assert_eq!(read("==7== Events    : Ir\n==7== Collected : 12345\n==7==\n"), Some(12_345));
        assert_eq!(read("valgrind: no such program"), None);
    }
}
