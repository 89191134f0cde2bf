//! Sums that lose nothing, or as little as can be.

use crate::figure::Figure;

/// Adds figures: exactly while the sum fits into a figure's 38 digits, in floating point from there on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sum {
    Exact(Figure),
    Float {
        sum: Compensated,
        /// The same of a small part of each number: finite where only something in between is too large.
        scaled: Compensated,
    },
}

/// What numbers are multiplied with so that more of them than there are rows cannot be too large: 2^-100.
const SCALE: f64 = f64::from_bits((1023 - 100) << 52);

impl Default for Sum {
    fn default() -> Self {
        Self::Exact(Figure::default())
    }
}

impl Sum {
    pub(crate) fn add(&mut self, number: Figure) {
        match self {
            Self::Exact(sum) => {
                let before = *sum;
                if let Some(more) = before.plus(number) {
                    *sum = more;
                } else {
                    *self = Self::Float { sum: Compensated::default(), scaled: Compensated::default() };
                    self.add(before);
                    self.add(number);
                }
            }
            Self::Float { sum, scaled } => {
                sum.add(number.value());
                scaled.add(number.value() * SCALE);
            }
        }
    }

    /// The sum; nothing where it is too large for a 64-bit number.
    pub(crate) fn value(self) -> Option<Figure> {
        match self {
            Self::Exact(sum) => sum.value().is_finite().then_some(sum),
            Self::Float { sum, scaled } => {
                Figure::nearest(sum.value()).or_else(|| Figure::nearest(scaled.value() / SCALE))
            }
        }
    }
}

/// Neumaier's variant of Kahan's summation: what is lost is below the last digit of the sum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compensated {
    sum: f64,
    lost: f64,
}

impl Compensated {
    fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        self.lost += if self.sum.abs() >= number.abs() {
            (self.sum - sum) + number
        } else {
            (number - sum) + self.sum
        };
        self.sum = sum;
    }

    fn value(self) -> f64 {
        self.sum + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(numbers: &[&str]) -> Option<String> {
        let mut sum = Sum::default();
        for number in numbers {
            sum.add(Figure::read(number).unwrap());
        }
        sum.value().map(|sum| sum.to_string())
    }

    #[test]
    fn a_sum_has_all_its_digits() {
        for (numbers, expected) in [
            (&["0.1", "0.2"][..], "0.3"),
            (&["100000000000000000", "1"], "100000000000000001"),
            (&["1e20", "0.001", "-1e20"], "0.001"),
            (&[], "0"),
            // More than 38 digits: in floating point.
            (&["1e100", "1", "-1e100"], "1"),
        ] {
            assert_eq!(sum(numbers).as_deref(), Some(expected));
        }
    }

    #[test]
    fn only_a_sum_that_is_itself_too_large_is_none() {
        assert_eq!(sum(&["1.5e308", "1.5e308", "-1.5e308"]).as_deref(), Some("1.5e308"), "exact");
        assert_eq!(
            sum(&["1", "1.5e308", "1.5e308", "-1.5e308"]).as_deref(),
            Some("1.5e308"),
            "in floating point"
        );
        assert_eq!(sum(&["1.5e308", "1.5e308"]), None);
        assert_eq!(sum(&["1", "1.5e308", "1.5e308"]), None);
    }
}
