//! Children that were refused.

use std::collections::VecDeque;

use anabranch_proto::SessionId;

use crate::hash::IdSet;

/// How many are remembered. One that is forgotten is judged anew by its next event, with the same result.
const WINDOW: usize = 1_024;

/// The last refused children.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    known: IdSet<SessionId>,
    order: VecDeque<SessionId>,
}

impl Refused {
    pub(crate) fn contains(&self, session: &SessionId) -> bool {
        self.known.contains(session)
    }

    /// Remembers a child; whether it was not remembered before.
    pub(crate) fn insert(&mut self, session: &SessionId) -> bool {
        let new = self.known.insert(session.clone());
        if new {
            self.order.push_back(session.clone());
            if self.order.len() > WINDOW
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
        new
    }
}
