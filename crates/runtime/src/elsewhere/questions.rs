//! What a child elsewhere asks, answered from here.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_pipeline::ToolCall;
use anabranch_proto::{Event, EventKind, SessionId, ToolCallBlock, ToolCallId};
use futures::{FutureExt, future::BoxFuture};

use crate::{
    Answer, Permission, Question, QuestionKind,
    question::{ASKED_OF_CODE, by_rules},
    run::{Asking, RunControl, RunIdentity},
};

/// How many questions may be open at once below one child.
const OPEN: usize = 256;

type Key = (SessionId, ToolCallId);

/// The questions that a child elsewhere, or one below it, has asked and that are not settled.
#[derive(Default)]
pub(super) struct Questions {
    open: HashMap<Key, Open>,
    /// Those that were answered by code and that nobody sees.
    hidden: HashSet<Key>,
    /// Answers that nobody had to be asked for.
    decided: Vec<(Key, Answer)>,
}

struct Open {
    answer: BoxFuture<'static, Option<Answer>>,
    /// While it is open nobody's time runs who waits for it.
    _asking: Asking,
}

/// Whether an event is a part of the session's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Yes,
    No,
}

/// As many questions are open as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl TooMany {
    pub(super) const LIMIT: usize = OPEN;
}

impl Questions {
    /// Takes note of an event of a session: what is asked, and what no longer is. `asks` is the run that the event is of.
    pub(super) fn note(
        &mut self,
        event: &Event,
        session: &SessionId,
        asks: &Arc<RunControl>,
        identity: &RunIdentity,
    ) -> Result<Seen, TooMany> {
        if let EventKind::RequireUserConfirm(ask) = &event.kind {
            let is_of_code = event.metadata.get(ASKED_OF_CODE).is_some();
            for call in &ask.tool_calls {
                let key = (session.clone(), call.id.clone());
                match decide(call, identity, is_of_code) {
                    Some(answer) => {
                        if is_of_code {
                            self.hidden.insert(key.clone());
                        }
                        self.decided.push((key, answer));
                    }
                    None => self.ask(key, call, QuestionKind::Confirm, asks, identity)?,
                }
            }
            let is_hidden = |call: &ToolCallBlock| self.hidden.contains(&(session.clone(), call.id.clone()));
            return Ok(if ask.tool_calls.iter().all(is_hidden) { Seen::No } else { Seen::Yes });
        }
        if let EventKind::RequireExternalExecution(ask) = &event.kind {
            for call in &ask.tool_calls {
                let key = (session.clone(), call.id.clone());
                self.ask(key, call, QuestionKind::External, asks, identity)?;
            }
        } else if let EventKind::UserConfirmResult(result) = &event.kind {
            let mut seen = Seen::No;
            for result in &result.confirm_results {
                if self.settle(session, &result.tool_call.id) == Seen::Yes {
                    seen = Seen::Yes;
                }
            }
            return Ok(seen);
        } else if let EventKind::ExternalExecutionResult(result) = &event.kind {
            for result in &result.execution_results {
                self.settle(session, &result.id);
            }
        } else if let EventKind::ToolResultEnd(end) = &event.kind {
            self.settle(session, &end.tool_call_id);
        } else if let EventKind::StreamComplete(_) = &event.kind {
            self.open.retain(|(asked, _), _| asked != session);
            self.hidden.retain(|(asked, _)| asked != session);
        }
        Ok(Seen::Yes)
    }

    fn ask(
        &mut self,
        key: Key,
        call: &ToolCallBlock,
        kind: QuestionKind,
        asks: &Arc<RunControl>,
        identity: &RunIdentity,
    ) -> Result<(), TooMany> {
        if self.open.len() >= OPEN {
            return Err(TooMany);
        }
        let questions = &identity.shared.questions;
        let asked = questions.ask(Question { session_id: key.0.clone(), call: call.clone(), kind });
        // The other side has the same limit, and says what comes of it.
        let answer = asked.answer(identity.shared.limits.request).boxed();
        self.open.insert(key, Open { answer, _asking: asks.ask() });
        Ok(())
    }

    /// A question is no longer open. Says whether anybody saw it.
    fn settle(&mut self, session: &SessionId, call: &ToolCallId) -> Seen {
        let key = (session.clone(), call.clone());
        self.open.remove(&key);
        if self.hidden.remove(&key) { Seen::No } else { Seen::Yes }
    }

    /// The next answer to be sent.
    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<(Key, Answer)> {
        if let Some(decided) = self.decided.pop() {
            return Poll::Ready(decided);
        }
        let ended = self.open.iter_mut().find_map(|(key, open)| {
            // The question itself stays open until the other side has settled it, but for the answer.
            match open.answer.poll_unpin(cx) {
                Poll::Ready(answer) => Some((key.clone(), answer)),
                Poll::Pending => None,
            }
        });
        let Some((key, answer)) = ended else { return Poll::Pending };
        self.open.remove(&key);
        match answer {
            Some(answer) => Poll::Ready((key, answer)),
            None => self.poll_answer(cx),
        }
    }

    /// Whether one is open.
    pub(super) fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }
}

/// What the permissions of all above the child say of a call, where that settles it.
fn decide(call: &ToolCallBlock, identity: &RunIdentity, is_of_code: bool) -> Option<Answer> {
    let call = ToolCall::new(call.id.clone(), Arc::clone(&call.name), call.input.clone());
    let decided = identity.permissions.iter().map(|permissions| permissions.decide(&call)).max();
    let decided = match decided.unwrap_or(Permission::Allow) {
        // The other side's agent has reasons of its own to ask.
        Permission::Allow if !is_of_code => Permission::Ask,
        decided @ (Permission::Allow | Permission::Ask | Permission::Deny(_)) => decided,
    };
    let decided = match decided {
        Permission::Ask => {
            identity.shared.questions.with_rules(|rules| by_rules(rules, &call)).unwrap_or(Permission::Ask)
        }
        decided @ (Permission::Allow | Permission::Deny(_)) => decided,
    };
    match decided {
        Permission::Allow => Some(Answer::allow()),
        Permission::Deny(why) => Some(Answer::deny_because(why)),
        Permission::Ask => None,
    }
}
