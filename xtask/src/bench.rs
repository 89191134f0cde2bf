//! `cargo xtask bench`: builds the bench, a workspace of its own, and runs it.

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
        println!("the table as JSON, and plots: target/bench/results/");
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

/// A package of the bench's workspace, each built alone: what one peer asks of a shared dependency changes no other.
fn build(root: &Path, target: &Path, package: &str) -> Command {
    let mut build = process::cargo();
    build.args(["build", "--release", "--locked", "-p", package]);
    build.arg("--manifest-path").arg(root.join("bench/Cargo.toml")).arg("--target-dir").arg(target);
    build
}
