//! The secret that clients show.

use std::{fmt, io, path::PathBuf};

use subtle::ConstantTimeEq as _;

/// The most bytes a token has.
const LONGEST: usize = 4096;

/// The fewest: what is shorter can be guessed.
const SHORTEST: usize = 16;

/// The secret that clients show as `Authorization: Bearer …`.
#[derive(Clone)]
pub struct Token(String);

/// What is no token, or a file that holds none.
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
    /// A name that no tenant has.
    #[error("a tenant's name is to be 1 to 64 letters, digits, `.`, `_` and `-`")]
    Tenant,
    /// A line of a file of tokens is wrong.
    #[error("line {line} of the token file is to be a tenant's name and a token, or a token alone")]
    Line {
        /// Which line, counted from 1.
        line: usize,
        /// What is wrong with it.
        source: Box<TokenError>,
    },
    /// Two lines with the same token.
    #[error("the token stands in a line before, so it would be two tenants'")]
    Twice,
    /// No token, or too many.
    #[error("the token file is to have 1 to 1024 tokens; it has {found}")]
    Count {
        /// How many it has.
        found: usize,
    },
    /// A file that is larger than any file of tokens.
    #[error("the token file is larger than {bound} bytes")]
    TooLarge {
        /// How many bytes it may have.
        bound: u64,
    },
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

    /// The secret itself.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
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
