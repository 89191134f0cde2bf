//! What streams and subjects are called.

use std::fmt::Write as _;

use anabranch_proto::SessionId;
use anabranch_runtime::Order;
use serde::{Deserialize, Serialize};

use super::NatsError;

/// How long a name may be.
const LONGEST: usize = 64;

/// A run of a child.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Key {
    /// Who ordered it, and says that it lives as workers do.
    pub(super) giver: String,
    pub(super) session_id: SessionId,
    pub(super) run: u32,
}

impl Key {
    pub(super) fn of(giver: &str, order: &Order) -> Self {
        Self { giver: giver.to_owned(), session_id: order.session_id.clone(), run: order.run }
    }
}

/// What streams and subjects are called that begin with a prefix.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
    queue: String,
}

/// What a message of a run's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Claim,
    /// An instruction for whoever runs it.
    Say,
    /// A part of an event, of the attempt of this number.
    Event(u32),
    /// Nothing that we know.
    Other,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { prefix: "anabranch".to_owned(), queue: "default".to_owned() }
    }

    pub(super) fn prefix(&mut self, prefix: String) -> Result<(), NatsError> {
        self.prefix = checked(prefix)?;
        Ok(())
    }

    pub(super) fn set_queue(&mut self, queue: String) -> Result<(), NatsError> {
        self.queue = checked(queue)?;
        Ok(())
    }

    pub(super) fn queue(&self) -> &str {
        &self.queue
    }

    pub(super) fn orders_stream(&self) -> String {
        format!("{}_ORDERS", self.prefix.to_uppercase())
    }

    pub(super) fn runs_stream(&self) -> String {
        format!("{}_RUNS", self.prefix.to_uppercase())
    }

    pub(super) fn all_orders(&self) -> String {
        format!("{}.orders.*", self.prefix)
    }

    pub(super) fn orders(&self) -> String {
        format!("{}.orders.{}", self.prefix, self.queue)
    }

    pub(super) fn all_runs(&self) -> String {
        format!("{}.runs.>", self.prefix)
    }

    /// All that is said of a run.
    pub(super) fn run(&self, key: &Key) -> String {
        format!("{}.>", self.of_run(key))
    }

    /// What is said to whoever runs it.
    pub(super) fn to_run(&self, key: &Key) -> String {
        format!("{}.to.*", self.of_run(key))
    }

    pub(super) fn claim(&self, key: &Key) -> String {
        format!("{}.to.claim", self.of_run(key))
    }

    pub(super) fn say(&self, key: &Key) -> String {
        format!("{}.to.say", self.of_run(key))
    }

    pub(super) fn events(&self, key: &Key, attempt: u32) -> String {
        format!("{}.from.{attempt}", self.of_run(key))
    }

    pub(super) fn all_events(&self, key: &Key) -> String {
        format!("{}.from.*", self.of_run(key))
    }

    /// Where workers say that they live.
    pub(super) fn alive(&self, worker: &str) -> String {
        format!("{}.alive.{worker}", self.prefix)
    }

    /// What a message with this subject is, of a run that one knows.
    pub(super) fn topic(subject: &str) -> Topic {
        let mut last = subject.rsplit('.');
        match (last.next(), last.next()) {
            (Some("claim"), Some("to")) => Topic::Claim,
            (Some("say"), Some("to")) => Topic::Say,
            (Some(attempt), Some("from")) => attempt.parse().map_or(Topic::Other, Topic::Event),
            _ => Topic::Other,
        }
    }

    fn of_run(&self, key: &Key) -> String {
        let Key { giver, session_id, run } = key;
        format!("{}.runs.{}.{}.{run}", self.prefix, token(giver), token(session_id.as_str()))
    }

    /// Who runs what a giver has ordered.
    pub(super) fn claims(&self, giver: &str) -> String {
        format!("{}.runs.{}.*.*.to.claim", self.prefix, token(giver))
    }
}

fn checked(name: String) -> Result<String, NatsError> {
    if (1..=LONGEST).contains(&name.len()) && name.bytes().all(is_plain) {
        Ok(name)
    } else {
        Err(NatsError::Name { name })
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Any text as one token of a subject.
fn token(text: &str) -> String {
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            token.push(char::from(byte));
        } else {
            // A string takes whatever is written.
            write!(token, "={byte:02X}").ok();
        }
    }
    if token.is_empty() { "=".to_owned() } else { token }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_is_one_token_of_its_own() {
        let ids = ["ses_01", "", "=", "a.b", "a b", "*", ">", "ü", "a=2Eb", "\n"];
        let tokens: Vec<_> = ids.iter().map(|id| token(id)).collect();
        for (index, token) in tokens.iter().enumerate() {
            assert!(!token.is_empty() && token.bytes().all(|byte| is_plain(byte) || byte == b'='), "{token}");
            assert!(!tokens[..index].contains(token), "{token}");
        }
    }

    #[test]
    fn a_message_is_known_by_the_end_of_its_subject() {
        let names = Names::new();
        let key = Key { giver: "g".to_owned(), session_id: "ses.to.claim".into(), run: 2 };
        assert_eq!(Names::topic(&names.claim(&key)), Topic::Claim);
        assert_eq!(Names::topic(&names.say(&key)), Topic::Say);
        assert_eq!(Names::topic(&names.events(&key, 7)), Topic::Event(7));
        assert_eq!(Names::topic("anabranch.runs.x.1.from.y"), Topic::Other);
        assert_eq!(Names::topic(""), Topic::Other);
    }

    #[test]
    fn a_name_that_would_be_more_than_one_token_is_refused() {
        for name in ["", "a.b", "a b", "*", &"x".repeat(65)] {
            assert!(matches!(checked(name.to_owned()), Err(NatsError::Name { .. })), "{name}");
        }
        assert_eq!(checked("Team_1-a".to_owned()).unwrap(), "Team_1-a");
    }
}
