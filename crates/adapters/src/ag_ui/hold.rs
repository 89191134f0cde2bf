//! What happens between two runs, when nothing may be sent.

use std::collections::{HashMap, VecDeque};

use anabranch_proto::{
    Event, EventKind, SessionId,
    event::{SessionUpdated, StreamComplete},
};

/// Events that wait for the next run, in their order, within a bound.
#[derive(Clone, Debug)]
pub(super) struct Held {
    events: VecDeque<Event>,
    /// How many were taken: the number of the first.
    taken: usize,
    /// The number of the last update of each run.
    updates: HashMap<(SessionId, u32), usize>,
    bytes: usize,
    pub(super) most_bytes: usize,
    dropped: u64,
}

/// About what a screen can show of what was missed.
const MOST_BYTES: usize = 256 * 1024;

impl Default for Held {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            taken: 0,
            updates: HashMap::default(),
            bytes: 0,
            most_bytes: MOST_BYTES,
            dropped: 0,
        }
    }
}

impl Held {
    /// Keeps an event, or counts it where there is no room. What says that a session begins, ends, asks or is called
    /// otherwise always has room, since there are as many of them as there are children: of a run's updates one is enough, and
    /// an end comes without its final text.
    pub(super) fn keep(&mut self, event: &Event) {
        let fits = self.bytes.saturating_add(event.approximate_own_bytes()) <= self.most_bytes;
        if let EventKind::SessionUpdated(update) = &event.kind {
            if fits || !self.join(update) {
                let run = (update.child_session_id.clone(), update.run);
                self.updates.insert(run, self.taken.saturating_add(self.events.len()));
                self.push(event.clone());
            }
        } else if fits {
            self.push(event.clone());
        } else if let EventKind::StreamComplete(complete) = &event.kind {
            self.dropped += u64::from(complete.message.is_some());
            self.push(without_text(event, complete));
        } else if has_to_be_told(&event.kind) {
            self.push(event.clone());
        } else {
            self.dropped += 1;
        }
    }

    fn push(&mut self, event: Event) {
        self.bytes = self.bytes.saturating_add(event.approximate_own_bytes());
        self.events.push_back(event);
    }

    /// Lets what is learnt of a run join what is held of that already, where something is.
    fn join(&mut self, update: &SessionUpdated) -> bool {
        let run = (update.child_session_id.clone(), update.run);
        let at = self.updates.get(&run).and_then(|number| number.checked_sub(self.taken));
        let Some(event) = at.and_then(|at| self.events.get_mut(at)) else { return false };
        let before = event.approximate_own_bytes();
        if let EventKind::SessionUpdated(held) = &mut event.kind {
            held.source_name = update.source_name.clone().or(held.source_name.take());
            held.source_type = update.source_type.or(held.source_type);
            held.description = update.description.clone().or(held.description.take());
            held.spawn_mechanism = update.spawn_mechanism.or(held.spawn_mechanism);
            held.tool_call_id = update.tool_call_id.clone().or(held.tool_call_id.take());
        }
        let after = event.approximate_own_bytes();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        true
    }

    /// Takes the first event.
    pub(super) fn take(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.taken = self.taken.saturating_add(1);
        self.bytes = self.bytes.saturating_sub(event.approximate_own_bytes());
        if self.events.is_empty() {
            self.updates.clear();
        }
        Some(event)
    }

    /// How many events had no room since somebody last asked; an end without its text is one of them.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

fn has_to_be_told(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::SpawnSessionStart(_)
            | EventKind::RequireUserConfirm(_)
            | EventKind::RequireExternalExecution(_)
    )
}

/// An end without the final text.
fn without_text(event: &Event, complete: &StreamComplete) -> Event {
    let mut end = StreamComplete::new(complete.outcome);
    end.error.clone_from(&complete.error);
    let (id, scope) = (event.id.clone(), event.scope.clone());
    Event::new(id, event.created_at, scope, event.metadata.clone(), end)
}

#[cfg(test)]
mod tests {
    use anabranch_proto::{EventId, Message, Metadata, Outcome, Role, Scope, TextBlock, Timestamp};

    use super::*;

    fn event(kind: impl Into<EventKind>) -> Event {
        Event::new(EventId::new("e"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), kind)
    }

    #[test]
    fn what_has_to_be_told_is_kept_once_and_without_its_text_where_there_is_no_room() {
        let mut held = Held { most_bytes: 0, ..Held::default() };
        let text = "long ".repeat(1_000);
        for count in 0..1_000 {
            let update = SessionUpdated::new("ses_1", 1u32).description(Some(format!("{count} {text}")));
            let update = if count == 0 { update.source_name(Some("n1".into())) } else { update };
            held.keep(&event(update));
        }
        held.keep(&event(SessionUpdated::new("ses_1", 2u32)));
        let content = vec![TextBlock::new(text.as_str()).into()];
        let message = Message::new("r", "n1", Role::Assistant, content);
        held.keep(&event(StreamComplete::new(Outcome::Completed).message(message)));
        assert!(held.bytes < 2 * text.len(), "{}", held.bytes);
        assert_eq!(held.take_dropped(), 1);
        let Some(EventKind::SessionUpdated(update)) = held.take().map(|event| event.kind) else { panic!() };
        assert_eq!(update.source_name.as_deref(), Some("n1"));
        assert!(update.description.unwrap().starts_with("999 "));
        // What was taken is joined no more.
        held.keep(&event(SessionUpdated::new("ses_1", 1u32)));
        let kinds: Vec<_> =
            std::iter::from_fn(|| held.take()).map(|event| event.kind.tag().to_owned()).collect();
        assert_eq!(kinds, ["SESSION_UPDATED", "STREAM_COMPLETE", "SESSION_UPDATED"]);
    }
}
