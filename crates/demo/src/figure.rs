//! Numbers as they are shown, and how they are computed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::value::RawValue;

/// A number with one spelling everywhere: in a tool's JSON, in an agent's text and in the report.
///
/// Reading a figure's spelling gives the same figure. Never infinite, never not a number.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, JsonSchema)]
pub(crate) struct Figure(f64);

impl Figure {
    /// A number exactly as it is; nothing where it is none.
    pub(crate) fn exact(number: f64) -> Option<Self> {
        // A negative zero is shown as zero.
        number.is_finite().then_some(Self(number + 0.0))
    }

    /// A computed number: at least four significant digits and two decimals, no more.
    pub(crate) fn rounded(number: f64) -> Option<Self> {
        Self::exact(number)?;
        if number == 0.0 {
            return Self::exact(0.0);
        }
        let magnitude = number.abs().log10().floor();
        #[expect(clippy::cast_possible_truncation, reason = "a magnitude of an f64 lies within ±324")]
        #[expect(clippy::cast_sign_loss, reason = "at least 2")]
        let decimals = (3.0 - magnitude).max(2.0) as usize;
        format!("{number:.decimals$}").parse().ok().and_then(Self::exact)
    }

    pub(crate) fn value(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        // Padded as text, so that a width given by a caller counts.
        if size == 0.0 || (1e-5..1e15).contains(&size) {
            f.pad(&self.0.to_string())
        } else {
            f.pad(&format!("{:e}", self.0))
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Figure {
    /// Reads from JSON text. By its spelling, because `serde_json` reads a float to within one unit in its last place.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let number = text.get().parse().ok().and_then(Self::exact);
        number.ok_or_else(|| D::Error::custom(format_args!("{} is no finite number", text.get())))
    }
}

/// Adds numbers so that what is lost is below the last digit of the sum (Neumaier's variant of Kahan's summation).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        self.lost += if self.sum.abs() >= number.abs() {
            (self.sum - sum) + number
        } else {
            (number - sum) + self.sum
        };
        self.sum = sum;
    }

    /// The sum; not finite where it is too large.
    pub(crate) fn value(self) -> f64 {
        self.sum + self.lost
    }
}

/// A count as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 rows")]
pub(crate) fn as_number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rounded(number: f64) -> String {
        Figure::rounded(number).unwrap().to_string()
    }

    #[test]
    fn a_computed_number_has_the_digits_that_people_read() {
        for (number, text) in [
            (3.029_432, "3.029"),
            (16.439_08, "16.44"),
            (-0.000_123_456, "-0.0001235"),
            (12_345_678.987, "12345678.99"),
            (3.0, "3"),
            (-0.0, "0"),
            (1.234_567e300, "1.234567e300"),
            (1.234_567e-300, "1.235e-300"),
        ] {
            assert_eq!(rounded(number), text);
        }
        assert_eq!(Figure::exact(f64::NAN), None);
        assert_eq!(format!("{:>6}", Figure::exact(1.5).unwrap()), "   1.5");
    }

    #[test]
    fn a_sum_keeps_what_plain_addition_loses() {
        let mut sum = Sum::default();
        for number in [1e100, 1.0, -1e100] {
            sum.add(number);
        }
        assert_eq!(sum.value().to_string(), "1");
    }

    proptest! {
        #[test]
        fn a_figure_has_one_spelling(number in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL) {
            for figure in [Figure::exact(number), Figure::rounded(number)].into_iter().flatten() {
                let json = serde_json::to_string(&figure).unwrap();
                prop_assert_eq!(&json, &figure.to_string());
                let read: Figure = serde_json::from_str(&json).unwrap();
                prop_assert_eq!(read, figure);
                prop_assert_eq!(read.to_string(), json);
            }
        }
    }
}
