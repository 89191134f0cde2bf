//! What happens between two runs, when nothing may be sent.

use std::collections::VecDeque;

use anabranch_proto::{Event, EventKind};

/// Events that wait for the next run, in their order, within a bound.
#[derive(Clone, Debug)]
pub(super) struct Held {
    events: VecDeque<Event>,
    bytes: usize,
    pub(super) most_bytes: usize,
    dropped: u64,
}

/// About what a screen can show of what was missed.
const MOST_BYTES: usize = 256 * 1024;

impl Default for Held {
    fn default() -> Self {
        Self { events: VecDeque::new(), bytes: 0, most_bytes: MOST_BYTES, dropped: 0 }
    }
}

impl Held {
    /// Keeps an event, or counts it where there is no room. What says that a session begins, ends or is called
    /// otherwise always has room: there are as many of them as there are children.
    pub(super) fn keep(&mut self, event: &Event) {
        let bytes = event.approximate_own_bytes();
        if self.bytes.saturating_add(bytes) > self.most_bytes && !is_lifecycle(&event.kind) {
            self.dropped += 1;
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.events.push_back(event.clone());
    }

    /// Takes the first event.
    pub(super) fn take(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(event.approximate_own_bytes());
        Some(event)
    }

    /// How many events had no room since somebody last asked.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

fn is_lifecycle(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::SpawnSessionStart(_)
            | EventKind::SessionUpdated(_)
            | EventKind::StreamComplete(_)
            | EventKind::RequireUserConfirm(_)
            | EventKind::RequireExternalExecution(_)
    )
}
