//! Time, and turns.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How often each case has its turn.
    pub rounds: usize,
    /// How many events a turn has.
    pub events: usize,
}

impl Scale {
    /// What a table to be read takes.
    pub const FULL: Self = Self { rounds: 9, events: 200_000 };
    /// What shows that the bench works, and roughly where things stand.
    pub const QUICK: Self = Self { rounds: 5, events: 40_000 };

    /// The same with another number of rounds.
    #[must_use]
    pub fn rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }
}

/// The CPU time of this process, in nanoseconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a run takes seconds, which a float holds to the nanosecond")]
pub fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// How many nanoseconds of CPU time an item takes.
#[expect(clippy::cast_precision_loss, reason = "a few millions at most")]
pub fn per_item<T>(items: usize, work: impl FnOnce() -> T) -> f64 {
    let before = cpu();
    std::hint::black_box(work());
    (cpu() - before) / items as f64
}

/// How many nanoseconds on the wall something takes.
#[expect(clippy::cast_precision_loss, reason = "a run takes seconds")]
pub fn wall<T>(work: impl FnOnce() -> T) -> f64 {
    let before = Instant::now();
    std::hint::black_box(work());
    before.elapsed().as_nanos() as f64
}

/// What the cases gave in each round.
#[derive(Clone, Debug)]
pub struct Series(Vec<Vec<f64>>);

/// One case: does its work once and says what an item cost.
pub type Case<'a> = &'a mut dyn FnMut() -> f64;

/// Runs the cases turn about: once to warm up, then as many rounds as the scale has. Each round begins with another case,
/// so that none always has what the one before left in the caches.
pub fn in_turn(rounds: usize, cases: &mut [Case<'_>]) -> Series {
    for case in &mut *cases {
        case();
    }
    let mut series = vec![Vec::with_capacity(rounds); cases.len()];
    for round in 0..rounds {
        for offset in 0..cases.len() {
            let index = (round + offset) % cases.len();
            series[index].push(cases[index]());
        }
    }
    Series(series)
}

/// A case by its name, of others' libraries.
pub type Other<'a> = (String, Box<dyn FnMut() -> f64 + 'a>);

/// Runs ours and others' turn about; the others come after ours in the series. Theirs take longer, so where there are any
/// there are no more than five rounds.
pub fn in_turn_beside(rounds: usize, ours: &mut [Case<'_>], others: &mut [Other<'_>]) -> Series {
    let rounds = if others.is_empty() { rounds } else { rounds.min(5) };
    let ours = ours.iter_mut().map(|case| &mut **case as Case<'_>);
    let mut cases: Vec<_> = ours.chain(others.iter_mut().map(|(_, case)| &mut **case as Case<'_>)).collect();
    in_turn(rounds, &mut cases)
}

impl Series {
    /// The median cost of a case.
    #[must_use]
    pub fn median(&self, case: usize) -> f64 {
        median(self.0[case].clone())
    }

    /// The median of one case's cost over another's, round by round.
    #[must_use]
    pub fn ratio(&self, case: usize, floor: usize) -> f64 {
        median(self.0[case].iter().zip(&self.0[floor]).map(|(case, floor)| case / floor).collect())
    }

    /// The median of what one case costs more than another, round by round.
    #[must_use]
    pub fn difference(&self, case: usize, less: usize) -> f64 {
        median(self.0[case].iter().zip(&self.0[less]).map(|(case, less)| case - less).collect())
    }
}

/// The value in the middle.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A runtime on this thread, as `#[tokio::main(flavor = "current_thread")]` makes it.
#[must_use]
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built")
}
