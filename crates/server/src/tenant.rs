//! Who a request is from: tenants, and the tokens by which they are known.

use std::{collections::HashSet, fmt, fs::File, io::Read as _, path::Path, sync::Arc};

use crate::{Token, TokenError};

/// The longest name of a tenant, in bytes.
const LONGEST_NAME: usize = 64;

/// The most tokens that a file has: each request compares what it shows with all of them.
const MOST_TOKENS: usize = 1024;

/// The most bytes of a file of tokens.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// Somebody whose sessions and threads nobody else sees.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// A tenant of this name: 1 to 64 letters, digits, `.`, `_` and `-`.
    ///
    /// # Errors
    /// When the name has other characters, none or too many.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, TokenError> {
        let name = name.into();
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if is_plain && (1..=LONGEST_NAME).contains(&name.len()) {
            Ok(Self(name))
        } else {
            Err(TokenError::Tenant)
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The tenant where tokens name none: `default`.
impl Default for Tenant {
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({:?})", &*self.0)
    }
}

/// The tokens that are let in, and whose each is.
#[derive(Clone, Debug)]
pub struct Tokens(Vec<(Tenant, Token)>);

impl Tokens {
    /// These tokens, each with its tenant.
    ///
    /// # Errors
    /// When there is none or more than 1,024, and when one is there twice.
    pub fn new(tokens: impl IntoIterator<Item = (Tenant, Token)>) -> Result<Self, TokenError> {
        let tokens = tokens.into_iter().collect::<Vec<_>>();
        let known = tokens.iter().map(|(_, token)| token.as_str()).collect::<HashSet<_>>();
        if known.len() < tokens.len() {
            return Err(TokenError::Twice);
        }
        let is_bounded = (1..=MOST_TOKENS).contains(&tokens.len());
        if is_bounded { Ok(Self(tokens)) } else { Err(TokenError::Count { found: tokens.len() }) }
    }

    /// The tokens of a file.
    ///
    /// A line is a tenant's name, white space and a token; a token alone is that of the tenant `default`. A tenant may have
    /// several, so that one can be replaced by the next. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// When the file cannot be read, has no token or more than 1,024, or when a line is none of these, its token is
    /// [none](Token::new), or stands in another line too. The error names the line and never shows it.
    pub fn from_file(file: &Path) -> Result<Self, TokenError> {
        let mut text = String::new();
        File::open(file)
            .and_then(|opened| opened.take(MOST_BYTES + 1).read_to_string(&mut text))
            .map_err(|source| TokenError::Unreadable { file: file.to_owned(), source })?;
        if u64::try_from(text.len()).is_ok_and(|bytes| bytes > MOST_BYTES) {
            return Err(TokenError::TooLarge { bound: MOST_BYTES });
        }
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, TokenError> {
        let mut tokens = Vec::new();
        let mut known = HashSet::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |source| TokenError::Line { line: number, source: Box::new(source) };
            let (name, token) = line.split_once(char::is_whitespace).unwrap_or(("", line));
            let tenant = if name.is_empty() { Tenant::default() } else { Tenant::new(name).map_err(at)? };
            let token = token.trim_start();
            if !known.insert(token) {
                return Err(at(TokenError::Twice));
            }
            tokens.push((tenant, Token::new(token).map_err(at)?));
        }
        Self::new(tokens)
    }

    /// Whose token a client shows. Looks at all of them, whichever it is.
    pub(crate) fn tenant(&self, shown: &[u8]) -> Option<&Tenant> {
        self.0.iter().fold(None, |found, (tenant, token)| if token.is(shown) { Some(tenant) } else { found })
    }
}

impl From<Token> for Tokens {
    /// The one token of the tenant `default`.
    fn from(token: Token) -> Self {
        Self(vec![(Tenant::default(), token)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_tenant_and_a_token() {
        let text = "# who may come in\n\nacme   0123456789abcdef\nacme\tfedcba9876543210\r\n  globex 0000000000000000\n\
                    1111111111111111";
        let tokens = Tokens::parse(text).unwrap();
        for (shown, tenant) in [
            ("0123456789abcdef", Some("acme")),
            ("fedcba9876543210", Some("acme")),
            ("0000000000000000", Some("globex")),
            ("1111111111111111", Some("default")),
            ("acme", None),
            ("", None),
            ("2222222222222222", None),
            ("acme 0123456789abcdef", None),
        ] {
            assert_eq!(tokens.tenant(shown.as_bytes()).map(Tenant::as_str), tenant, "{shown:?}");
        }
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn a_file_that_is_wrong_says_where_and_shows_nothing() {
        let many = (0..=MOST_TOKENS).map(|number| format!("{number:016}")).collect::<Vec<_>>().join("\n");
        for (text, said) in [
            ("", "1 to 1024 tokens"),
            ("# none\n", "1 to 1024 tokens"),
            (&*many, "1 to 1024 tokens"),
            ("acme short", "line 1"),
            ("acme 0123456789abcdef more", "line 1"),
            ("\nac/me 0123456789abcdef", "line 2"),
            ("acme 0123456789abcdef\nglobex 0123456789abcdef", "line 2"),
            (&format!("{} 0123456789abcdef", "x".repeat(LONGEST_NAME + 1)), "line 1"),
        ] {
            let error = Tokens::parse(text).unwrap_err();
            let said_all =
                std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
            let text = said_all.map(ToString::to_string).collect::<Vec<_>>().join(": ");
            assert!(text.contains(said), "{text}");
            assert!(!text.contains("0123456789abcdef") && !text.contains("short"), "{text}");
        }
    }
}
