//! What the processor did beyond passing events on.

/// How often the processor dropped, added or changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Events and spawns that came again and were dropped.
    pub duplicates: u64,
    /// Events that came when their run had ended, or belonged to none, and were dropped.
    pub late: u64,
    /// Runs that nobody had announced, for which a spawn was made.
    pub fallbacks: u64,
    /// Late spawns that became an update of a run made by fallback.
    pub upgrades: u64,
    /// Spawns that were refused because of a limit.
    pub refused: u64,
    /// Events of refused children, dropped.
    pub refused_events: u64,
    /// Runs that were put under the root because the parent that they stated was unknown or had ended.
    pub reparented: u64,
    /// Events and spawns that were changed: their parent, depth, run or sub-agent was missing or was not the tree's.
    pub rewritten: u64,
    /// Events that were made because something was missing: prompts, ends, results, terminals.
    pub synthesised: u64,
}
