//! `cargo xtask linear`: counts instructions at two sizes, so that what is linear stays so whatever the machine does.

use std::process::{Command, ExitCode, Stdio};

use crate::error::Error;
use crate::metadata::{Depth, Metadata};
use crate::process;

/// What is accumulated, and how many at the smaller size.
const CASES: [(&str, u32); 4] =
    [("deltas", 10_000), ("blocks", 1_000), ("base64", 10_000), ("results", 1_000)];

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
    let mut build = process::cargo();
    build.args(["build", "--release", "--locked", "-p", "anabranch-session", "--example", "accumulate"]);
    process::output(&mut build)?;
    let program = metadata.target_directory.join("release/examples/accumulate");

    println!(
        "{:<10} {:>10} {:>18} {:>10} {:>18} {:>7}",
        "what", "items", "instructions each", "items", "instructions each", "ratio"
    );
    let mut is_linear = true;
    for (what, small) in CASES {
        let count = |items: u32| instructions(&program, what, items);
        let (nothing, few, many) = (count(0)?, count(small)?, count(small * FACTOR)?);
        let each =
            |instructions: u64, items: u32| to_f64(instructions.saturating_sub(nothing)) / f64::from(items);
        let (few, many) = (each(few, small), each(many, small * FACTOR));
        let ratio = many / few;
        let verdict = if ratio <= TOLERANCE { "" } else { "  TOO MUCH" };
        is_linear &= ratio <= TOLERANCE;
        println!(
            "{what:<10} {small:>10} {few:>18.0} {:>10} {many:>18.0} {ratio:>7.2}{verdict}",
            small * FACTOR
        );
    }
    Ok(if is_linear { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[expect(clippy::cast_precision_loss, reason = "a ratio to two places")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

/// What one run of the program executes.
fn instructions(program: &std::path::Path, what: &str, items: u32) -> Result<u64, Error> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
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
