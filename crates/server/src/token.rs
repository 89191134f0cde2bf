//! The secret that clients show.

use std::{fmt, fs::File, io, io::Read as _, path::Path, path::PathBuf};

use subtle::ConstantTimeEq as _;

/// The most bytes a token has.
const LONGEST: usize = 4096;

/// The fewest: what is shorter can be guessed.
const SHORTEST: usize = 16;

/// The secret that clients show as `Authorization: Bearer …`.
#[derive(Clone)]
pub struct Token(String);

/// A file that holds no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token file {}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What it holds is no token.
    #[error(
        "the token is to be one line of {SHORTEST} to {LONGEST} visible ASCII characters; write one with \
         `openssl rand -hex 32`"
    )]
    Malformed,
}

impl Token {
    /// A token of 16 to 4096 visible ASCII characters.
    ///
    /// # Errors
    /// When it is shorter, longer or has other characters: no header could carry it, or anybody could guess it.
    pub fn new(token: impl Into<String>) -> Result<Self, TokenError> {
        let token = token.into();
        let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain && (SHORTEST..=LONGEST).contains(&token.len()) {
            Ok(Self(token))
        } else {
            Err(TokenError::Malformed)
        }
    }

    /// The token that a file holds, with or without a line's end.
    ///
    /// # Errors
    /// When the file cannot be read or holds no token.
    pub fn from_file(file: &Path) -> Result<Self, TokenError> {
        let mut text = String::new();
        let bound = u64::try_from(LONGEST + 2).unwrap_or(u64::MAX);
        File::open(file)
            .and_then(|opened| opened.take(bound + 1).read_to_string(&mut text))
            .map_err(|source| TokenError::Unreadable { file: file.to_owned(), source })?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Self::new(line.strip_suffix('\r').unwrap_or(line))
    }

    /// Whether a client showed this token. Takes as long whatever was shown, but for its length.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

/// Does not show the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_line_of_visible_characters() {
        let long = "x".repeat(LONGEST + 1);
        for token in [
            "",
            "short",
            "fifteen-letters",
            "with a space in between",
            "two\nlines-of-letters",
            "größe-größe-größe",
            &long,
        ] {
            assert!(Token::new(token).is_err(), "{token:?}");
        }
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for shown in [&b""[..], b"0123456789abcdeF", b"0123456789abcdef0", b"0123456789abcde"] {
            assert!(!token.is(shown));
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
