//! When a card may be written again.

use std::{collections::BTreeSet, sync::Arc};

use anabranch_proto::Timestamp;

/// Between two updates of a card that runs, in milliseconds: at most four a second.
const PAUSE: i64 = 250;

/// From the first thing that a card has to show until it may, in milliseconds: more is likely on its way, or the end.
const SETTLING: i64 = 50;

/// What waits until its time has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    now: i64,
    ticks: Ticks,
    /// Cards that have something to show, and from when on they may.
    waiting: BTreeSet<(i64, Arc<str>)>,
}

/// Who says what time it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ticks {
    /// The events, since nobody else does.
    #[default]
    Events,
    /// Who calls `tick`. Events come from other machines too, with clocks of their own.
    Caller,
}

/// When a card may be written again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    from: i64,
    is_waiting: bool,
}

impl Clock {
    /// An event says what time it is.
    pub(super) fn event(&mut self, at: Timestamp) {
        if self.ticks == Ticks::Events {
            self.now = self.now.max(at.unix_millis());
        }
    }

    /// The caller says what time it is.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let now = now.unix_millis();
        if self.ticks == Ticks::Caller {
            self.now = self.now.max(now);
        } else {
            // What waits does so by another clock.
            self.ticks = Ticks::Caller;
            self.now = now;
            self.waiting =
                std::mem::take(&mut self.waiting).into_iter().map(|(_, card)| (now, card)).collect();
        }
    }

    /// The pace of a card that is written now.
    pub(super) fn written(&self) -> Pace {
        Pace { from: self.now.saturating_add(PAUSE), is_waiting: false }
    }

    /// A card has something to show.
    pub(super) fn wait(&mut self, card: &Arc<str>, pace: &mut Pace) {
        if !pace.is_waiting {
            pace.is_waiting = true;
            pace.from = pace.from.clamp(self.now.saturating_add(SETTLING), self.now.saturating_add(PAUSE));
            self.waiting.insert((pace.from, Arc::clone(card)));
        }
    }

    /// The card is closed: what it had to show came with its end. One that waits by another clock is found gone later.
    pub(super) fn forget(&mut self, card: &Arc<str>, pace: Pace) {
        if pace.is_waiting {
            self.waiting.remove(&(pace.from, Arc::clone(card)));
        }
    }

    /// The next card whose time has come.
    pub(super) fn next(&mut self) -> Option<Arc<str>> {
        if self.waiting.first()?.0 > self.now {
            return None;
        }
        Some(self.waiting.pop_first()?.1)
    }
}
