//! Who reads, and who stops what.

use super::{CancelHow, CancelPlan, Fate, Pace, ReaderPlan, ReplyPlan};
use crate::Random;

fn pace(random: &mut Random) -> Pace {
    match random.below(10) {
        0..6 => Pace::Fast,
        6..9 => Pace::Slow(random.between(1, 15)),
        _ => Pace::Never,
    }
}

pub(super) fn reply(random: &mut Random) -> ReplyPlan {
    let at = random.below(60);
    let fate = match random.below(20) {
        0..15 => Fate::Reads,
        15..17 => Fate::Cancels(at),
        17 => Fate::LeavesAndCancels(at),
        18 => Fate::CancelsNext,
        _ => Fate::Leaves(at),
    };
    ReplyPlan { pace: pace(random), fate }
}

pub(super) fn reader(random: &mut Random) -> ReaderPlan {
    let late = random.percent(30);
    ReaderPlan {
        lossless: random.percent(50),
        pace: pace(random),
        comes: if late { random.between(1, 100) } else { 0 },
        after: if random.percent(20) { random.below(40) } else { 0 },
        vanishes: random.percent(25).then(|| random.below(50)),
    }
}

pub(super) fn cancel(random: &mut Random) -> CancelPlan {
    let magnitude = random.between(1, 9);
    let poll = 1 + random.below(1 << magnitude);
    let how = *random
        .weighted(&[
            (4, CancelHow::Session),
            (2, CancelHow::Close),
            (4, CancelHow::Task),
            (4, CancelHow::Child),
            (5, CancelHow::Steer),
        ])
        .unwrap_or(&CancelHow::Session);
    CancelPlan { poll, how }
}
