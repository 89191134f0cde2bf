//! The ids of cards.

use std::{collections::HashSet, sync::Arc};

use anabranch_proto::{SessionId, ToolCallId};

use super::Speaker;

/// All card ids that were given out, so that none is given twice.
///
/// Grows with the number of children and calls of the root session, by their ids alone.
#[derive(Clone, Debug, Default)]
pub(super) struct CardIds(HashSet<Arc<str>>);

impl CardIds {
    pub(super) fn of_child(&mut self, session: &SessionId, run: u32) -> Arc<str> {
        self.unique(&format!("spawn:{session}{}", Suffix(run)))
    }

    pub(super) fn of_result(&mut self, session: &SessionId, run: u32) -> Arc<str> {
        self.unique(&format!("spawn:{session}{}/result", Suffix(run)))
    }

    pub(super) fn of_call(&mut self, speaker: Speaker<'_>, call: &ToolCallId) -> Arc<str> {
        self.unique(&match speaker {
            Speaker::Root => call.to_string(),
            Speaker::Child(child) => format!("{}{}/{call}", child.session, Suffix(child.run)),
        })
    }

    /// The wanted id, or where somebody has it, the first free one of `…#2`, `…#3`.
    fn unique(&mut self, wanted: &str) -> Arc<str> {
        let mut id: Arc<str> = wanted.into();
        let mut count: u64 = 1;
        while !self.0.insert(Arc::clone(&id)) {
            count += 1;
            id = format!("{wanted}#{count}").into();
        }
        id
    }
}

/// Nothing for the first run, `#2` for the second.
struct Suffix(u32);

impl std::fmt::Display for Suffix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 | 1 => Ok(()),
            run => write!(f, "#{run}"),
        }
    }
}
