//! Edits of a stream.

use std::sync::Arc;

use anabranch_proto::{Admitted, ChildScope, Event, EventKind, Scope};

/// A stream that is being edited. Places are named by kind: the first, second… event of it, from 0.
#[derive(Debug)]
pub(super) struct Edit {
    events: Vec<Event>,
    /// A number that is left out.
    gap: Option<u64>,
}

/// An event, by its kind and which one of these it is.
pub(super) type Place = (&'static str, usize);

impl Edit {
    pub(super) fn new(events: &[Admitted]) -> Self {
        Self { events: events.iter().map(|admitted| Event::clone(&admitted.event)).collect(), gap: None }
    }

    /// The edited stream, numbered anew.
    pub(super) fn into_events(self) -> Vec<Admitted> {
        let gap = self.gap;
        let numbers = (1..).filter(|number| Some(*number) != gap);
        numbers.zip(self.events).map(|(seq, event)| Admitted::new(seq, Arc::new(event))).collect()
    }

    pub(super) fn leave_out_number(&mut self, number: u64) {
        self.gap = Some(number);
    }

    /// Puts another stream in place of this one.
    pub(super) fn replace(&mut self, events: Vec<Arc<Event>>) {
        self.events = events.into_iter().map(Arc::unwrap_or_clone).collect();
    }

    pub(super) fn remove(&mut self, place: Place) {
        let at = self.at(place);
        self.events.remove(at);
    }

    /// Has an event come again right behind itself.
    pub(super) fn repeat(&mut self, place: Place) {
        self.copy_behind(place, place);
    }

    /// Has an event come again behind another one.
    pub(super) fn copy_behind(&mut self, place: Place, other: Place) {
        let (from, to) = (self.at(place), self.at(other));
        if let Some(event) = self.events.get(from).cloned() {
            self.events.insert(to + 1, event);
        }
    }

    /// Has an event come behind another, later one instead.
    pub(super) fn put_behind(&mut self, place: Place, other: Place) {
        let from = self.at(place);
        self.copy_behind(place, other);
        self.events.remove(from);
    }

    /// Changes what an event says.
    pub(super) fn change(&mut self, place: Place, change: impl FnOnce(&mut EventKind)) {
        let at = self.at(place);
        if let Some(event) = self.events.get_mut(at) {
            change(&mut event.kind);
        }
    }

    /// Changes the scope of a child's event.
    pub(super) fn change_scope(&mut self, place: Place, change: impl FnOnce(ChildScope) -> ChildScope) {
        let at = self.at(place);
        if let Some(event) = self.events.get_mut(at)
            && let Some(child) = event.scope.child()
        {
            event.scope = Scope::from(change(ChildScope::clone(child)));
        }
    }

    #[expect(clippy::panic, reason = "for tests, where a failure is best told at once")]
    fn at(&self, (tag, nth): Place) -> usize {
        let mut places = self.events.iter().enumerate().filter(|(_, event)| event.kind.tag() == tag);
        let Some((at, _)) = places.nth(nth) else { panic!("the stream has no {tag} number {nth}") };
        at
    }
}
