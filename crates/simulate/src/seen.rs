//! What the fakes of a run saw.

use std::collections::HashMap;

use anabranch_proto::{Message, SessionId};

/// What the fakes saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) requests: Vec<Request>,
    pub(crate) cancels: Vec<Cancel>,
    /// What must not happen.
    pub(crate) faults: Vec<String>,
    pub(crate) stopped: Vec<SessionId>,
    pub(crate) steered: Vec<SessionId>,
    pub(crate) ran: Vec<u32>,
    /// How many events each call was told that it had emitted.
    pub(crate) reports: HashMap<u32, usize>,
}

/// What a model was asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// Whose model it was.
    pub(crate) agent: u32,
    /// Which of the run's model calls it was, from 0.
    pub(crate) turn: u32,
    /// The conversation.
    pub(crate) messages: Vec<Message>,
}

/// What was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancel {
    /// Whose run, where there was one: the number of its prompt, from 0.
    pub(crate) prompt: Option<usize>,
    /// Whether all that follow are stopped too.
    pub(crate) closes: bool,
    /// From which number on it must have been noticed.
    pub(crate) noticed: u64,
    /// Whether nothing else ended the run.
    pub(crate) is_last_resort: bool,
}
