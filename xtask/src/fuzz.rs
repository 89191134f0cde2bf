//! `cargo xtask fuzz`: fuzzes the readers and the verifier for a while.
//!
//! The fuzzer's instrumentation needs an unstable compiler. With a nightly toolchain it is used as it is; with a stable
//! one `RUSTC_BOOTSTRAP=1` unlocks the same flags for these builds alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::error::Error;
use crate::metadata::{Depth, Metadata};
use crate::process;

/// What is fuzzed.
const TARGETS: [&str; 3] = ["native", "flat", "verifier"];

const FOLDER: &str = "crates/proto/fuzz";

/// The longest input: a few lines.
const MAX_INPUT: usize = 8_192;

/// How long to fuzz.
#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// How many seconds for each target
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// What a target came to.
struct Outcome {
    target: &'static str,
    executions: String,
    coverage: String,
    corpus: String,
}

/// Fuzzes each target and prints what came out; fails where a target does.
pub(crate) fn run(args: &FuzzArgs) -> Result<ExitCode, Error> {
    if !is_installed() {
        eprintln!("cargo-fuzz is missing; get it with: cargo install cargo-fuzz --locked");
        return Ok(ExitCode::FAILURE);
    }
    let root = Metadata::load(Depth::Members)?.workspace_root;
    let folder = root.join(FOLDER);
    let mut outcomes = Vec::new();
    for target in TARGETS {
        println!("== {target}, {} s", args.seconds);
        let corpus = folder.join("corpus").join(target);
        if let Err(source) = seed(&root, target, &corpus) {
            eprintln!("the seeds of {target} could not be written: {source}");
            return Ok(ExitCode::FAILURE);
        }
        let mut command = process::cargo();
        command.current_dir(&root).args(["fuzz", "run", "--fuzz-dir", FOLDER, target, "--"]);
        command.args([
            format!("-max_total_time={}", args.seconds),
            format!("-max_len={MAX_INPUT}"),
            "-print_final_stats=1".to_owned(),
            "-verbosity=1".to_owned(),
        ]);
        if !is_nightly() {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        command.stdout(Stdio::inherit()).stderr(Stdio::piped());
        let output =
            command.output().map_err(|source| Error::Start { command: process::shown(&command), source })?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            eprint!("{log}");
            eprintln!("== {target}: FAILED; the input that fails is in {FOLDER}/artifacts/{target}");
            return Ok(ExitCode::FAILURE);
        }
        outcomes.push(read_log(target, &log));
    }
    println!("\n{:<10} {:>12} {:>10} {:>16}", "target", "executions", "coverage", "corpus");
    for Outcome { target, executions, coverage, corpus } in outcomes {
        println!("{target:<10} {executions:>12} {coverage:>10} {corpus:>16}");
    }
    Ok(ExitCode::SUCCESS)
}

fn is_installed() -> bool {
    let version =
        process::cargo().args(["fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

fn is_nightly() -> bool {
    let version = Command::new("rustc").arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("nightly"))
}

/// Writes what fuzzing begins with: captured lines and streams, and the numbers of a well-formed stream's lines.
fn seed(root: &Path, target: &str, corpus: &Path) -> std::io::Result<()> {
    fs::create_dir_all(corpus)?;
    let data = root.join("crates/proto/tests/data");
    if target == "verifier" {
        let lines = fs::read_to_string(data.join("demo/fail.jsonl"))?.lines().count();
        let numbers = (0..lines).filter_map(|number| u16::try_from(number).ok());
        return fs::write(corpus.join("whole"), numbers.flat_map(u16::to_le_bytes).collect::<Vec<_>>());
    }
    let mut files = vec![data.join("agentscope/samples.jsonl")];
    files.extend(jsonl(&data.join("agentscope/streams"))?);
    files.extend(jsonl(&data.join("demo"))?);
    for (file, path) in files.iter().enumerate() {
        // In pieces that fit an input; the first lines of a stream have the most variety.
        let text = fs::read_to_string(path)?;
        for (piece, lines) in text.lines().collect::<Vec<_>>().chunks(8).take(12).enumerate() {
            fs::write(corpus.join(format!("seed-{file}-{piece}")), lines.join("\n"))?;
        }
    }
    Ok(())
}

fn jsonl(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    Ok(files)
}

/// Reads what libFuzzer says at its end: `stat::number_of_executed_units: N`, and `cov: N … corp: N/NKb` in its last line
/// of progress.
fn read_log(target: &'static str, log: &str) -> Outcome {
    let executions = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let word_after = |name: &str| {
        let line = log.lines().rev().find(|line| line.contains(name))?;
        Some(line.split(name).nth(1)?.split_whitespace().next()?.to_owned())
    };
    Outcome {
        target,
        executions: executions.unwrap_or("?").trim().to_owned(),
        coverage: word_after("cov: ").unwrap_or_else(|| "?".to_owned()),
        corpus: word_after("corp: ").unwrap_or_else(|| "?".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuzzers_last_words_are_read() {
        let log = "#1\tINITED cov: 10 ft: 11 corp: 3/20b exec/s: 0 rss: 30Mb\n\
                   #99\tDONE   cov: 812 ft: 2000 corp: 341/52Kb lim: 900 exec/s: 3 rss: 90Mb\n\
                   stat::number_of_executed_units: 12345\n";
        let outcome = read_log("native", log);
        assert_eq!(
            (&*outcome.executions, &*outcome.coverage, &*outcome.corpus),
            ("12345", "812", "341/52Kb")
        );
        assert_eq!(read_log("native", "").executions, "?");
    }
}
