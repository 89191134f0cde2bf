//! Times as they were written.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in RFC 3339 form, packed into 16 bytes and written back exactly as it was read.
///
/// Ours are UTC. A time without an offset (as Python's `isoformat` writes) is accepted and kept as read; its Unix time
/// takes it for UTC. Up to nine fractional digits; years 0000 to 9999; no leap seconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timestamp {
    /// Seconds since 1970 of the date and time as written, whatever its offset.
    wall_seconds: i64,
    nanoseconds: u32,
    /// Fractional digits written, 0 to 9.
    digits: u8,
    /// The separator between date and time as written.
    separator: Separator,
    offset: PackedOffset,
}

/// An [`Offset`] in two bytes: minutes, or one of four values that no offset reaches.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PackedOffset(i16);

impl PackedOffset {
    const NONE: i16 = i16::MAX;
    const UTC: i16 = i16::MAX - 1;
    const LOWER_UTC: i16 = i16::MAX - 2;
    const UNKNOWN: i16 = i16::MAX - 3;

    fn pack(offset: Offset) -> Self {
        Self(match offset {
            Offset::None => Self::NONE,
            Offset::Utc => Self::UTC,
            Offset::LowerUtc => Self::LOWER_UTC,
            Offset::Unknown => Self::UNKNOWN,
            Offset::Minutes(minutes) => minutes,
        })
    }

