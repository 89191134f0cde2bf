//! Licence expressions, as far as manifests use them: names, `WITH`, `AND`, `OR`, parentheses, and the `/` that
//! meant `OR` before expressions did.

use std::iter::Peekable;
use std::vec::IntoIter;

/// Why an expression cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpressionError {
    /// Something stands where something else has to.
    #[error("`{found}` stands where {expected} is expected")]
    Unexpected {
        /// What stands there.
        found: String,
        /// What has to stand there.
        expected: &'static str,
    },
    /// The expression stops too early.
    #[error("it ends where {0} is expected")]
    Ends(&'static str),
}

/// Whether someone may choose such that only licences in `allowed` apply. One with an exception counts as its whole
/// text, `Apache-2.0 WITH LLVM-exception`.
pub(super) fn is_satisfied(expression: &str, allowed: &[&str]) -> Result<bool, ExpressionError> {
    let mut reader = Reader { tokens: tokens(expression).into_iter().peekable(), allowed };
    let satisfied = reader.alternatives()?;
    match reader.tokens.next() {
        None => Ok(satisfied),
        Some(found) => Err(ExpressionError::Unexpected { found, expected: "AND, OR or the end" }),
    }
}

fn tokens(expression: &str) -> Vec<String> {
    let mut spaced = String::new();
    for c in expression.chars() {
        match c {
            '(' | ')' => spaced.extend([' ', c, ' ']),
            '/' => spaced.push_str(" OR "),
            _ => spaced.push(c),
        }
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

struct Reader<'a> {
    tokens: Peekable<IntoIter<String>>,
    allowed: &'a [&'a str],
}

impl Reader<'_> {
    fn alternatives(&mut self) -> Result<bool, ExpressionError> {
        let mut any = self.conjunction()?;
        while self.takes("OR") {
            // Read first: what follows has to be well formed whatever came before.
            any = self.conjunction()? || any;
        }
        Ok(any)
    }

    fn conjunction(&mut self) -> Result<bool, ExpressionError> {
        let mut all = self.term()?;
        while self.takes("AND") {
            all = self.term()? && all;
        }
        Ok(all)
    }

    fn term(&mut self) -> Result<bool, ExpressionError> {
        if self.takes("(") {
            let inner = self.alternatives()?;
            return if self.takes(")") { Ok(inner) } else { Err(self.unexpected("`)`")) };
        }
        let mut licence = self.name("a licence")?;
        if self.takes("WITH") {
            let exception = self.name("an exception")?;
            licence = format!("{licence} WITH {exception}");
        }
        Ok(self.allowed.contains(&licence.as_str()))
    }

    fn name(&mut self, expected: &'static str) -> Result<String, ExpressionError> {
        let is_name = |token: &String| !["AND", "OR", "WITH", "(", ")"].contains(&token.as_str());
        self.tokens.next_if(is_name).ok_or_else(|| self.unexpected(expected))
    }

    fn takes(&mut self, token: &str) -> bool {
        self.tokens.next_if(|next| next == token).is_some()
    }

    fn unexpected(&mut self, expected: &'static str) -> ExpressionError {
        match self.tokens.next() {
            Some(found) => ExpressionError::Unexpected { found, expected },
            None => ExpressionError::Ends(expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn satisfied(expression: &str) -> Result<bool, ExpressionError> {
        is_satisfied(expression, &["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"])
    }

    #[test]
    fn one_of_the_alternatives_is_enough() {
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT OR GPL-3.0",
            "MIT/GPL-3.0",
            "GPL-3.0 / MIT",
            "GPL-3.0 AND X OR MIT",
        ] {
            assert_eq!(satisfied(expression), Ok(true), "{expression}");
        }
    }

    #[test]
    fn all_that_are_joined_are_needed() {
        assert_eq!(satisfied("(MIT OR Apache-2.0) AND Unicode-3.0"), Ok(true));
        for expression in
            ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND (GPL-3.0 OR X)", "MIT AND (X OR GPL-3.0)"]
        {
            assert_eq!(satisfied(expression), Ok(false), "{expression}");
        }
    }

    #[test]
    fn a_conjunction_binds_closer_than_an_alternative() {
        assert_eq!(satisfied("MIT OR MIT AND GPL-3.0"), Ok(true));
        assert_eq!(satisfied("GPL-3.0 AND MIT OR GPL-3.0"), Ok(false));
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        assert_eq!(satisfied("Apache-2.0 WITH LLVM-exception"), Ok(true));
        assert_eq!(satisfied("MIT WITH LLVM-exception"), Ok(false));
        assert_eq!(satisfied("Apache-2.0 WITH LLVM-exception OR GPL-3.0"), Ok(true));
        assert_eq!(satisfied("MIT+"), Ok(false));
    }

    #[test]
    fn what_cannot_be_read_is_no_licence() {
        for (expression, message) in [
            ("", "it ends where a licence is expected"),
            ("MIT OR", "it ends where a licence is expected"),
            ("MIT MIT", "`MIT` stands where AND, OR or the end is expected"),
            ("(MIT", "it ends where `)` is expected"),
            ("MIT)", "`)` stands where AND, OR or the end is expected"),
            ("AND MIT", "`AND` stands where a licence is expected"),
            ("MIT WITH", "it ends where an exception is expected"),
            ("MIT OR (", "it ends where a licence is expected"),
        ] {
            assert_eq!(satisfied(expression).unwrap_err().to_string(), message, "{expression}");
        }
    }
}
