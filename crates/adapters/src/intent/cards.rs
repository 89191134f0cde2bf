//! The ids of cards.

use std::sync::Arc;

use anabranch_proto::{SessionId, ToolCallId};

use super::Speaker;
use crate::unique::Unique;

/// All card ids that were given out, so that none is given twice.
///
/// Grows with the number of children and calls of the root session, by their ids alone.
#[derive(Clone, Debug, Default)]
pub(super) struct CardIds(Unique);

impl CardIds {
    pub(super) fn of_child(&mut self, session: &SessionId, run: u32) -> Arc<str> {
        self.0.take(&format!("spawn:{session}{}", Suffix(run)))
    }

    pub(super) fn of_result(&mut self, session: &SessionId, run: u32) -> Arc<str> {
        self.0.take(&format!("spawn:{session}{}/result", Suffix(run)))
    }

    pub(super) fn of_call(&mut self, speaker: Speaker<'_>, call: &ToolCallId) -> Arc<str> {
        self.0.take(&match speaker {
            // A client may take an empty one for none.
            Speaker::Root if call.as_str().is_empty() => "_".to_owned(),
            Speaker::Root => call.to_string(),
            Speaker::Child(child) => format!("{}{}/{call}", child.session, Suffix(child.run)),
        })
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
