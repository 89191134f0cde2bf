//! The report's figures, against a computation that shares no code with the demo.

use std::{fmt::Write as _, fs, path::PathBuf};

use crate::common::{Events, Report, Section, assert_figures_were_given, events_of, folder};
use anabranch_demo::{Node, Plan};
use anabranch_proto::Outcome;
use proptest::prelude::*;

/// A file as it was made: columns of hundredths, or none where the column is text.
#[derive(Clone, Debug)]
struct Made {
    rows: usize,
    columns: Vec<Option<Vec<Option<i64>>>>,
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

impl Made {
    fn new(rows: usize, kinds: &[bool], seed: u64) -> Self {
        let mut random = Random(seed);
        let mut column = |is_numeric: bool| {
            let scale = 10_u64.pow(1 + u32::try_from(random.below(8)).unwrap());
            let mut cell = |row| {
                let number = i64::try_from(random.below(scale)).unwrap() - i64::try_from(scale / 3).unwrap();
                (row == 0 || random.below(10) > 0).then_some(number)
            };
            is_numeric.then(|| (0..rows).map(&mut cell).collect())
        };
        let first = column(true);
        Self { rows, columns: std::iter::once(first).chain(kinds.iter().map(|kind| column(*kind))).collect() }
    }

    fn name(column: usize) -> String {
        format!("column_{column}")
    }

    fn text(&self) -> String {
        let mut text = (0..self.columns.len()).map(Self::name).collect::<Vec<_>>().join(",") + "\r\n";
        for row in 0..self.rows {
            for (index, column) in self.columns.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                match column.as_ref().map(|column| column[row]) {
                    None => write!(text, "{comma}\"text, {row}\""),
                    Some(None) => write!(text, "{comma} "),
                    Some(Some(cell)) => {
                        let sign = if cell < 0 { "-" } else { "" };
                        write!(text, "{comma}{sign}{}.{:02}", cell.abs() / 100, cell.abs() % 100)
                    }
                }
                .unwrap();
            }
            text.push_str("\r\n");
        }
        text
    }

    /// The numbers of a column, in hundredths.
    fn numbers(&self, column: usize) -> Option<Vec<i64>> {
        Some(self.columns[column].as_ref()?.iter().flatten().copied().collect())
    }
}

#[expect(clippy::cast_precision_loss, reason = "sums of 50,000 numbers below 10^9 are exact")]
fn as_float(number: i64) -> f64 {
    number as f64
}

fn mean(numbers: &[i64]) -> f64 {
    as_float(numbers.iter().sum()) / 100.0 / as_float(i64::try_from(numbers.len()).unwrap())
}

/// The shortest spelling of a number of hundredths.
fn hundredths(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:02}", number.abs() / 100, number.abs() % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn is_rounded(figure: &str, exact: f64) -> bool {
    let error = (figure.parse::<f64>().unwrap() - exact).abs();
    // Four significant digits or two decimals, whichever says more.
    error <= f64::min(0.005, exact.abs() * 0.000_5) * (1.0 + 1e-9) + 1e-12
}

/// The section says of each column what the numbers say.
fn check(section: &Section, made: &Made) {
    let numeric = (0..made.columns.len()).filter(|column| made.columns[*column].is_some());
    let is_note = section.lines.last().unwrap()[0].starts_with("not numeric: ");
    assert_eq!(is_note, numeric.clone().count() < made.columns.len());
    let lines = section.lines.len() - 1 - usize::from(is_note);
    assert_eq!(lines, numeric.clone().count(), "one line per numeric column");
    for column in numeric {
        let numbers = made.numbers(column).unwrap();
        let figures = section.figures(&Made::name(column));
        let [count, sum, average, min, max] = figures[..] else { panic!("{figures:?}") };
        assert_eq!(sum, hundredths(numbers.iter().sum()), "to the last digit");
        assert_eq!(count, numbers.len().to_string());
        assert!(is_rounded(average, mean(&numbers)), "{average} is not {}", mean(&numbers));
        for (figure, exact) in [(min, numbers.iter().min()), (max, numbers.iter().max())] {
            assert_eq!(figure, hundredths(*exact.unwrap()));
        }
    }
}

fn check_comparison(events: &Events, left: &Made, right: &Made) {
    let report = events.report();
    for column in 0..left.columns.len().min(right.columns.len()) {
        let (Some(left), Some(right)) = (left.numbers(column), right.numbers(column)) else { continue };
        let section = report.section("n3");
        let figures = section.figures(&Made::name(column));
        let [ours, theirs, difference] = figures[..] else { panic!("{figures:?}") };
        let (left, right) = (mean(&left), mean(&right));
        assert!(is_rounded(ours, left) && is_rounded(theirs, right));
        let printed = |figure: &str| figure.parse::<f64>().unwrap();
        let error = (printed(difference) - (printed(theirs) - printed(ours))).abs();
        assert!(
            error <= (left.abs() + right.abs()) * 1e-15,
            "{difference} is not {theirs} - {ours}, as they are printed"
        );
    }
}

