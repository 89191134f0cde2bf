//! Lets a model checker step through every order in which threads can wake the merge's streams.
//!
//! It checks `merge.rs` itself, compiled beside [`sync`], whose atomics and locks are the checker's ([loom]'s): loom takes
//! every interleaving, and every value that a load may see under the memory model, where a random search would take some
//! of the former and none of the latter. Then it checks merges that lack something, made of the same file by `build.rs`:
//! each must fail, or the check proves nothing.

use std::{
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::Stream;

use crate::{children::Child, scenarios::Scenario};

mod children;
#[path = "../../src/merge.rs"]
mod merge;
#[path = "../../src/panics.rs"]
mod panics;
mod reader;
mod scenarios;
mod sync;

/// A merge, the real one or one that lacks something.
trait Merged: Stream<Item = u32> + Unpin + Default + 'static {
    fn push(&mut self, child: Child);
}

macro_rules! merged {
    ($($module:ident),*) => {$(
        impl Merged for $module::Merge<Child> {
            fn push(&mut self, child: Child) {
                self.push(child);
            }
        }
    )*};
}

merged!(merge);

/// A merge that lacks something.
struct Variant {
    lacks: &'static str,
    first_failure: fn() -> Option<Failure>,
}

struct Failure {
    scenario: &'static str,
    schedules: usize,
    message: String,
}

mod variants {
    use super::{Child, Merged, Variant, first_failure};

    include!(concat!(env!("OUT_DIR"), "/variants.rs"));
}

/// Takes every schedule; gives their number, and the message of the one that failed.
fn check<M: Merged>(scenario: &Scenario<M>) -> (usize, Result<(), String>) {
    let schedules = Arc::new(AtomicUsize::new(0));
    let (run, counter) = (scenario.run, Arc::clone(&schedules));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = scenario.interruptions;
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        builder.check(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            run(M::default());
        });
    }));
    let outcome = outcome.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("no message").to_owned(),
    });
    (schedules.load(Ordering::Relaxed), outcome)
}

/// The first scenario that shows what a merge lacks.
fn first_failure<M: Merged>() -> Option<Failure> {
    scenarios::all::<M>().iter().find_map(|scenario| {
        let (schedules, outcome) = check(scenario);
        outcome.err().map(|message| Failure { scenario: scenario.name, schedules, message })
    })
}

fn main() -> ExitCode {
    let mut is_good = true;
    println!("the merge");
    for scenario in scenarios::all::<merge::Merge<Child>>() {
        let (schedules, outcome) = check(&scenario);
        let verdict = if outcome.is_ok() { "holds" } else { "FAILS" };
        is_good &= outcome.is_ok();
        let extent = scenario.interruptions.map_or_else(
            || "all there are".to_owned(),
            |interruptions| format!("up to {interruptions} interruptions"),
        );
        println!("  {verdict}  {:<34} {schedules:>8} schedules, {extent}", scenario.name);
    }

    println!("merges that lack something");
    // These panic on purpose.
    panic::set_hook(Box::new(|_| {}));
    for Variant { lacks, first_failure } in variants::VARIANTS {
        let Some(Failure { scenario, schedules, message }) = first_failure() else {
            is_good = false;
            println!("  MISSED  {lacks}");
            continue;
        };
        // A schedule that is too long proves nothing: a merge that spins is not one that sleeps.
        let is_found = !message.starts_with("Model exceeded");
        is_good &= is_found;
        let verdict = if is_found { "found " } else { "UNSURE" };
        let how = message.split([';', '\n']).next().unwrap_or_default();
        println!("  {verdict}  {lacks}\n          ({scenario}, schedule {schedules}: {how})");
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
