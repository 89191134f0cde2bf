//! Ids: of runs, and of what is sent in them.

use std::{collections::HashMap, sync::Arc};

use anabranch_proto::SessionId;

/// The thread and the run that a client knows, from its `RunAgentInput`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunIds {
    /// The thread: one conversation.
    pub thread_id: Arc<str>,
    /// The run: one answer.
    pub run_id: Arc<str>,
}

impl RunIds {
    /// A run of a thread.
    pub fn new(thread_id: impl Into<Arc<str>>, run_id: impl Into<Arc<str>>) -> Self {
        Self { thread_id: thread_id.into(), run_id: run_id.into() }
    }
}

/// Whose an id is: a child's run, or the root's where there is none.
pub(super) type OwnerId = Option<Arc<str>>;

/// The ids of messages and calls that were sent, each with its owner, so that no two owners share one.
///
/// Grows with the number of messages and calls, by their ids alone.
#[derive(Clone, Debug, Default)]
pub(super) struct SentIds(HashMap<Arc<str>, OwnerId>);

impl SentIds {
    /// The id that an owner's `local` id is sent as: as it is for the root, after the run's id for a child. The same
    /// each time; where another owner has it, with the first free one of `#2`, `#3`…
    pub(super) fn of(&mut self, owner: &OwnerId, local: &str) -> Arc<str> {
        let wanted = wanted(owner, local);
        let mut id = Arc::clone(&wanted);
        let mut count: u64 = 1;
        loop {
            match self.0.get_key_value(&id) {
                Some((known, whose)) if whose == owner => return Arc::clone(known),
                Some(_) => {
                    count += 1;
                    id = format!("{wanted}#{count}").into();
                }
                None => {
                    self.0.insert(Arc::clone(&id), owner.clone());
                    return id;
                }
            }
        }
    }

    /// Whether an owner's `local` id was sent.
    pub(super) fn has(&self, owner: &OwnerId, local: &str) -> bool {
        self.0.contains_key(&wanted(owner, local))
    }
}

fn wanted(owner: &OwnerId, local: &str) -> Arc<str> {
    match owner {
        None => local.into(),
        Some(run) => format!("{run}:{local}").into(),
    }
}

/// The id of a child's run: the session's, from the second run on with its number.
pub(super) fn of_child(session: &SessionId, run: u32) -> String {
    match run {
        0 | 1 => session.to_string(),
        run => format!("{session}#{run}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_owners_share_an_id_and_the_same_owner_keeps_its_own() {
        let mut ids = SentIds::default();
        let (root, child) = (None, Some(Arc::from("ses_1")));
        assert_eq!(&*ids.of(&child, "call_0"), "ses_1:call_0");
        assert_eq!(&*ids.of(&root, "call_0"), "call_0");
        assert_eq!(&*ids.of(&root, "ses_1:call_0"), "ses_1:call_0#2", "forged");
        assert_eq!(&*ids.of(&child, "call_0"), "ses_1:call_0");
        assert_eq!(&*ids.of(&root, "ses_1:call_0"), "ses_1:call_0#2");
    }
}