fn write(name: &str, made: [&Made; 2]) -> (PathBuf, [PathBuf; 2]) {
    let folder = folder(name);
    let files = ["one.csv", "two.csv"].map(|name| folder.join(name));
    for (file, made) in files.iter().zip(made) {
        fs::write(file, made.text()).unwrap();
    }
    (folder, files)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_figures_are_those_of_an_independent_computation(
        sizes in prop_oneof![(1_usize..4, 1_usize..4), (1_usize..2_000, 1_usize..2_000), (49_000_usize..=50_000, 1_usize..300)],
        kinds in proptest::array::uniform2(proptest::collection::vec(any::<bool>(), 0..4)),
        seed: u64,
        fan: bool,
    ) {
        let left = Made::new(sizes.0, &kinds[0], seed);
        let right = Made::new(sizes.1, &kinds[1], !seed);
        let (folder, files) = write("figures", [&left, &right]);
        let plan = Plan::new().inputs(files).out(folder);
        let events = events_of(if fan { plan.fan(Node::N2) } else { plan });
        prop_assert_eq!(events.outcome(), Outcome::Completed);
        let report = events.report();
        check(report.section("n1"), &left);
        if !fan {
            check(report.section("n2"), &right);
            check_comparison(&events, &left, &right);
        }
        assert_figures_were_given(&events);
    }
}

#[test]
fn a_changed_row_changes_its_figure_and_no_other() {
    let made = Made::new(600, &[true, true], 7);
    let (folder, files) = write("changed", [&made, &made]);
    let report = || events_of(Plan::new().inputs(files.clone()).out(folder.clone())).report();
    let before = report();
    let mut changed = made.clone();
    changed.columns[1].as_mut().unwrap()[431] = Some(99_999_999_999);
    fs::write(&files[0], changed.text()).unwrap();
    let after = report();
    check(after.section("n1"), &changed);
    let figures = |report: &Report, node: &str, column: usize| -> Vec<String> {
        report.section(node).figures(&Made::name(column)).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(figures(&after, "n1", 1)[4], "999999999.99");
    assert_ne!(figures(&after, "n1", 1)[1], figures(&before, "n1", 1)[1]);
    for (node, column) in [("n1", 0), ("n1", 2), ("n2", 0), ("n2", 1), ("n2", 2)] {
        assert_eq!(figures(&after, node, column), figures(&before, node, column));
    }
}

/// However little it changes: the sum has all digits.
#[test]
fn a_row_that_changes_the_mean_by_nothing_that_is_shown_changes_the_sum() {
    let folder = folder("changed-little");
    let files = ["one.csv", "two.csv"].map(|name| folder.join(name));
    let report = |last: &str| {
        for file in &files {
            fs::write(file, format!("a\n12345678901234567\n{last}\n0.25\n")).unwrap();
        }
        events_of(Plan::new().inputs(files.clone()).out(folder.clone())).report()
    };
    assert_eq!(report("1").section("n1").figures("a")[1], "12345678901234568.25");
    assert_eq!(report("1.001").section("n1").figures("a")[1], "12345678901234568.251");
}

#[test]
fn the_embedded_data_gives_the_figures_that_other_programs_give() {
    // Computed with Python's `fractions` and `statistics` from the package's `weather.csv`, then rounded as the demo does.
    let report = events_of(Plan::new().out(folder("embedded"))).report();
    for (node, column, expected) in [
        ("n1", "precipitation", ["1461", "4426", "3.029", "0", "55.9"]),
        ("n1", "temp_max", ["1461", "24017.5", "16.44", "-1.6", "35.6"]),
        ("n1", "temp_min", ["1461", "12031", "8.235", "-7.1", "18.3"]),
        ("n1", "wind", ["1461", "4735.3", "3.241", "0.4", "9.5"]),
        ("n2", "precipitation", ["1461", "4178.6", "2.86", "0", "118.9"]),
        ("n2", "temp_max", ["1461", "24981.9", "17.1", "-7.7", "37.8"]),
        ("n2", "temp_min", ["1461", "13134.2", "8.99", "-16", "26.7"]),
        ("n2", "wind", ["1461", "7248.2", "4.961", "0.9", "16.2"]),
    ] {
        assert_eq!(report.section(node).figures(column), expected);
    }
}
