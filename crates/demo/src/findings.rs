//! What a worker says in the end, and how it is read again.
//!
//! Agents speak in text. A worker's last text is lines that a person reads and that another agent finds every figure
//! in; nothing else travels from one agent to the next.

use std::fmt;

use crate::{
    columns::ColumnFigures,
    figure::Figure,
    tools::{Filtered, Selection},
};

/// What a worker found in a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Findings {
    pub(crate) filtered: Filtered,
    pub(crate) columns: Vec<ColumnFigures>,
    /// The name of the file that the result was written to.
    pub(crate) written: String,
    /// Which columns are not numeric, and why.
    pub(crate) left_out: Option<String>,
}

/// What stands before the columns that were left out. No column's name begins with a space.
const LEFT_OUT: &str = "  not numeric: ";

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Filtered { file, rows, of, kept } = &self.filtered;
        writeln!(f, "{file}, {rows}: {kept} of {of} kept, written to {}", self.written)?;
        if let Some(left_out) = &self.left_out {
            writeln!(f, "{LEFT_OUT}{left_out}")?;
        }
        f.write_str(&columns_text(&self.columns))
    }
}

impl Findings {
    /// Reads a worker's last text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (first, columns) = text.split_once('\n')?;
        let (left_out, columns) = match columns.strip_prefix(LEFT_OUT) {
            None => (None, columns),
            Some(rest) => {
                let (left_out, columns) = rest.split_once('\n').unwrap_or((rest, ""));
                (Some(left_out.to_owned()), columns)
            }
        };
        let (counted, written) = first.rsplit_once(" kept, written to ")?;
        Some(Self {
            filtered: parse_filtered(counted)?,
            columns: parse_columns(columns)?,
            written: written.to_owned(),
            left_out,
        })
    }
}

fn parse_filtered(line: &str) -> Option<Filtered> {
    let (rest, counts) = line.rsplit_once(": ")?;
    let (file, rows) = rest.strip_suffix(" rows")?.rsplit_once(", ")?;
    let rows =
        [Selection::All, Selection::Odd, Selection::Even].into_iter().find(|known| known.as_str() == rows)?;
    let (kept, of) = counts.split_once(" of ")?;
    Some(Filtered { file: file.to_owned(), rows, of: of.parse().ok()?, kept: kept.parse().ok()? })
}

/// A column's figures on one line.
struct Line<'a>(&'a ColumnFigures);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ColumnFigures { column, count, sum, mean, min, max } = self.0;
        write!(f, "{column}: count {count}")?;
        for (name, figure) in [("sum", sum), ("mean", mean), ("min", min), ("max", max)] {
            if let Some(figure) = figure {
                write!(f, ", {name} {figure}")?;
            }
        }
        Ok(())
    }
}

/// Columns' figures, a line each.
pub(crate) fn columns_text(columns: &[ColumnFigures]) -> String {
    columns.iter().map(|figures| Line(figures).to_string()).collect::<Vec<_>>().join("\n")
}

/// Reads columns' figures, a line each.
pub(crate) fn parse_columns(text: &str) -> Option<Vec<ColumnFigures>> {
    text.lines().map(parse_column).collect()
}

fn parse_column(line: &str) -> Option<ColumnFigures> {
    // A column may be called anything; the last of these words is ours.
    let (column, rest) = line.rsplit_once(": count ")?;
    let mut parts = rest.split(", ");
    let count = parts.next()?.parse().ok()?;
    let mut figures =
        ColumnFigures { column: column.to_owned(), count, sum: None, mean: None, min: None, max: None };
    for part in parts {
        let (name, figure) = part.split_once(' ')?;
        let figure = Figure::read(figure)?;
        let slot = match name {
            "sum" => &mut figures.sum,
            "mean" => &mut figures.mean,
            "min" => &mut figures.min,
            "max" => &mut figures.max,
            _ => return None,
        };
        *slot = Some(figure);
    }
    Some(figures)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::columns::Tally;

    proptest! {
        #[test]
        fn what_is_said_is_read_again(
            file in "[a-z,: ]{1,20}",
            names in proptest::collection::vec("[a-z:,][a-z:, ]{0,8}(: count 3, sum 1)?", 0..4),
            left_out in proptest::option::of("[a-z:, ]{1,9}"),
            numbers in proptest::collection::vec(-1e9_f64..1e9, 0..5),
        ) {
            let mut tally = Tally::default();
            for number in numbers {
                tally.add(Figure::nearest(number).unwrap());
            }
            let columns = names.iter().map(|name| tally.figures(name).unwrap()).collect();
            let filtered = Filtered { file, rows: Selection::Odd, of: 7, kept: 3 };
            let findings = Findings { filtered, columns, written: "n1-a.csv".to_owned(), left_out };
            prop_assert_eq!(Findings::parse(&findings.to_string()), Some(findings));
        }
    }
}
