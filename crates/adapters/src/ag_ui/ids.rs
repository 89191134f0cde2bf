//! Ids: of runs, and of what is sent in them.

use std::{borrow::Cow, collections::hash_map::Entry, sync::Arc};

use anabranch_proto::{BlockId, ReplyId, SessionId, ToolCallId};
use foldhash::HashMap;

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

/// Something that is sent under an id of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Text(ReplyId, BlockId),
    Thought(ReplyId, BlockId),
    Call(ToolCallId),
    /// The message that is a call's result.
    Result(ToolCallId),
}

impl What {
    /// What the producer calls it; of a result, what it belongs to.
    fn local(&self) -> Cow<'_, str> {
        match self {
            Self::Text(_, block) | Self::Thought(_, block) => Cow::Borrowed(block.as_str()),
            Self::Call(call) => Cow::Borrowed(call.as_str()),
            Self::Result(call) => Cow::Owned(format!("{call}:result")),
        }
    }
}

/// The ids of messages and calls that were sent, so that no two share one: neither two owners' nor two of one.
///
/// Grows with the number of messages and calls, by their ids alone.
#[derive(Clone, Debug, Default)]
pub(super) struct SentIds {
    /// Clients keep thoughts and results among messages, and a call that belongs to no message under its own id.
    ids: HashMap<Arc<str>, Sent>,
    /// Those that have another id than the one that they wanted.
    others: HashMap<Sent, Arc<str>>,
    /// How often an id was wanted that somebody has.
    wanted: HashMap<Arc<str>, u64>,
}

/// What was sent, and whose it is.
type Sent = (OwnerId, What);

impl SentIds {
    /// The id that something of an owner's is sent as: its own for the root, after the run's id for a child. The same each
    /// time; where something else has it, with the first free one of `#2`, `#3`…
    pub(super) fn of(&mut self, owner: &OwnerId, what: What) -> Arc<str> {
        let wanted = wanted(owner, &what);
        let sent = (owner.clone(), what);
        match self.ids.get_key_value(&*wanted) {
            Some((id, known)) if *known == sent => return Arc::clone(id),
            Some(_) => {}
            None => {
                self.ids.insert(Arc::clone(&wanted), sent);
                return wanted;
            }
        }
        if let Some(id) = self.others.get(&sent) {
            return Arc::clone(id);
        }
        let count = self.wanted.entry(Arc::clone(&wanted)).or_insert(1);
        loop {
            *count = count.saturating_add(1);
            let id: Arc<str> = format!("{wanted}#{count}").into();
            if let Entry::Vacant(free) = self.ids.entry(Arc::clone(&id)) {
                free.insert(sent.clone());
                self.others.insert(sent, Arc::clone(&id));
                return id;
            }
        }
    }

    /// Whether something of an owner's was sent.
    pub(super) fn has(&self, owner: &OwnerId, what: What) -> bool {
        let wanted = wanted(owner, &what);
        let sent = (owner.clone(), what);
        self.ids.get(&*wanted) == Some(&sent) || self.others.contains_key(&sent)
    }
}

fn wanted(owner: &OwnerId, what: &What) -> Arc<str> {
    match owner {
        // A client may take an empty one for none.
        None if what.local().is_empty() => "_".into(),
        None => what.local().into(),
        Some(run) => format!("{run}:{}", what.local()).into(),
    }
}

/// The id of a child's run: the session's, from the second run on with its number.
pub(super) fn of_child(session: &SessionId, run: u32) -> String {
    match run {
        0 | 1 if session.as_str().is_empty() => "_".to_owned(),
        0 | 1 => session.to_string(),
        run => format!("{session}#{run}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_share_an_id_and_each_keeps_its_own() {
        let mut ids = SentIds::default();
        let (root, child) = (None, Some(Arc::from("ses_1")));
        let call = |id: &str| What::Call(ToolCallId::new(id));
        let text = |reply: &str, block: &str| What::Text(ReplyId::new(reply), BlockId::new(block));
        for _ in 0..2 {
            assert_eq!(&*ids.of(&child, call("call_0")), "ses_1:call_0");
            assert_eq!(&*ids.of(&root, call("call_0")), "call_0");
            assert_eq!(&*ids.of(&root, call("ses_1:call_0")), "ses_1:call_0#2", "forged");
            // Blocks that were counted as calls were.
            assert_eq!(&*ids.of(&root, text("r", "call_0")), "call_0#2");
            assert_eq!(&*ids.of(&root, text("r", "call_0:result")), "call_0:result");
            assert_eq!(&*ids.of(&root, What::Result("call_0".into())), "call_0:result#2");
            // Blocks that were counted anew in each reply, and thoughts that were counted apart.
            assert_eq!(&*ids.of(&root, text("s", "call_0")), "call_0#3");
            assert_eq!(&*ids.of(&root, What::Thought("r".into(), "call_0".into())), "call_0#4");
        }
        assert!(ids.has(&root, What::Result("call_0".into())));
        assert!(!ids.has(&child, What::Result("call_0".into())));
    }
}
