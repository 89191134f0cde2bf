//! Positions in a session's events.

use std::{fmt, sync::Arc};

use anabranch_proto::Stamp as _;
use anabranch_runtime::SystemStamp;

/// The longest epoch, in bytes.
const LONGEST_EPOCH: usize = 32;

/// Which counting of a session's events a number belongs to.
///
/// Numbers of one epoch always mean the same events. Whoever cannot promise that any more, such as a log that lost events
/// which readers had seen, takes another epoch; a client that resumes with a number of the old one is told so, and begins
/// anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(Arc<str>);

/// The text is no epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an epoch is to be 1 to {LONGEST_EPOCH} digits and letters")]
#[non_exhaustive]
pub struct InvalidEpoch;

impl Epoch {
    /// An epoch that was kept: 1 to 32 digits and letters.
    ///
    /// # Errors
    /// When the text is none.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, InvalidEpoch> {
        let text = text.into();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_plain && (1..=LONGEST_EPOCH).contains(&text.len()) { Ok(Self(text)) } else { Err(InvalidEpoch) }
    }

    /// An epoch that nobody has had: 12 digits and letters, of 48 random bits.
    #[must_use]
    pub fn random() -> Self {
        // The last bits of a ULID are chance.
        let bits = u128::from_be_bytes(SystemStamp::new().unique()) & ((1 << 48) - 1);
        Self(format!("{bits:012x}").into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A position: behind the event with this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) epoch: Epoch,
    pub(crate) seq: u64,
}

impl Cursor {
    /// Reads `<epoch>-<number>` as it is written, and nothing else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (epoch, number) = text.rsplit_once('-')?;
        let seq = number.parse().ok()?;
        let cursor = Self { epoch: Epoch::new(epoch).ok()?, seq };
        // `+7` and `007` are numbers to others.
        (cursor.seq.to_string() == number).then_some(cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        for text in ["a-0", "A-1", "0123456789ab-7", "a-18446744073709551615"] {
            assert_eq!(Cursor::parse(text).map(|cursor| cursor.to_string()).as_deref(), Some(text));
        }
        let long = format!("{}-1", "a".repeat(LONGEST_EPOCH + 1));
        for text in [
            "",
            "-",
            "a",
            "a-",
            "-1",
            "7",
            "a-+7",
            "a-07",
            "a--1",
            "a_b-1",
            "a b-1",
            "a-1 ",
            "a\n-1",
            "ä-1",
            "a-1.0",
            "a-18446744073709551616",
            "a-0x1",
            &long,
        ] {
            assert_eq!(Cursor::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_epoch_of_chance_is_one() {
        let epoch = Epoch::random();
        assert_eq!((epoch.as_str().len(), Epoch::new(epoch.as_str())), (12, Ok(epoch.clone())));
        assert_ne!(Epoch::random(), epoch);
    }
}
