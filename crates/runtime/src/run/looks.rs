//! When to look at the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::Shared;

/// After how many items that came without a pause the time is looked at.
const ITEMS: u32 = 16;

/// For how long somebody who has no room holds producers up before they go on all the same, and how often that was.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    stall: Duration,
    held_up: Arc<AtomicU64>,
}

impl Patience {
    pub(crate) fn new(stall: Duration) -> Self {
        Self { stall, held_up: Arc::default() }
    }

    /// For how long.
    pub(crate) fn stall(&self) -> Duration {
        self.stall
    }

    /// Producers were held up: each looks at the time anew.
    pub(crate) fn held_up(&self) {
        self.held_up.fetch_add(1, Ordering::Release);
    }

    fn times_held_up(&self) -> u64 {
        self.held_up.load(Ordering::Acquire)
    }
}

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
        let held_up = shared.patience.times_held_up();
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
