//! When a server is killed.

use crate::{mode::Mode, random::Random};

/// When a server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Between a lifecycle event's append and its delivery.
    Held,
    /// As such an event is on its way to the disk.
    Commit,
    /// As old runs are forgotten.
    Forgetting,
    /// While it starts and closes what ran before.
    Restart,
    Any,
}

impl Moment {
    pub(crate) const ALL: [Self; 5] = [Self::Held, Self::Commit, Self::Forgetting, Self::Restart, Self::Any];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Held => "between append and delivery",
            Self::Commit => "during a commit",
            Self::Forgetting => "while old runs are forgotten",
            Self::Restart => "during a restart",
            Self::Any => "at any time",
        }
    }
}

/// Gives moments in a random order, of which three in five are [`Moment::Held`].
#[derive(Debug, Default)]
pub(crate) struct Deck(Vec<Moment>);

impl Deck {
    pub(crate) fn next(&mut self, mode: Mode, random: &mut Random) -> Moment {
        if self.0.is_empty() {
            let other = if random.below(2) == 0 { Moment::Commit } else { Moment::Restart };
            let rare = if random.below(2) == 0 { Moment::Any } else { Moment::Restart };
            self.0 = vec![Moment::Held, Moment::Held, Moment::Held, other, rare];
        }
        let which = usize::try_from(random.below(self.0.len() as u64)).unwrap_or_default();
        let moment = self.0.swap_remove(which);
        let is_forgetting = mode == Mode::Forgetting && moment == Moment::Commit;
        if is_forgetting { Moment::Forgetting } else { moment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_five_moments_three_are_between_an_append_and_its_delivery() {
        for seed in 0..50 {
            let (mut deck, mut random) = (Deck::default(), Random::new(seed));
            let moments: Vec<_> = (0..20).map(|_| deck.next(Mode::Default, &mut random)).collect();
            assert!(
                moments
                    .chunks(5)
                    .all(|five| five.iter().filter(|moment| **moment == Moment::Held).count() == 3)
            );
        }
    }
}
