//! `anabranch-simulate`: runs seeds, and shrinks the first that fails.

use std::{
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anabranch_simulate::{
    Failure, catch_panics, check,
    plan::{Plan, generate},
    report::{Summary, outline, transcript},
    run,
    shrink::shrink,
};
use clap::Parser;

/// Runs seeded random conversations of agents that misbehave and checks each.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print the plan and the transcript of one seed, and what its checks find
    #[arg(long)]
    trace: Option<u64>,
    /// Whether to leave a failing plan as it is
    #[arg(long)]
    no_shrink: bool,
    /// How many threads
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

/// After how long a seed hangs, by the clock on the wall: seeds take milliseconds.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// How many lines of a transcript are printed.
const LINES: usize = 120;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    catch_panics();
    match arguments.trace {
        Some(seed) => trace(seed),
        None => simulate(&arguments),
    }
}

/// Runs a plan and checks what happened.
fn fails(plan: &Plan) -> Option<Failure> {
    check(plan, &run(plan)).err()
}

fn trace(seed: u64) -> ExitCode {
    let plan = generate(seed);
    let record = run(&plan);
    println!("{}", outline(&plan));
    println!("{}", transcript(&record).join("\n"));
    match check(&plan, &record) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("\n{failure}");
            ExitCode::FAILURE
        }
    }
}

/// What the threads share.
struct Shared {
    next: AtomicU64,
    summary: Mutex<Summary>,
    /// The failing seed that is the least so far.
    failure: Mutex<Option<(u64, Failure)>>,
    is_over: AtomicBool,
    /// What each thread is at, and since when.
    at: Mutex<Vec<Option<(u64, Instant)>>>,
}

fn simulate(arguments: &Arguments) -> ExitCode {
    let start = Instant::now();
    let threads = usize::try_from(arguments.threads).unwrap_or(1).max(1);
    let shared = Shared {
        next: AtomicU64::new(arguments.from),
        summary: Mutex::default(),
        failure: Mutex::default(),
        is_over: AtomicBool::new(false),
        at: Mutex::new(vec![None; threads]),
    };
    let end = arguments.from.saturating_add(arguments.seeds);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let shared = &shared;
                scope.spawn(move || work(shared, thread, end))
            })
            .collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
            let at = shared.at.lock().unwrap_or_else(PoisonError::into_inner);
            let hung = at.iter().flatten().find(|(_, since)| since.elapsed() > HANGS_AFTER);
            if let Some((seed, _)) = hung {
                println!(
                    "seed {seed} fails: hang: {} s passed by the clock on the wall",
                    HANGS_AFTER.as_secs()
                );
                println!("{}", outline(&generate(*seed)));
                // The thread cannot be stopped.
                std::process::exit(1);
            }
        }
    });
    let failure = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((seed, failure)) = failure {
        report(seed, &failure, arguments.no_shrink);
        return ExitCode::FAILURE;
    }
    let summary = shared.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{}", summary.table(start.elapsed()));
    println!("every check holds in every run");
    ExitCode::SUCCESS
}

fn work(shared: &Shared, thread: usize, end: u64) {
    let mut summary = Summary::default();
    while !shared.is_over.load(Ordering::Relaxed) {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            break;
        }
        note(shared, thread, Some((seed, Instant::now())));
        let plan = generate(seed);
        let record = run(&plan);
        if let Err(failure) = check(&plan, &record) {
            shared.is_over.store(true, Ordering::Relaxed);
            let mut least = shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
            if least.as_ref().is_none_or(|(other, _)| seed < *other) {
                *least = Some((seed, failure));
            }
            break;
        }
        summary.add(&plan, &record);
    }
    note(shared, thread, None);
    shared.summary.lock().unwrap_or_else(PoisonError::into_inner).merge(summary);
}

fn note(shared: &Shared, thread: usize, at: Option<(u64, Instant)>) {
    if let Some(place) = shared.at.lock().unwrap_or_else(PoisonError::into_inner).get_mut(thread) {
        *place = at;
    }
}

/// Prints a failing seed, its least plan and the transcript of that.
fn report(seed: u64, failure: &Failure, no_shrink: bool) {
    println!("seed {seed} fails: {failure}");
    let plan = generate(seed);
    let least = if no_shrink {
        plan
    } else {
        shrink(&plan, |plan| fails(plan).is_some_and(|other| other.check == failure.check))
    };
    let record = run(&least);
    println!("\nthe least plan that was found to fail so:\n{}", outline(&least));
    let lines = transcript(&record);
    for line in lines.iter().take(LINES) {
        println!("{line}");
    }
    if lines.len() > LINES {
        println!("      {} more", lines.len() - LINES);
    }
    if let Err(failure) = check(&least, &record) {
        println!("\n{failure}");
    }
    println!("\nagain with: cargo xtask simulate --trace {seed}");
}
