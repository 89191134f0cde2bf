//! What a well-formed stream is, as a table of named rules and a machine that holds a stream to them.
//!
//! [`Verifier`] takes a root session's events one by one, the root's own and those of every child, in the order in
//! which the stream gives them. It names the first [`Rule`] that is broken, the event that breaks it, the session, and
//! what was expected instead.
//!
//! It is **not** a repair: it changes no event and closes nothing. What a producer leaves open is a finding.
//!
//! # Example
//! ```
//! use anabranch_proto::{Event, EventKind, Metadata, Outcome, Scope, Timestamp, event, grammar};
//!
//! let kinds: [EventKind; 4] = [
//!     event::UserMessage::new("message", [], event::MessageOrigin::User).into(),
//!     event::ReplyStart::new("ses_0", "reply", "master").into(),
//!     event::TextBlockDelta::new("reply", "block", "hello").into(),
//!     event::StreamComplete::new(Outcome::Completed).into(),
//! ];
//! let mut verifier = grammar::Verifier::new(grammar::Profile::Native);
//! let broken = kinds.into_iter().enumerate().find_map(|(number, kind)| {
//!     let id = format!("event_{number}");
//!     let event = Event::new(&*id, Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), kind);
//!     verifier.check(&event).err()
//! });
//! let violation = broken.expect("the block was never begun");
//! assert_eq!(violation.rule, grammar::Rule::WithinBlock);
//! assert_eq!(
//!     violation.to_string(),
//!     "TEXT_BLOCK_DELTA event_2 of root breaks `within-block`: expected the start of the text block `block` before it",
//! );
//! ```
//!
//! # What it costs
//! A step takes time that does not depend on how many events came before. Memory grows with what is open (runs, replies,
//! blocks, calls) and by a small record per session, because a session's runs are counted as long as the tree lives.
//! Ids of blocks and calls that have ended are kept up to a bound, [`Verifier::remember`]; one that comes again after
//! that many others is not noticed.

mod call;
mod counts;
mod ended;
mod error;
mod machine;
mod reply;
mod rule;
mod run;
mod tree;

pub use counts::Counts;
pub use error::Violation;
pub use machine::{Profile, Verifier};
pub use rule::Rule;
