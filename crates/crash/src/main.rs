//! `anabranch-crash`: kills a server in mid-work, again and again, and checks that nothing that a reader saw is lost.
//!
//! Three kinds of process, all of them this program: one plays, kills and judges; one is the [server](serve); one
//! [reads](read). It is **not** part of anything that is published.

mod agents;
mod campaign;
mod drive;
mod judge;
mod mode;
mod moment;
mod plant;
mod processes;
mod random;
mod read;
mod report;
mod say;
mod seen;
mod serve;
mod trap;

use std::{error::Error, fs, path::PathBuf, process::ExitCode, time::Instant};

use clap::{Parser, Subcommand};

use crate::{
    campaign::{Campaign, Failure},
    mode::Mode,
    moment::Deck,
    random::Random,
    report::Report,
};

/// Kills a server in mid-work, again and again, and checks that nothing that a reader saw is lost.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many rounds: a kill of a server at work, restarts, and a look at all that is there
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..))]
    rounds: u64,
    /// What decides about the moments, as far as the machine lets it
    #[arg(long)]
    seed: Option<u64>,
    /// Only with the store opened so
    #[arg(long)]
    mode: Option<Mode>,
    #[command(subcommand)]
    process: Option<Process>,
}

/// What else this program is.
#[derive(Debug, Subcommand)]
enum Process {
    /// The server
    #[command(hide = true)]
    Serve(serve::Serve),
    /// The reader
    #[command(hide = true)]
    Read(read::Read),
}

/// The most rounds over one file.
const ROUNDS_OF_FILE: u64 = 10;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match arguments.process {
        Some(Process::Serve(options)) => serve::serve(options).await,
        Some(Process::Read(options)) => read::read(options).await,
        None => crash(&arguments).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn crash(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { rounds, seed, mode, .. } = *arguments;
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}: {rounds} rounds, 8 sessions");
    let begun = Instant::now();
    let folder = tempfile::tempdir()?;
    let mut report = Report::default();
    if let Err(findings) = play(rounds, seed, mode, folder.path().to_owned(), &mut report).await {
        let kept = folder.keep();
        println!("{}", report.table(begun.elapsed()));
        for finding in findings.iter().take(20) {
            println!("finding in round {}: {finding}", report.rounds);
        }
        let mode = mode.map(|mode| format!(" --mode {}", mode.name())).unwrap_or_default();
        println!("the files are in {}", kept.display());
        println!("again with: cargo xtask crash --rounds {rounds} --seed {seed}{mode}");
        return Err(format!("{} findings", findings.len()).into());
    }
    println!("\n{}", report.table(begun.elapsed()));
    if !report.is_enough() {
        return Err("too few kills came between an append and its delivery to say anything".into());
    }
    println!("every check holds after every kill");
    Ok(())
}

async fn play(
    rounds: u64,
    seed: u64,
    only: Option<Mode>,
    folder: PathBuf,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut random = Random::new(seed);
    let modes = only.map_or(Mode::ALL.to_vec(), |mode| vec![mode]);
    let of_file = (rounds / modes.len() as u64).clamp(1, ROUNDS_OF_FILE);
    let mut left = rounds;
    let mut deck = Deck::default();
    for (number, mode) in modes.iter().cycle().enumerate() {
        let now = if left < 2 * of_file { left } else { of_file };
        let place = folder.join(format!("{number}-{}", mode.name()));
        fs::create_dir_all(&place).map_err(|error| vec![error.to_string()])?;
        Campaign::new(*mode, place, Random::new(random.number()), &mut deck, report).play(now).await?;
        left -= now;
        if left == 0 {
            break;
        }
    }
    Ok(())
}
