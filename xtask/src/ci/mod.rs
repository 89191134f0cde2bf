//! `cargo xtask ci`: one command that proves a change. It stops at the first step that fails and says how to repeat it.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::ci::steps::Action;
use crate::error::Error;
use crate::metadata::{Depth, Metadata};
use crate::{process, tidy};

mod changed;
mod steps;

/// How much to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it, as the continuous integration does.
    Full,
    /// What differs from the last commit, and what depends on it.
    Quick,
}

/// Runs the steps one after the other, then prints how long each took.
pub(crate) fn run(extent: Extent) -> Result<ExitCode, Error> {
    let metadata = Metadata::load(Depth::Members)?;
    let steps = match extent {
        Extent::Full => steps::full(&metadata.members()),
        Extent::Quick => steps::quick(&changed::packages(&metadata)?),
    };

    let mut done = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        println!("\n== [{}/{}] {}: {}", number + 1, steps.len(), step.name, step.command_line());
        let begun = now();
        let outcome = perform(&step.action, &metadata)?;
        let took = begun.elapsed();
        println!("== {}: {} in {}", step.name, outcome.word(), seconds(took));
        done.push((step.name.as_str(), outcome, took));
        if outcome == Outcome::Failed {
            print!("{}", summary(&done));
            println!("\nfailed: {}\nrepeat: {}", step.name, step.command_line());
            return Ok(ExitCode::FAILURE);
        }
    }
    print!("{}", summary(&done));
    Ok(ExitCode::SUCCESS)
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
        }
    }
}

fn perform(action: &Action, metadata: &Metadata) -> Result<Outcome, Error> {
    let passed = match action {
        Action::Cargo { arguments, environment } => {
            let mut command: Command = process::cargo();
            command
                .args(arguments)
                .envs(environment.iter().copied())
                // It would turn a snapshot that differs into one that passes.
                .env_remove("INSTA_FORCE_PASS")
                .current_dir(&metadata.workspace_root);
            process::status(&mut command)?.success()
        }
        Action::Tidy => tidy::check(&Metadata::load(Depth::Everything)?)? == tidy::Verdict::Clean,
    };
    Ok(if passed { Outcome::Passed } else { Outcome::Failed })
}

#[expect(clippy::disallowed_methods, reason = "a step's duration is told to a person and decides nothing")]
fn now() -> Instant {
    Instant::now()
}

fn summary(done: &[(&str, Outcome, Duration)]) -> String {
    let width = done.iter().map(|(name, ..)| name.len()).max().unwrap_or_default().max("total".len());
    let line = |name: &str, word: &str, took: Duration| {
        let seconds = seconds(took);
        format!("{name:width$}  {word:6}  {seconds:>8}\n")
    };
    let lines = done.iter().map(|&(name, outcome, took)| line(name, outcome.word(), took));
    let total = done.iter().map(|(.., took)| *took).sum();
    ["\n".to_owned()].into_iter().chain(lines).chain([line("total", "", total)]).collect()
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_each_step_and_the_sum() {
        let done = [
            ("fmt", Outcome::Passed, Duration::from_millis(1200)),
            ("check anabranch-proto", Outcome::Failed, Duration::from_millis(61_040)),
        ];
        let expected = "
fmt                    passed     1.2 s
check anabranch-proto  FAILED    61.0 s
total                            62.2 s
";
        assert_eq!(summary(&done), expected);
    }
}
