//! What is heard of a child in the stream of its run.

use std::{collections::BTreeSet, str, sync::Arc};

use anabranch_proto::{Admitted, ErrorInfo, ErrorType, EventKind, Scope, native};
use anabranch_runtime::Heard;
use bytes::Bytes;

use super::{
    claim::{Claim, State},
    parts::{Part, Parts},
};

/// Takes a run's messages in the stream's order, and gives what counts: the events of whoever has the child, from its claim to
/// the next.
#[derive(Debug, Default)]
pub(super) struct Fence {
    attempt: u32,
    /// Who runs it now.
    worker: Option<String>,
    reader: native::Reader,
    parts: Parts,
    numbers: Numbers,
    /// The number of the child's terminal.
    terminal: Option<u64>,
}

/// Which numbers were heard.
#[derive(Debug, Default)]
struct Numbers {
    /// All up to this one.
    up_to: u64,
    beyond: BTreeSet<u64>,
}

/// How many numbers are remembered beyond one that is missing; who reads them gives up long before.
const BEYOND: usize = 4_096;

impl Numbers {
    fn note(&mut self, number: u64) {
        if number > self.up_to && self.beyond.len() < BEYOND {
            self.beyond.insert(number);
        }
        while self.beyond.remove(&self.up_to.saturating_add(1)) {
            self.up_to += 1;
        }
    }
}

impl Fence {
    /// Who runs it now, and as which attempt.
    pub(super) fn running(&self) -> Option<(&str, u32)> {
        self.worker.as_deref().map(|worker| (worker, self.attempt))
    }

    /// Whether the child has said its last.
    pub(super) fn has_ended(&self) -> bool {
        self.terminal.is_some()
    }

    /// Whether all was heard that the child has said.
    pub(super) fn is_complete(&self) -> bool {
        self.terminal.is_some_and(|terminal| self.numbers.up_to >= terminal)
    }

    /// Somebody says who runs it from here on.
    pub(super) fn claim(&mut self, claim: Claim) -> Result<Option<Heard>, ErrorInfo> {
        let Claim { attempt, worker, state } = claim;
        match state {
            State::Running => {
                let is_again = self.attempt > 0;
                self.attempt = attempt;
                self.worker = Some(worker);
                self.reader = native::Reader::default();
                self.parts = Parts::default();
                self.numbers = Numbers::default();
                self.terminal = None;
                Ok(is_again.then(|| Heard::again("its worker was lost")))
            }
            State::Released { .. } => {
                self.worker = None;
                Ok(None)
            }
            State::Lost { why } => Err(ErrorInfo::new(ErrorType::CONNECTION, why)),
            // Whoever reads this says so itself, and reads no further.
            State::Ended => Ok(None),
        }
    }

    /// A part of an event of an attempt.
    pub(super) fn event(
        &mut self,
        attempt: u32,
        number: Option<u64>,
        part: Option<Part>,
        payload: Bytes,
    ) -> Result<Option<Heard>, ErrorInfo> {
        if attempt != self.attempt || self.worker.is_none() {
            // Of somebody who has it no more, or not yet.
            return Ok(None);
        }
        let (Some(number), Some(part)) = (number, part) else {
            return Err(unreadable("a message without its number"));
        };
        let whole = self.parts.take(number, part, payload);
        let Some(whole) = whole.map_err(|_| unreadable("parts of an event that do not fit together"))? else {
            return Ok(None);
        };
        let text = str::from_utf8(&whole).map_err(|_| unreadable("an event that is no text"))?;
        let line = self.reader.read(text).map_err(|error| unreadable(&error.to_string()))?;
        self.numbers.note(number);
        if let (Scope::Root, EventKind::StreamComplete(_)) = (&line.event.scope, &line.event.kind) {
            self.terminal.get_or_insert(number);
        }
        Ok(Some(Admitted::new(number, Arc::new(line.event)).into()))
    }

    /// An attempt says why it has no more to say.
    pub(super) fn failed(&self, attempt: u32, payload: &[u8]) -> Result<(), ErrorInfo> {
        if attempt != self.attempt {
            return Ok(());
        }
        Err(serde_json::from_slice(payload).unwrap_or_else(|_| unreadable("an error that cannot be read")))
    }
}

fn unreadable(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorType::UPSTREAM, format!("the worker sent {what}"))
}

#[cfg(test)]
mod tests {
    use anabranch_proto::{Event, Metadata, Outcome, Timestamp, event::StreamComplete};

    use super::*;

    fn claim(attempt: u32, worker: &str, state: State) -> Claim {
        Claim { attempt, worker: worker.to_owned(), state }
    }

    fn line() -> Bytes {
        let kind = StreamComplete::new(Outcome::Completed);
        let event = Event::new("e", Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), kind);
        native::to_string(&event).unwrap().into()
    }

    const WHOLE: Option<Part> = Some(Part { index: 1, of: 1 });

    #[test]
    fn events_count_from_their_claim_to_the_next() {
        let mut fence = Fence::default();
        let counts =
            |fence: &mut Fence, attempt| fence.event(attempt, Some(1), WHOLE, line()).unwrap().is_some();
        assert!(!counts(&mut fence, 1), "nobody has it");
        assert_eq!(fence.claim(claim(1, "a", State::Running)), Ok(None));
        assert!(counts(&mut fence, 1));
        assert!(!counts(&mut fence, 2), "nobody has claimed that");
        assert_eq!(fence.running(), Some(("a", 1)));
        let again = fence.claim(claim(2, "b", State::Running)).unwrap();
        assert!(matches!(again, Some(Heard::Again { .. })));
        assert!(!counts(&mut fence, 1), "a worker that was only slow");
        assert!(counts(&mut fence, 2));
        fence.claim(claim(2, "b", State::Released { why: String::new() })).unwrap();
        assert!(!counts(&mut fence, 2));
        assert_eq!(fence.running(), None);
        let lost = fence.claim(claim(2, "b", State::Lost { why: "lost".to_owned() })).unwrap_err();
        assert_eq!(lost.message, "lost");
    }

    #[test]
    fn a_child_has_been_heard_when_all_before_its_terminal_has() {
        let mut fence = Fence::default();
        fence.claim(claim(1, "a", State::Running)).unwrap();
        for (number, is_complete) in [(3, false), (1, false), (1, false), (2, true)] {
            fence.event(1, Some(number), WHOLE, line()).unwrap();
            assert!(fence.has_ended());
            assert_eq!(fence.is_complete(), is_complete, "{number}");
        }
        fence.claim(claim(2, "b", State::Running)).unwrap();
        assert!(!fence.has_ended() && !fence.is_complete());
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_says_what() {
        let mut fence = Fence::default();
        fence.claim(claim(1, "a", State::Running)).unwrap();
        let mut error = |number, part, payload: &'static [u8]| {
            fence.event(1, number, part, Bytes::from_static(payload)).unwrap_err().message
        };
        assert_eq!(error(None, WHOLE, b""), "the worker sent a message without its number");
        assert_eq!(error(Some(1), None, b""), "the worker sent a message without its number");
        assert_eq!(error(Some(1), WHOLE, b"\xff"), "the worker sent an event that is no text");
        assert!(error(Some(1), WHOLE, b"{}").starts_with("the worker sent "));
        let told = serde_json::to_vec(&ErrorInfo::new(ErrorType::SETUP, "no such agent")).unwrap();
        assert_eq!(fence.failed(1, &told).unwrap_err().message, "no such agent");
        assert_eq!(fence.failed(2, &told), Ok(()), "of somebody who does not have it");
        assert!(fence.failed(1, b"?").is_err());
    }
}
