//! When to look at the time.

use std::sync::atomic::Ordering;

use super::Shared;

/// After how many items that came without a pause the time is looked at.
const ITEMS: u32 = 16;

/// When whoever passes items on is to look at the time: now and then, and anew after a reader held the session up.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    items: u32,
    held_up: u64,
}

impl Looks {
    /// An item was passed on.
    pub(crate) fn passed(&mut self) {
        self.items += 1;
    }

    /// Whether it is time to look before the next item. Whoever is told so looks.
    pub(crate) fn is_due(&mut self, shared: &Shared) -> bool {
        let held_up = shared.held_up.load(Ordering::Acquire);
        let is_due = self.items >= ITEMS || self.held_up != held_up;
        self.held_up = held_up;
        if is_due {
            self.items = 0;
        }
        is_due
    }

    /// It has come to a pause, at which the time is looked at anyway.
    pub(crate) fn paused(&mut self) {
        self.items = 0;
    }
}
