//! What is computed of a numeric column.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{figure::Figure, sum::Sum};

/// The figures of a numeric column. Where it has no number, there is a count of 0 and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ColumnFigures {
    /// The column's name.
    pub(crate) column: String,
    /// How many of its cells hold a number.
    pub(crate) count: u64,
    /// Their sum, exact to 38 digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sum: Option<Figure>,
    /// Their mean, rounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mean: Option<Figure>,
    /// The smallest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<Figure>,
    /// The largest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<Figure>,
}

/// Adds up the numbers of a column, or the figures of its parts: counts and sums add, so that the mean of the whole is
/// the means of the parts weighted by their counts; the smallest minimum and the largest maximum stay.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    count: u64,
    sum: Sum,
    range: Option<(Figure, Figure)>,
}

impl Tally {
    /// Adds one number.
    pub(crate) fn add(&mut self, number: Figure) {
        self.count += 1;
        self.sum.add(number);
        self.widen(number, number);
    }

    /// Adds the figures of a part.
    pub(crate) fn join(&mut self, part: &ColumnFigures) {
        self.count += part.count;
        if let Some(sum) = part.sum {
            self.sum.add(sum);
        }
        if let (Some(min), Some(max)) = (part.min, part.max) {
            self.widen(min, max);
        }
    }

    /// The figures; nothing where the sum is too large to be a number.
    pub(crate) fn figures(self, column: &str) -> Option<ColumnFigures> {
        let column = column.to_owned();
        let Some((min, max)) = self.range else {
            return Some(ColumnFigures { column, count: 0, sum: None, mean: None, min: None, max: None });
        };
        let sum = self.sum.value()?;
        Some(ColumnFigures {
            column,
            count: self.count,
            sum: Some(sum),
            mean: sum.divided_by(self.count),
            min: Some(min),
            max: Some(max),
        })
    }

    fn widen(&mut self, low: Figure, high: Figure) {
        let (min, max) = self.range.unwrap_or((low, high));
        let min = if low.compare(min).is_lt() { low } else { min };
        let max = if high.compare(max).is_gt() { high } else { max };
        self.range = Some((min, max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(numbers: &[f64]) -> Tally {
        let mut tally = Tally::default();
        for number in numbers {
            tally.add(Figure::nearest(*number).unwrap());
        }
        tally
    }

    #[test]
    fn parts_join_to_the_whole() {
        let numbers = [0.1, 0.2, 0.3, -4.0, 5.5];
        let mut joined = Tally::default();
        for part in [&numbers[..2], &numbers[2..], &[]] {
            joined.join(&tally(part).figures("a").unwrap());
        }
        assert_eq!(joined.figures("a"), tally(&numbers).figures("a"));
    }

    #[test]
    fn without_a_number_there_is_only_a_count() {
        let figures = tally(&[]).figures("a").unwrap();
        assert_eq!(serde_json::to_string(&figures).unwrap(), r#"{"column":"a","count":0}"#);
        assert!(tally(&[f64::MAX, f64::MAX]).figures("a").is_none());
    }
}
