//! Numbers as they are shown, and how they are computed.

use std::{borrow::Cow, cmp::Ordering, fmt, ops::Neg};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::value::RawValue;

/// A decimal number with one spelling everywhere: in a tool's JSON, in an agent's text and in the report.
///
/// Exact to 38 digits; of a number with more, the nearest 64-bit floating-point number. Reading a figure's spelling gives
/// the same figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figure {
    /// Does not end in a zero, unless it is zero; then the exponent is zero too.
    digits: i128,
    /// The power of ten to multiply by.
    exponent: i32,
}

impl Figure {
    /// Reads a number within the range of 64-bit floating-point numbers.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let float: f64 = text.parse().ok()?;
        if float.is_finite() { Self::decimal(text).or_else(|| Self::nearest(float)) } else { None }
    }

    /// The shortest decimal that is read as this number; nothing where it is not finite.
    pub(crate) fn nearest(float: f64) -> Option<Self> {
        if float.is_finite() { Self::decimal(&format!("{float:e}")) } else { None }
    }

    /// The nearest 64-bit floating-point number. Not finite where this is too large.
    pub(crate) fn value(self) -> f64 {
        // The spelling of a number can always be read.
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// The exact sum; nothing where it has more digits than a figure holds.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        if self.digits == 0 || other.digits == 0 {
            return Some(if self.digits == 0 { other } else { self });
        }
        let exponent = self.exponent.min(other.exponent);
        let aligned = |figure: Self| {
            let zeros = figure.exponent.checked_sub(exponent)?;
            figure.digits.checked_mul(power_of_ten(zeros)?)
        };
        Some(Self::normal(aligned(self)?.checked_add(aligned(other)?)?, exponent))
    }

    /// What is left of this without `other`, exact where it fits; nothing where it is too large for a 64-bit number.
    pub(crate) fn minus(self, other: Self) -> Option<Self> {
        let exact = self.plus(-other);
        exact.or_else(|| Self::nearest(self.value() - other.value())).filter(|left| left.value().is_finite())
    }

    /// A `count`th of this, rounded to four significant digits or to two decimals, whichever says more.
    pub(crate) fn divided_by(self, count: u64) -> Option<Self> {
        let count_digits = i128::from(count);
        #[expect(
            clippy::cast_precision_loss,
            reason = "only the place of the first digit is taken from these"
        )]
        let (digits, count) = (self.digits.unsigned_abs().max(1) as f64, count as f64);
        #[expect(clippy::cast_possible_truncation, reason = "a magnitude is within ±200,000")]
        let magnitude = (digits.log10() + f64::from(self.exponent) - count.log10()).floor() as i32;
        let decimals = (3 - magnitude).max(2);
        let shift = self.exponent + decimals;
        let exact = || {
            let dividend = self.digits.checked_mul(power_of_ten(shift.max(0))?)?;
            let divisor = count_digits.checked_mul(power_of_ten((-shift).max(0))?)?;
            let half = divisor.checked_mul(dividend.signum())?;
            let rounded = dividend.checked_mul(2)?.checked_add(half)?.checked_div(divisor.checked_mul(2)?)?;
            Some(Self::normal(rounded, -decimals))
        };
        exact().or_else(|| {
            let decimals = usize::try_from(decimals.min(400)).ok()?;
            Self::read(&format!("{:.decimals$}", self.value() / count))
        })
    }

    /// Which of two is the larger.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        // Rounding keeps the order, so that only equal floats have to be looked at.
        let exactly = || self.plus(-other).map_or(0, |difference| difference.digits).cmp(&0);
        self.value().total_cmp(&other.value()).then_with(exactly)
    }

    /// Reads digits; nothing where they are too many or this is no number.
    fn decimal(text: &str) -> Option<Self> {
        const LARGEST_EXPONENT: i32 = 100_000;
        let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (is_negative, number) = match number.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part = part.trim_end_matches('0');
        let mut digits: i128 = 0;
        for byte in whole.bytes().chain(part.bytes()) {
            let digit = char::from(byte).to_digit(10)?;
            digits = digits.checked_mul(10)?.checked_add(digit.into())?;
        }
        let exponent = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(part.len()).ok()?)?;
        let fits = exponent.unsigned_abs() <= LARGEST_EXPONENT.unsigned_abs();
        fits.then(|| Self::normal(if is_negative { -digits } else { digits }, exponent))
    }

    fn normal(mut digits: i128, mut exponent: i32) -> Self {
        if digits == 0 {
            return Self::default();
        }
        while digits % 10 == 0 {
            digits /= 10;
            exponent += 1;
        }
        Self { digits, exponent }
    }
}

fn power_of_ten(exponent: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}

impl Neg for Figure {
    type Output = Self;

