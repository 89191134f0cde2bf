//! The open questions of a root session and of all sessions below it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_proto::{PermissionRule, SessionId, ToolCallBlock, ToolCallId};
use tokio::sync::oneshot;

use super::{Answer, AnswerError};

/// Of how many questions it is known that they were answered.
const ANSWERED: usize = 1_024;

/// How many rules people may give in one session.
const MAX_RULES: usize = 1_024;

/// An open question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Question {
    /// The session whose call it is about.
    pub session_id: SessionId,
    /// The call.
    pub call: ToolCallBlock,
    /// What is asked.
    pub kind: QuestionKind,
}

/// What a question asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuestionKind {
    /// Whether the call may run.
    Confirm,
    /// What the call comes to, which somebody else is to run.
    External,
}

impl fmt::Display for QuestionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Confirm => "whether the call may run",
            Self::External => "what the call comes to",
        })
    }
}

type Key = (SessionId, ToolCallId);

/// The open questions, and the rules that came with answers.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: HashMap<Key, Open>,
    asked: u64,
    /// The last that were answered, the oldest first.
    answered: VecDeque<Key>,
    rules: Vec<PermissionRule>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    question: Question,
    sender: oneshot::Sender<Answer>,
}

/// A question that was asked. Dropping it withdraws the question.
#[derive(Debug)]
pub(crate) struct Asked {
    questions: Arc<Questions>,
    key: Key,
    number: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Questions {
    /// No questions, and rules that people gave before.
    pub(crate) fn with_rules_of(rules: &[PermissionRule]) -> Arc<Self> {
        let questions = Self::default();
        questions.lock().remember(rules);
        Arc::new(questions)
    }

    pub(crate) fn ask(self: &Arc<Self>, question: Question) -> Asked {
        let (sender, answer) = oneshot::channel();
        let key = (question.session_id.clone(), question.call.id.clone());
        let mut state = self.lock();
        state.asked += 1;
        let number = state.asked;
        state.open.insert(key.clone(), Open { number, question, sender });
        Asked { questions: Arc::clone(self), key, number, answer }
    }

    /// Gives an answer to the call that asked.
    pub(crate) fn answer(
        &self,
        session: &SessionId,
        call: &ToolCallId,
        answer: Answer,
    ) -> Result<(), AnswerError> {
        self.answer_all(vec![(session.clone(), call.clone(), answer)])
    }

    /// Gives answers to the calls that asked: all of them or, where one is not taken, none.
    pub(crate) fn answer_all(
        &self,
        answers: Vec<(SessionId, ToolCallId, Answer)>,
    ) -> Result<(), AnswerError> {
        let mut state = self.lock();
        let mut seen = HashSet::with_capacity(answers.len());
        for (session, call, answer) in &answers {
            let key = (session.clone(), call.clone());
            let is_answered = seen.contains(&key) || state.answered.contains(&key);
            match state.open.get(&key).filter(|_| !seen.contains(&key)) {
                Some(open) => answer.check(open.question.kind)?,
                None if is_answered => {
                    return Err(AnswerError::Answered { session: session.clone(), call: call.clone() });
                }
                None => return Err(AnswerError::NotOpen { session: session.clone(), call: call.clone() }),
            }
            seen.insert(key);
        }
        for (session, call, answer) in answers {
            state.give((session, call), answer);
        }
        Ok(())
    }

    /// The open questions, in the order in which they were asked.
    pub(crate) fn open(&self) -> Vec<Question> {
        let state = self.lock();
        let mut open: Vec<_> = state.open.values().collect();
        open.sort_unstable_by_key(|open| open.number);
        open.into_iter().map(|open| open.question.clone()).collect()
    }

    /// The rules that people gave with their answers.
    pub(crate) fn with_rules<T>(&self, look: impl FnOnce(&[PermissionRule]) -> T) -> T {
        look(&self.lock().rules)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember(&mut self, rules: &[PermissionRule]) {
        for rule in rules {
            if !self.rules.contains(rule) && self.rules.len() < MAX_RULES {
                self.rules.push(rule.clone());
            }
        }
    }

    /// Gives an answer that fits its question, which is open: who asked is there to take it, see [`Asked`].
    fn give(&mut self, key: Key, answer: Answer) {
        let rules = if let Answer::Allow { rules, .. } = &answer { rules.clone() } else { Vec::new() };
        let sent = self.open.remove(&key).is_some_and(|open| open.sender.send(answer).is_ok());
        debug_assert!(sent, "a question that is open has somebody who asks it");
        self.remember(&rules);
        self.answered.push_back(key);
        if self.answered.len() > ANSWERED {
            self.answered.pop_front();
        }
    }
}

impl Asked {
    /// The answer; none where nobody gave one in time. An answer that was taken is never lost.
    pub(crate) async fn answer(mut self, limit: Duration) -> Option<Answer> {
        if let Ok(answer) = tokio::time::timeout(limit, &mut self.answer).await {
            return answer.ok();
        }
        // Under the lock under which answers are given: it was taken by now, or never will be.
        self.withdraw();
        self.answer.try_recv().ok()
    }

    fn withdraw(&self) {
        let mut state = self.questions.lock();
        if state.open.get(&self.key).is_some_and(|open| open.number == self.number) {
            state.open.remove(&self.key);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // Before the receiver is gone, so that no answer is taken that nobody reads.
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::ToolChunk;

    use super::*;

    fn question(kind: QuestionKind) -> Question {
        Question { session_id: "ses".into(), call: ToolCallBlock::new("call", "write", "{}"), kind }
    }

    #[test]
    fn an_answer_is_taken_once_and_only_where_it_fits() {
        let questions = Arc::<Questions>::default();
        let mut asked = questions.ask(question(QuestionKind::Confirm));
        let answer = |answer| questions.answer(&"ses".into(), &"call".into(), answer);
        let (session, call) = (SessionId::from("ses"), ToolCallId::from("call"));
        assert_eq!(
            answer(Answer::output("x")),
            Err(AnswerError::OfAnotherKind { asked: QuestionKind::Confirm })
        );
        assert!(matches!(answer(Answer::allow_with("[1]")), Err(AnswerError::Arguments(_))));
        assert_eq!(questions.open().len(), 1);
        assert_eq!(answer(Answer::deny()), Ok(()));
        assert_eq!(asked.answer.try_recv(), Ok(Answer::deny()));
        assert_eq!(questions.open(), []);
        assert_eq!(answer(Answer::allow()), Err(AnswerError::Answered { session: session.clone(), call }));
        let other = ToolCallId::from("other");
        assert_eq!(
            questions.answer(&session, &other, Answer::allow()),
            Err(AnswerError::NotOpen { session: session.clone(), call: other.clone() })
        );
    }

    #[test]
    fn of_many_answers_all_are_taken_or_none() {
        let questions = Arc::<Questions>::default();
        let ask = |call: &str, kind| {
            let call = ToolCallBlock::new(call, "write", "{}");
            questions.ask(Question { session_id: "ses".into(), call, kind })
        };
        let (mut one, mut two) = (ask("one", QuestionKind::Confirm), ask("two", QuestionKind::External));
        let answers = |given: &[(&str, Answer)]| {
            let answers = given.iter().map(|(call, answer)| ("ses".into(), (*call).into(), answer.clone()));
            questions.answer_all(answers.collect())
        };
        let (allow, output) = (Answer::allow(), Answer::output(ToolChunk::text("seen")));
        let (session, call) = (SessionId::from("ses"), ToolCallId::from);
        for (given, error) in [
            (
                [("one", allow.clone()), ("two", allow.clone())],
                AnswerError::OfAnotherKind { asked: QuestionKind::External },
            ),
            (
                [("one", allow.clone()), ("gone", allow.clone())],
                AnswerError::NotOpen { session: session.clone(), call: call("gone") },
            ),
            (
                [("one", allow.clone()), ("one", Answer::deny())],
                AnswerError::Answered { session: session.clone(), call: call("one") },
            ),
        ] {
            assert_eq!(answers(&given), Err(error));
            assert_eq!(questions.open().len(), 2);
            assert!(one.answer.try_recv().is_err() && two.answer.try_recv().is_err());
        }
        assert_eq!(answers(&[("two", output.clone()), ("one", allow.clone())]), Ok(()));
        assert_eq!((one.answer.try_recv(), two.answer.try_recv()), (Ok(allow), Ok(output)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_too_late_is_refused_and_not_lost() {
        let questions = Arc::<Questions>::default();
        let asked = questions.ask(question(QuestionKind::Confirm));
        assert_eq!(asked.answer(Duration::from_secs(1)).await, None);
        let answer = questions.answer(&"ses".into(), &"call".into(), Answer::deny());
        assert!(matches!(answer, Err(AnswerError::NotOpen { .. })));
    }

    #[test]
    fn a_question_that_is_withdrawn_takes_no_answer() {
        let questions = Arc::<Questions>::default();
        drop(questions.ask(question(QuestionKind::External)));
        let answer = questions.answer(&"ses".into(), &"call".into(), Answer::deny());
        assert!(matches!(answer, Err(AnswerError::NotOpen { .. })));
    }
}
