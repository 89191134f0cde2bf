//! Measures, prints the table, writes it as JSON and draws the plots.

use std::{fs, path::PathBuf, process::ExitCode};

use anabranch_bench::{
    floors,
    machine::Machine,
    measure::Scale,
    peers::Peers,
    report::{Report, Row},
    rows, scaling, why,
};
use clap::Parser;

/// Measures what the crates cost, beside floors and peers.
#[derive(Parser)]
struct Cli {
    /// Fewer events and rounds
    #[arg(long)]
    quick: bool,
    /// Only the rows of these budgets
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// A peer's program: `name=program arguments…`
    #[arg(long = "peer", value_name = "NAME=PROGRAM")]
    peers: Vec<String>,
    /// Why a peer is not there: `name=reason`
    #[arg(long = "absent", value_name = "NAME=WHY")]
    absent: Vec<String>,
    /// What forbids this budget
    #[arg(long, value_name = "ROW")]
    why: Option<String>,
    /// Where the table and the plots are written
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let scale = if cli.quick { Scale::QUICK } else { Scale::FULL };
    if let Some(row) = &cli.why {
        return explained(row, scale);
    }
    let mut peers = Peers::start(&cli.peers);
    for absent in &cli.absent {
        let (name, why) = absent.split_once('=').unwrap_or((absent, "not said"));
        peers.absent.insert(name.to_owned(), why.to_owned());
    }
    let mut report = Report {
        machine: Machine::this(),
        scale: if cli.quick { "quick" } else { "full" },
        floors: Vec::new(),
        rows: Vec::new(),
    };
    if cli.only.is_empty() {
        report.floors = floors::measure(scale);
    }
    println!("{}", report.head());
    for (id, measure) in TABLE {
        if cli.only.is_empty() || cli.only.iter().any(|only| only == id) {
            for row in measure(scale, &mut peers) {
                println!("{row}");
                report.rows.push(row);
            }
        }
    }
    print!("\n{}{}\n", peers.notes(), report.summary());
    println!();
    let plots = if cli.only.is_empty() { scaling::plots(scale) } else { Vec::new() };
    let written = fs::create_dir_all(&cli.out)
        .and_then(|()| {
            fs::write(
                cli.out.join("table.json"),
                serde_json::to_vec_pretty(&report).expect("it has a spelling"),
            )
        })
        .and_then(|()| fs::write(cli.out.join("table.md"), report.markdown()))
        .and_then(|()| {
            plots.iter().try_for_each(|plot| fs::write(cli.out.join(format!("{}.svg", plot.name)), &plot.svg))
        });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot write to {}: {error}", cli.out.display());
            ExitCode::FAILURE
        }
    }
}

/// Prints an experiment.
fn explained(row: &str, scale: Scale) -> ExitCode {
    if let Some((_, experiment)) = why::EXPERIMENTS.iter().find(|(name, _)| *name == row) {
        print!("{}", experiment(scale));
        return ExitCode::SUCCESS;
    }
    let known: Vec<_> = why::EXPERIMENTS.iter().map(|(name, _)| *name).collect();
    eprintln!("error: no experiment for the row `{row}`; there is one for: {}", known.join(", "));
    ExitCode::FAILURE
}

type Measure = fn(Scale, &mut Peers) -> Vec<Row>;

/// Every budget of the design, in its order.
const TABLE: &[(&str, Measure)] = &[
    ("merge", |scale, peers| rows::merge::rows(scale, peers)),
    ("own_tasks", |scale, _| rows::own_tasks::rows(scale)),
    ("depth", |scale, _| rows::depth::rows(scale)),
    ("children", |scale, _| rows::children::rows(scale)),
    ("duplicates", |scale, _| rows::duplicates::rows(scale)),
    ("driver", |scale, peers| rows::driver::rows(scale, peers)),
    ("encode", |scale, _| rows::encode::rows(scale)),
    ("read", |scale, _| rows::read::rows(scale)),
    ("spawn", |scale, peers| rows::spawn::rows(scale, peers)),
    ("http", |scale, _| rows::http::rows(scale)),
    ("cancel", |scale, _| rows::cancel::rows(scale)),
    ("memory", |_, _| rows::memory::rows()),
    ("linear", |scale, _| rows::linear::rows(scale)),
    ("durable", |scale, _| rows::durable::rows(scale)),
];
