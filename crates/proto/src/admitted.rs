//! An event with its number in a session's stream.

use std::sync::Arc;

use crate::Event;

/// An event that a session admitted, with its number.
///
/// Numbers count 1, 2, 3… per root session, without gaps. The number is the cursor for resuming a stream, everywhere.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a number and an event; whatever else is known belongs to the event"
)]
pub struct Admitted {
    /// The event's number, from 1.
    pub seq: u64,
    /// The event.
    pub event: Arc<Event>,
}

impl Admitted {
    /// An event with its number.
    #[must_use]
    pub fn new(seq: u64, event: Arc<Event>) -> Self {
        Self { seq, event }
    }
}
