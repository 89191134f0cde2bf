//! The questions that nobody has answered.

use std::sync::Arc;

use anabranch_proto::{SessionId, ToolCallId};
use foldhash::HashMap;

use super::{frame::Interrupt, interrupt};
use crate::intent::Asked;

/// The questions that nobody has answered, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions {
    by_session: HashMap<SessionId, HashMap<(ToolCallId, Asked), Question>>,
    /// How many were asked in all.
    count: u64,
}

#[derive(Clone, Debug)]
struct Question {
    number: u64,
    /// What the client was told.
    told: Option<Interrupt>,
}

impl Questions {
    /// A session's call waits for somebody.
    pub(super) fn ask(&mut self, session: &SessionId, call: &ToolCallId, asked: Asked) {
        let questions = self.by_session.entry(session.clone()).or_default();
        let number = self.count;
        questions.entry((call.clone(), asked)).or_insert(Question { number, told: None });
        self.count = self.count.saturating_add(1);
    }

    /// The answer came.
    pub(super) fn answered(&mut self, session: &SessionId, call: &ToolCallId, asked: Asked) {
        if let Some(questions) = self.by_session.get_mut(session) {
            questions.remove(&(call.clone(), asked));
        }
    }

    /// The call waits no longer, whomever it waited for.
    pub(super) fn withdraw(&mut self, session: &SessionId, call: &ToolCallId) {
        for asked in [Asked::Person, Asked::Executor] {
            self.answered(session, call, asked);
        }
    }

    /// Nothing of the session waits any longer.
    pub(super) fn withdraw_all(&mut self, session: &SessionId) {
        self.by_session.remove(session);
    }

    /// Notes what the client is to be told of a question; `child` is who asks, where it is to be named, and `id` and `name` are
    /// the call's at the client. Whether there is such a question.
    pub(super) fn tell(
        &mut self,
        (session, call, asked): (&SessionId, &ToolCallId, Asked),
        child: Option<Arc<str>>,
        (id, name): (&Arc<str>, &str),
    ) -> bool {
        let question = self.by_session.get_mut(session);
        let question = question.and_then(|questions| questions.get_mut(&(call.clone(), asked)));
        if let Some(question) = question {
            question.told = Some(interrupt::of_question((session, call, asked), child, id, name));
            return true;
        }
        false
    }

    /// What the client is told of all of them, in the order in which they were asked.
    pub(super) fn told(&self) -> Vec<Interrupt> {
        in_order(self.by_session.values().flat_map(HashMap::values)).cloned().collect()
    }

    /// The ids of those that a session asks.
    pub(super) fn told_by(&self, session: &SessionId) -> Vec<&str> {
        let questions = self.by_session.get(session).into_iter().flat_map(HashMap::values);
        in_order(questions).map(|told| told.id.as_str()).collect()
    }
}

fn in_order<'q>(questions: impl Iterator<Item = &'q Question>) -> impl Iterator<Item = &'q Interrupt> {
    let told = questions.filter_map(|question| Some((question.number, question.told.as_ref()?)));
    let mut told: Vec<_> = told.collect();
    told.sort_unstable_by_key(|(number, _)| *number);
    told.into_iter().map(|(_, told)| told)
}