    fn neg(self) -> Self {
        // Only the most negative number of all has no opposite; no figure is read as that one.
        Self { digits: self.digits.saturating_neg(), exponent: self.exponent }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.digits < 0 { "-" } else { "" };
        let digits = self.digits.unsigned_abs().to_string();
        // How many digits stand before the decimal point.
        let point = i32::try_from(digits.len()).unwrap_or(i32::MAX).saturating_add(self.exponent);
        let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
        if !(-4..=21).contains(&point) {
            let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
            let dot = if rest.is_empty() { "" } else { "." };
            return write!(f, "{sign}{first}{dot}{rest}e{}", point - 1);
        }
        if self.exponent >= 0 {
            return write!(f, "{sign}{digits}{}", zeros(self.exponent));
        }
        match usize::try_from(point).ok().and_then(|point| digits.split_at_checked(point)) {
            Some((whole, part)) if !whole.is_empty() => write!(f, "{sign}{whole}.{part}"),
            Some(_) | None => write!(f, "{sign}0.{}{digits}", zeros(-point)),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Figure {
    /// Reads from JSON text. By its spelling, because a 64-bit number keeps only some 16 digits of it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(text.get())
            .ok_or_else(|| D::Error::custom(format_args!("{} is no finite number", text.get())))
    }
}

impl JsonSchema for Figure {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Figure".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        f64::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn figure(text: &str) -> Figure {
        Figure::read(text).unwrap()
    }

    #[test]
    fn a_number_keeps_its_digits_and_has_one_spelling() {
        for (text, spelling) in [
            ("007.50", "7.5"),
            ("+.5", "0.5"),
            ("5.", "5"),
            ("-0", "0"),
            ("1e3", "1000"),
            ("0.00001", "0.00001"),
            ("0.000001", "1e-6"),
            ("12345678901234567890.12345", "12345678901234567890.12345"),
            ("1234567e300", "1.234567e306"),
            ("-1.5E-300", "-1.5e-300"),
            // More digits than a figure holds.
            ("0.1000000000000000000000000000000000000000000000001", "0.1"),
            ("1e-99999999999", "0"),
        ] {
            assert_eq!(figure(text).to_string(), spelling, "{text}");
        }
        for text in ["", "inf", "NaN", "1e999", "1,5", "0x1", "1e", "--1"] {
            assert_eq!(Figure::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_part_has_the_digits_that_people_read() {
        for (sum, count, spelling) in [
            ("4426", 1461, "3.029"),
            ("24017.5", 1461, "16.44"),
            ("-0.000123456", 1, "-0.0001235"),
            ("12345678.987", 1, "12345678.99"),
            ("1", 8, "0.125"),
            ("2.5", 1000, "0.0025"),
            ("-5", 1000, "-0.005"),
            ("0", 7, "0"),
            ("9.9999", 1, "10"),
            ("1e300", 4, "2.5e299"),
            ("1234567e-300", 1, "1.235e-294"),
            ("1.2345678901234567890123456789012345678", 3, "0.4115"),
        ] {
            assert_eq!(figure(sum).divided_by(count).unwrap().to_string(), spelling, "{sum} / {count}");
        }
    }

    #[test]
    fn a_difference_is_that_of_the_figures_as_they_are_spelt() {
        for (left, right, difference) in [
            ("2.86", "3.029", "-0.169"),
            ("0.3", "0.3", "0"),
            ("1.5", "-1", "2.5"),
            ("1e300", "1", "1e300"),
            ("1e-300", "0", "1e-300"),
        ] {
            assert_eq!(figure(left).minus(figure(right)).unwrap().to_string(), difference);
        }
        assert_eq!(figure("1e308").minus(figure("-1e308")), None, "too large for a 64-bit number");
    }

    #[test]
    fn the_order_is_that_of_the_digits() {
        let larger = figure("9007199254740993").compare(figure("9007199254740992"));
        assert_eq!(larger, Ordering::Greater, "which are the same 64-bit number");
        assert_eq!(figure("-2").compare(figure("1")), Ordering::Less);
        assert_eq!(figure("1e300").compare(figure("1e-300")), Ordering::Greater);
    }

    proptest! {
        #[test]
        fn a_figure_is_read_as_it_is_spelt(
            number in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL,
            digits: i64,
            decimals in 0_i32..20,
        ) {
            for figure in [Figure::nearest(number).unwrap(), Figure::normal(digits.into(), -decimals)] {
                let json = serde_json::to_string(&figure).unwrap();
                prop_assert_eq!(&json, &figure.to_string());
                prop_assert_eq!(serde_json::from_str::<Figure>(&json).unwrap(), figure);
            }
            prop_assert_eq!(Figure::nearest(number).unwrap().value().to_bits(), number.to_bits());
        }
    }
}
