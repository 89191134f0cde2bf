//! `cargo xtask bench`: builds the bench, a workspace of its own, and runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::error::Error;
use crate::interop;
use crate::metadata::{Depth, Metadata};
use crate::process;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Fewer events and rounds, and none of the peers: shows that all of it works, and roughly where things stand
    #[arg(long)]
    quick: bool,
    /// Only the rows of these budgets
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Puts the table and the plots into `docs/performance.md`; to be done on a quiet machine
    #[arg(long, conflicts_with_all = ["quick", "only", "why"])]
    record: bool,
    /// Shows by an experiment what forbids a budget, and measures nothing else
    #[arg(long, value_name = "ROW", conflicts_with_all = ["quick", "only"])]
    why: Option<String>,
}

/// Others' libraries in Rust, each a program of its own.
const PEERS: [&str; 2] = ["rig", "adk"];

/// Prints the table; a row that misses its budget is printed so and fails nothing, for time is no gate.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, Error> {
    let metadata = Metadata::load(Depth::Members)?;
    let (root, target) = (&metadata.workspace_root, metadata.target_directory.join("bench"));
    process::output(&mut build(root, &target, "anabranch-bench"))?;
    process::output(&mut build(root, &target, "anabranch-bench-memory"))?;
    let mut command = Command::new(target.join("release/anabranch-bench"));
    command.arg("--out").arg(target.join("results"));
    if let Some(row) = &args.why {
        command.args(["--why", row]);
    } else if args.quick {
        command.arg("--quick");
    } else {
        ask_peers(&mut command, root, &target)?;
    }
    for only in &args.only {
        command.args(["--only", only]);
    }
    let passed = process::status(&mut command)?.success();
    if args.why.is_none() {
        println!("the table as JSON and as a page's, and plots: target/bench/results/");
    }
    if passed && args.record {
        record(root, &target.join("results"))?;
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds others' libraries and tells the bench where they are, or why they are not.
fn ask_peers(command: &mut Command, root: &Path, target: &Path) -> Result<(), Error> {
    for name in PEERS {
        let package = format!("anabranch-bench-{name}");
        if process::status(&mut build(root, target, &package))?.success() {
            let program = target.join("release").join(package);
            command.arg("--peer").arg(format!("{name}={}", program.display()));
        } else {
            command.arg("--absent").arg(format!("{name}=it could not be built"));
        }
    }
    let folder = root.join("bench/peers/agentscope");
    match interop::environment(&target.join("agentscope"), &folder.join("requirements.txt")) {
        Ok(python) => {
            let line = format!("agentscope={} {}", python.display(), folder.join("peer.py").display());
            command.arg("--peer").arg(line);
        }
        Err(why) => _ = command.arg("--absent").arg(format!("agentscope={why}")),
    }
    Ok(())
}

/// The page that says what was measured, and the folder of its plots.
const PAGE: &str = "docs/performance.md";
const PLOTS: &str = "docs/performance";

/// What stands around the table on the page.
const AROUND: [&str; 2] = ["<!-- cargo xtask bench --record writes from here -->\n", "<!-- to here -->"];

/// Puts the table on its page, and the plots beside it.
fn record(root: &Path, results: &Path) -> Result<(), Error> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|source| Error::Read { path: path.display().to_string(), source })
    };
    let (page, table) = (read(&root.join(PAGE))?, read(&results.join("table.md"))?);
    let text = between(&page, &table).ok_or_else(|| Error::Unreadable {
        command: "cargo xtask bench --record".to_owned(),
        output: page.clone(),
    })?;
    let unwritten = |source| Error::Write { path: PAGE.to_owned(), source };
    fs::write(root.join(PAGE), text).map_err(unwritten)?;
    fs::create_dir_all(root.join(PLOTS)).map_err(unwritten)?;
    for entry in fs::read_dir(results).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "svg") {
            fs::copy(entry.path(), root.join(PLOTS).join(entry.file_name())).map_err(unwritten)?;
        }
    }
    println!("written: {PAGE} and {PLOTS}/");
    Ok(())
}

/// The page with the table where its marks are.
fn between(page: &str, table: &str) -> Option<String> {
    let [from, to] = AROUND;
    let (before, rest) = page.split_once(from)?;
    let (_, after) = rest.split_once(to)?;
    Some(format!("{before}{from}\n{}\n\n{to}{after}", table.trim()))
}

/// A package of the bench's workspace, each built alone: what one peer asks of a shared dependency changes no other.
fn build(root: &Path, target: &Path, package: &str) -> Command {
    let mut build = process::cargo();
    build.args(["build", "--release", "--locked", "-p", package]);
    build.arg("--manifest-path").arg(root.join("bench/Cargo.toml")).arg("--target-dir").arg(target);
    build
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_between_its_marks() {
        let [from, to] = AROUND;
        let page = format!("above\n{from}old\n{to}\nbelow\n");
        let written = between(&page, "| a |\n").unwrap();
        assert_eq!(written, format!("above\n{from}\n| a |\n\n{to}\nbelow\n"));
        assert_eq!(between(&written, "| a |").unwrap(), written);
        assert_eq!(between("no marks", "| a |"), None);
    }
}
