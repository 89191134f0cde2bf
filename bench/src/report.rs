//! Rows, how they are judged and how they are printed.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A ratio.
    Times,
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Kibibytes.
    Kib,
    /// Allocations.
    Allocations,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Times => "×",
            Self::Nanos => "ns",
            Self::Micros => "µs",
            Self::Millis => "ms",
            Self::Kib => "KiB",
            Self::Allocations => "allocations",
        })
    }
}

/// A number with its name: a floor, a peer, a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Named {
    /// What was measured.
    pub name: String,
    /// What it cost.
    pub value: f64,
    /// In what.
    pub unit: Unit,
}

/// How a row is judged.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// It may not be more.
    AtMost(f64),
    /// It may not be less.
    AtLeast(f64),
    /// It has no budget; it is shown.
    Shown,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within its budget.
    Pass,
    /// Not within its budget.
    Miss,
    /// Not judged.
    Shown,
    /// Not measured, and why is said.
    Absent,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which budget it belongs to; `--only` chooses by it.
    pub id: &'static str,
    /// What is measured.
    pub what: String,
    /// What is judged: a ratio, or a cost.
    pub value: f64,
    /// In what.
    pub unit: Unit,
    /// The budget.
    pub budget: Budget,
    /// Of what the numbers are: the item, and where it comes from.
    pub source: String,
    /// Ours, the floor, the peers.
    pub beside: Vec<Named>,
    /// Why it was not measured.
    pub absent: Option<String>,
}

impl Row {
    /// A row with a value to judge.
    pub fn new(id: &'static str, what: impl Into<String>, value: f64, unit: Unit, budget: Budget) -> Self {
        Self {
            id,
            what: what.into(),
            value,
            unit,
            budget,
            source: String::new(),
            beside: Vec::new(),
            absent: None,
        }
    }

    /// A row that was not measured.
    pub fn absent(id: &'static str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absent: Some(why.into()), ..Self::new(id, what, f64::NAN, Unit::Times, Budget::Shown) }
    }

    /// Of what the numbers are.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// With a number beside it.
    #[must_use]
    pub fn beside(mut self, name: impl Into<String>, value: f64, unit: Unit) -> Self {
        self.beside.push(Named { name: name.into(), value, unit });
        self
    }

    /// What became of it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.absent.is_some() {
            return Verdict::Absent;
        }
        let is_within = match self.budget {
            Budget::AtMost(most) => self.value <= most,
            Budget::AtLeast(least) => self.value >= least,
            Budget::Shown => return Verdict::Shown,
        };
        if is_within { Verdict::Pass } else { Verdict::Miss }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict() {
            Verdict::Pass => "pass",
            Verdict::Miss => "MISS",
            Verdict::Shown => "    ",
            Verdict::Absent => "----",
        };
        write!(f, "{verdict}  {:<13} {:<58}", self.id, self.what)?;
        if let Some(why) = &self.absent {
            return write!(f, " {why}");
        }
        write!(f, " {:>9} {:<3}", short(self.value), self.unit.to_string())?;
        match self.budget {
            Budget::AtMost(most) => write!(f, " ≤ {:<6}", short(most))?,
            Budget::AtLeast(least) => write!(f, " ≥ {:<6}", short(least))?,
            Budget::Shown => f.write_str("         ")?,
        }
        let beside = self
            .beside
            .iter()
            .map(|Named { name, value, unit }| format!("{name} {} {unit}", short(*value)))
            .collect::<Vec<_>>();
        write!(f, " {}", beside.join(", "))
    }
}

/// A number with as many places as say something.
#[must_use]
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A building block that was surveyed before: what it cost then, beside what it costs now.
#[derive(Clone, Debug, Serialize)]
pub struct Floor {
    /// What it is.
    pub name: &'static str,
    /// What it costs here, in nanoseconds.
    pub nanos: f64,
    /// What it cost in the survey, in nanoseconds.
    pub surveyed: f64,
}

/// How much slower than surveyed a floor may be.
const SLOWEST: f64 = 1.5;

impl Floor {
    /// Whether the bench does something else than the survey did, or the machine is another: nothing that stands over it
    /// would mean much.
    #[must_use]
    pub fn is_defect(&self) -> bool {
        self.nanos > SLOWEST * self.surveyed
    }
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// On what.
    pub machine: Machine,
    /// How: `full` or `quick`.
    pub scale: &'static str,
    /// The building blocks.
    pub floors: Vec<Floor>,
    /// The table.
    pub rows: Vec<Row>,
}

impl Report {
    /// The head and the floors, for people.
    #[must_use]
    pub fn head(&self) -> String {
        let Machine { cpu, cores, rustc, kernel, load } = &self.machine;
        let mut text = format!("{cpu}, {cores} cores, {rustc}, {kernel}, load {load}\n\n");
        text.push_str("floors                                             here   surveyed\n");
        for floor in &self.floors {
            let verdict = if floor.is_defect() { "  DEFECT of the bench, or another machine" } else { "" };
            let Floor { name, nanos, surveyed } = floor;
            writeln!(text, "  {name:<46} {:>7} {:>7} ns{verdict}", short(*nanos), short(*surveyed))
                .expect("it is a string");
        }
        text
    }

    /// The floors and the table, for a page.
    #[must_use]
    pub fn markdown(&self) -> String {
        let Machine { cpu, cores, rustc, kernel, load } = &self.machine;
        let mut text = String::new();
        let mut put = |line: fmt::Arguments<'_>| writeln!(text, "{line}").expect("it is a string");
        put(format_args!("{cpu}, {cores} cores, {rustc}, {kernel}; load {load} when it began.\n"));
        put(format_args!("| | what | budget | measured | beside |\n|---|---|---|---|---|"));
        for row in &self.rows {
            let Row { what, value, unit, budget, beside, absent, .. } = row;
            let verdict = match row.verdict() {
                Verdict::Pass => "pass",
                Verdict::Miss => "**MISS**",
                Verdict::Shown | Verdict::Absent => "",
            };
            let budget = match budget {
                Budget::AtMost(most) => format!("≤ {} {unit}", short(*most)),
                Budget::AtLeast(least) => format!("≥ {} {unit}", short(*least)),
                Budget::Shown => String::new(),
            };
            let measured = absent.clone().unwrap_or_else(|| format!("{} {unit}", short(*value)));
            let beside: Vec<_> = beside
                .iter()
                .map(|Named { name, value, unit }| format!("{name} {} {unit}", short(*value)))
                .collect();
            put(format_args!("| {verdict} | {what} | {budget} | {measured} | {} |", beside.join(", ")));
        }
        put(format_args!("\n| floor | here | surveyed |\n|---|---|---|"));
        for Floor { name, nanos, surveyed } in &self.floors {
            put(format_args!("| {name} | {} ns | {} ns |", short(*nanos), short(*surveyed)));
        }
        text
    }

    /// How many rows have which verdict, for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |verdict| self.rows.iter().filter(|row| row.verdict() == verdict).count();
        let defects = self.floors.iter().filter(|floor| floor.is_defect()).count();
        format!(
            "{} pass, {} MISS, {} shown, {} not measured; {defects} floors slower than surveyed",
            count(Verdict::Pass),
            count(Verdict::Miss),
            count(Verdict::Shown),
            count(Verdict::Absent),
        )
    }
}
