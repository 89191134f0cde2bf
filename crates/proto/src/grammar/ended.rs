//! Ids of what has ended, up to a bound.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
};

/// The last ids that ended, each with its session. Forgets the oldest beyond the bound.
#[derive(Clone, Debug)]
pub(super) struct Ended<K> {
    order: VecDeque<(usize, K)>,
    known: HashSet<(usize, K)>,
    bound: usize,
}

impl<K: Clone + Eq + Hash> Ended<K> {
    pub(super) fn new(bound: usize) -> Self {
        Self { order: VecDeque::new(), known: HashSet::new(), bound }
    }

    pub(super) fn set_bound(&mut self, bound: usize) {
        self.bound = bound;
        self.forget();
    }

    pub(super) fn insert(&mut self, session: usize, id: &K) {
        if self.known.insert((session, id.clone())) {
            self.order.push_back((session, id.clone()));
            self.forget();
        }
    }

    pub(super) fn contains(&self, session: usize, id: &K) -> bool {
        self.known.contains(&(session, id.clone()))
    }

    fn forget(&mut self) {
        while self.order.len() > self.bound
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_beyond_the_bound() {
        let mut ended = Ended::new(2);
        for id in ["a", "b", "b", "c"] {
            ended.insert(0, &id);
        }
        let known = ["a", "b", "c"].map(|id| ended.contains(0, &id));
        assert_eq!(known, [false, true, true]);
        assert!(!ended.contains(1, &"c"));
        ended.set_bound(1);
        assert_eq!((ended.order.len(), ended.known.len()), (1, 1));
    }
}
