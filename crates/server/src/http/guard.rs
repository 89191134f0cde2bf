//! Who may send requests.

use axum::http::{HeaderMap, header};

use super::Refusal;
use crate::{Tenant, Tokens};

/// Who may send requests: who shows a token or, where there is none, who knows the server by a name of loopback's.
#[derive(Debug)]
pub(crate) struct Guard {
    tokens: Option<Tokens>,
}

impl Guard {
    pub(crate) fn new(tokens: Option<Tokens>) -> Self {
        Self { tokens }
    }

    /// Whose request it is.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Tenant, Refusal> {
        if let Some(tokens) = &self.tokens {
            let shown = headers.get(header::AUTHORIZATION).map_or(&b""[..], |shown| shown.as_bytes());
            let tenant = bearer(shown).and_then(|shown| tokens.tenant(shown));
            return tenant.cloned().ok_or(Refusal::Unauthorized);
        }
        let host = headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
        // A browser always says where it thinks it is; a page whose name was pointed here gives that away.
        if host.is_none_or(is_loopback) { Ok(Tenant::default()) } else { Err(Refusal::ForeignHost) }
    }
}

/// What is shown in a header's value, whose scheme has no case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_loopback_are_known_with_and_without_a_port() {
        for host in
            ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080", "127.1.2.3:1", "[::1]", "[::1]:8080"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "example.org:80",
            "127.0.0.1.example.org",
            "localhost.example.org:1",
            "10.0.0.1",
            "[::2]:1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn the_scheme_has_no_case_and_the_token_does() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER  abc "), Some(&b"abc"[..]));
        for value in [&b""[..], b"Bearer", b"Basic abc", b"abc", b"Bearerabc"] {
            assert_eq!(bearer(value), None, "{value:?}");
        }
    }
}
