//! How many sessions one root may have, and how deep.

/// What the processor refuses to go beyond.
///
/// The runtime checks its own limits before anything exists; these hold against whatever else sends events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How deep a child may lie: 1 allows children of the root and refuses theirs. 5 by default.
    pub max_depth: u32,
    /// How many child sessions one root may have in total, ended ones included. 10,000 by default.
    pub max_spawned: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_depth: 5, max_spawned: 10_000 }
    }
}

impl Limits {
    /// How deep a child may lie.
    #[must_use]
    pub fn max_depth(mut self, max_depth: u32) -> Self {
        self.max_depth = max_depth;
        self
    }

    /// How many child sessions one root may have in total.
    #[must_use]
    pub fn max_spawned(mut self, max_spawned: usize) -> Self {
        self.max_spawned = max_spawned;
        self
    }
}