    fn unpack(self) -> Offset {
        match self.0 {
            Self::NONE => Offset::None,
            Self::UTC => Offset::Utc,
            Self::LOWER_UTC => Offset::LowerUtc,
            Self::UNKNOWN => Offset::Unknown,
            minutes => Offset::Minutes(minutes),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Separator {
    UpperT,
    LowerT,
    Space,
}

/// How far a written time is from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Offset {
    /// No offset was written.
    None,
    /// `Z`.
    Utc,
    /// `z`.
    LowerUtc,
    /// `+HH:MM` or `-HH:MM`: the minutes east of UTC.
    Minutes(i16),
    /// `-00:00`, which RFC 3339 keeps for an unknown local offset.
    Unknown,
}

/// The text is not a time of the form that [`Timestamp`] reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time of the form 2026-11-30T10:00:00.000001Z: {text:?}")]
pub struct TimestampError {
    text: String,
}

const SECONDS_PER_DAY: i64 = 86_400;

impl Timestamp {
    /// A UTC time from Unix seconds and nanoseconds, written with six fractional digits.
    ///
    /// Clamped to the years 0000 to 9999; nanoseconds beyond a second, and parts of a microsecond, are cut.
    #[must_use]
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Self {
        const YEAR_0: i64 = -62_167_219_200;
        const YEAR_9999_END: i64 = 253_402_300_799;
        Self {
            wall_seconds: seconds.clamp(YEAR_0, YEAR_9999_END),
            // No more than is written, so that what is read back is equal.
            nanoseconds: nanoseconds.min(999_999_999) / 1_000 * 1_000,
            digits: 6,
            separator: Separator::UpperT,
            offset: PackedOffset::pack(Offset::Utc),
        }
    }

    /// Seconds since 1970 UTC.
    #[must_use]
    pub fn unix_seconds(self) -> i64 {
        let minutes = match self.offset.unpack() {
            Offset::Minutes(minutes) => i64::from(minutes),
            Offset::None | Offset::Utc | Offset::LowerUtc | Offset::Unknown => 0,
        };
        self.wall_seconds - minutes * 60
    }

    /// Milliseconds since 1970 UTC.
    #[must_use]
    pub fn unix_millis(self) -> i64 {
        self.unix_seconds() * 1_000 + i64::from(self.nanoseconds / 1_000_000)
    }

    /// The nanoseconds within the second.
    #[must_use]
    pub fn subsec_nanos(self) -> u32 {
        self.nanoseconds
    }

    /// The offset as written.
    #[must_use]
    pub fn offset(self) -> Offset {
        self.offset.unpack()
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let date = number(bytes, 0, 4, b'-')?;
        let month = number(bytes, 5, 2, b'-')?;
        let day = two_digits(bytes, 8)?;
        let separator = match bytes.get(10)? {
            b'T' => Separator::UpperT,
            b't' => Separator::LowerT,
            b' ' => Separator::Space,
            _ => return None,
        };
        let hour = number(bytes, 11, 2, b':')?;
        let minute = number(bytes, 14, 2, b':')?;
        let second = two_digits(bytes, 17)?;
        let valid = (1..=12).contains(&month)
            && (1..=days_in_month(date, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !valid {
            return None;
        }
        let mut rest = bytes.get(19..)?;
        let mut nanoseconds = 0;
        let mut digits = 0;
        if let Some(fraction) = rest.strip_prefix(b".") {
            digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || digits > 9 {
                return None;
            }
            let (written, tail) = fraction.split_at_checked(digits)?;
            let value = written.iter().fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
            nanoseconds = value * 10_u32.pow(9 - u32::try_from(digits).ok()?);
            rest = tail;
        }
        Some(Self {
            wall_seconds: days_from_civil(date, month, day) * SECONDS_PER_DAY
                + hour * 3_600
                + minute * 60
                + second,
            nanoseconds,
            digits: u8::try_from(digits).ok()?,
            separator,
            offset: PackedOffset::pack(parse_offset(rest)?),
        })
    }
}

fn parse_offset(text: &[u8]) -> Option<Offset> {
    let sign = match text {
        b"" => return Some(Offset::None),
        b"Z" => return Some(Offset::Utc),
        b"z" => return Some(Offset::LowerUtc),
        b"-00:00" => return Some(Offset::Unknown),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let hours = number(text, 1, 2, b':')?;
    let minutes = two_digits(text, 4)?;
    if text.len() != 6 || hours > 23 || minutes > 59 {
        return None;
    }
    i16::try_from(sign * (hours * 60 + minutes)).ok().map(Offset::Minutes)
}

/// `length` digits at `start`, followed by `end`.
fn number(bytes: &[u8], start: usize, length: usize, end: u8) -> Option<i64> {
    (bytes.get(start + length) == Some(&end)).then_some(())?;
    digits(bytes.get(start..start + length)?)
}

fn two_digits(bytes: &[u8], start: usize) -> Option<i64> {
    digits(bytes.get(start..start + 2)?)
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, counted in years that begin in March so that
/// the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        Self::parse(text).ok_or_else(|| TimestampError { text: text.chars().take(60).collect() })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.wall_seconds.div_euclid(SECONDS_PER_DAY));
        let second = self.wall_seconds.rem_euclid(SECONDS_PER_DAY);
        let separator = match self.separator {
            Separator::UpperT => 'T',
            Separator::LowerT => 't',
            Separator::Space => ' ',
        };
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}")?;
        if self.digits > 0 {
            let width = usize::from(self.digits);
            let fraction = self.nanoseconds / 10_u32.pow(9 - u32::from(self.digits.min(9)));
            write!(f, ".{fraction:0width$}")?;
        }
        match self.offset.unpack() {
            Offset::None => Ok(()),
            Offset::Utc => f.write_str("Z"),
            Offset::LowerUtc => f.write_str("z"),
            Offset::Unknown => f.write_str("-00:00"),
            Offset::Minutes(minutes) => {
                let sign = if minutes < 0 { '-' } else { '+' };
                let minutes = minutes.unsigned_abs();
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({self})")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"2026-11-30T10:00:00.000001Z\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_it_was_read() {
        for text in [
            "2026-11-30T10:00:00.000001Z",
            "2026-11-30T10:00:00.120000",
            "2026-11-30T10:00:00",
            "2024-02-29 23:59:59.9+05:30",
            "0000-01-01t00:00:00z",
            "9999-12-31T23:59:59.999999999-23:59",
            "1969-12-31T23:59:59.5-00:00",
            "1900-03-01T00:00:00+00:00",
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026",
            "2023-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T10:60:00Z",
            "2026-11-30T10:00:60Z",
            "2026-11-30T10:00:00.Z",
            "2026-11-30T10:00:00.1234567890Z",
            "2026-11-30T10:00:00+5:30",
            "2026-11-30T10:00:00+24:00",
            "2026-11-30T10:00:00ZZ",
            "2026-11-30T10:00:00é",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn unix_time_honours_the_offset() {
        let utc: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let india: Timestamp = "2026-11-30T15:30:00+05:30".parse().unwrap();
        assert_eq!(utc.unix_seconds(), 1_796_032_800);
        assert_eq!(utc.unix_seconds(), india.unix_seconds());
        assert_eq!(Timestamp::from_unix(1_796_032_800, 1_000).to_string(), "2026-11-30T10:00:00.000001Z");
        let time = Timestamp::from_unix(1_796_032_800, 123_456_789);
        assert_eq!(time.to_string().parse::<Timestamp>().unwrap(), time);
        assert_eq!(Timestamp::from_unix(-1, 500_000_000).unix_millis(), -500);
        assert_eq!(size_of::<Timestamp>(), 16);
    }
}
