//! What the crate promises, by its public parts.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test names the kinds that it looks at")]

mod auto_traits;
mod closing;
mod duplicates;
mod field_cases;
mod log;
mod messages;
mod properties;
mod recovery;
mod spawn;
mod support;
