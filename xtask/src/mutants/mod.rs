//! `cargo xtask mutants`: plants one fault after another into a copy of the workspace, and sees whether the simulator finds
//! each.

mod copy;
mod table;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::error::Error;
use crate::metadata::{Depth, Metadata};
use crate::mutants::copy::Copy;
use crate::mutants::table::{Mutant, TABLE};
use crate::process;

/// Which faults, and how hard they are looked for.
#[derive(Debug, Args)]
pub(crate) struct MutantsArgs {
    /// How many seeds each fault has to be found in
    #[arg(long, default_value_t = 2_000)]
    seeds: u32,
    /// Only faults with this in their name
    #[arg(long)]
    only: Option<String>,
}

/// What became of a fault.
enum Fate {
    /// The simulator's own words: which seed, by which check.
    Found(String),
    Missed,
    /// The copy does not compile, or the fault does not fit the source.
    Unfit(String),
}

/// Plants each fault, and prints how it was found; fails where one was not.
pub(crate) fn run(args: &MutantsArgs) -> Result<ExitCode, Error> {
    let metadata = Metadata::load(Depth::Members)?;
    let folder = metadata.target_directory.join("mutants");
    let copy = Copy::new(&metadata.workspace_root, &folder.join("source"))?;
    let chosen = |mutant: &&Mutant| args.only.as_ref().is_none_or(|only| mutant.name.contains(only.as_str()));
    if let Some(only) = &args.only
        && !TABLE.iter().any(|mutant| chosen(&mutant))
    {
        let known: Vec<_> = TABLE.iter().map(|mutant| mutant.name).collect();
        return Err(Error::Nothing { what: "fault", name: only.clone(), known: known.join("\n") });
    }
    let mut has_missed = false;
    for mutant in TABLE.iter().filter(chosen) {
        let fate = match copy.plant(mutant)? {
            Ok(planted) => {
                let fate = find(&copy, &folder.join("target"), args.seeds)?;
                planted.undo()?;
                fate
            }
            Err(why) => Fate::Unfit(why),
        };
        let (what, is_found) = match fate {
            Fate::Found(how) => (how, true),
            Fate::Missed => (format!("MISSED in {} seeds", args.seeds), false),
            Fate::Unfit(why) => (format!("UNFIT: {why}"), false),
        };
        has_missed |= !is_found;
        println!("{:<56} {what}", mutant.name);
    }
    Ok(if has_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Builds the simulator of the copy, and runs it.
fn find(copy: &Copy, target: &Path, seeds: u32) -> Result<Fate, Error> {
    let mut build = process::cargo();
    build.current_dir(copy.folder()).args(["build", "--quiet", "--profile", "simulate", "--locked"]);
    build.args(["-p", "anabranch-simulate", "--target-dir"]).arg(target).stderr(Stdio::piped());
    // One fault after another is built: that has to be fast, and the program need not be.
    build.env("CARGO_PROFILE_SIMULATE_OPT_LEVEL", "1").env("CARGO_PROFILE_SIMULATE_INCREMENTAL", "true");
    let output = build.output().map_err(|source| Error::Start { command: process::shown(&build), source })?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        let error = log.lines().find(|line| line.starts_with("error")).unwrap_or("it does not compile");
        return Ok(Fate::Unfit(error.to_owned()));
    }
    let program = target.join(format!("simulate/anabranch-simulate{}", std::env::consts::EXE_SUFFIX));
    let mut command = Command::new(program);
    command.args(["--no-shrink", "--seeds", &seeds.to_string()]).stderr(Stdio::null());
    let output =
        command.output().map_err(|source| Error::Start { command: process::shown(&command), source })?;
    if output.status.success() {
        return Ok(Fate::Missed);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let how =
        text.lines().next().and_then(found).unwrap_or_else(|| format!("it ended with {}", output.status));
    Ok(Fate::Found(how))
}

/// Reads `seed N fails: check: what`.
fn found(line: &str) -> Option<String> {
    let (seed, failure) = line.strip_prefix("seed ")?.split_once(" fails: ")?;
    let (check, what) = failure.split_once(": ")?;
    let what: String = what.chars().take(90).collect();
    Some(format!("found at seed {seed} by `{check}`: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulators_words_are_read() {
        assert_eq!(
            found("seed 7 fails: grammar: at 3: it is late").unwrap(),
            "found at seed 7 by `grammar`: at 3: it is late"
        );
        assert_eq!(found("seeds 2000"), None);
    }

    #[test]
    fn each_fault_fits_the_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for mutant in TABLE {
            let source = std::fs::read_to_string(root.join(mutant.file)).unwrap();
            let count = source.matches(mutant.old).count();
            assert_eq!(count, 1, "{}: its text is {count} times in {}", mutant.name, mutant.file);
            assert_ne!(mutant.old, mutant.new, "{}", mutant.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = TABLE.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), TABLE.len());
    }
}
