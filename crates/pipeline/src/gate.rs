//! What may leave a call.
//!
//! A sync child's events travel only in its call's own stream: that is what makes it sound to close a call's children with
//! its result. So each call has a gate, behind its layers. It lets out what the call may say in its caller's name, and the
//! events of the children that were announced here, or that nobody announced and that say that they are this call's, with
//! all below them. Whatever else a tool or a layer gives is somebody else's: a sibling call's, the caller's own, an
//! ancestor's.

use std::{
    collections::hash_map::Entry,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_proto::{
    ChildScope, Event, EventKind, Fields, Json, Metadata, ReplyId, Scope, SessionId, ToolCallId,
    event::{SessionUpdated, SpawnSessionStart},
};
use foldhash::HashMap;

use crate::Caller;

/// The reserved keys that a spawn brings itself.
const SPAWN_KEYS: [&str; 4] = ["prompt", "user_message_id", "task_id", "max_depth"];

/// Decides of each event whether it may leave a call.
#[derive(Debug)]
pub(crate) struct Gate {
    caller: Arc<Caller>,
    call_id: ToolCallId,
    /// The children of this call and all below them, each with its last run; none where its runs are not counted.
    children: HashMap<SessionId, Option<u32>>,
    /// The scope that passed last: the next event mostly shares it.
    last: Option<Arc<ChildScope>>,
    /// What the call has asked and not been answered.
    question: Option<Question>,
}

/// What a call asks about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Whether it may be carried out.
    Confirm,
    /// For a result from elsewhere.
    External,
}

/// Why an event may not leave a call.
type Refused = &'static str;

impl Gate {
    pub(crate) fn new(caller: Arc<Caller>, call_id: ToolCallId) -> Self {
        Self { caller, call_id, children: HashMap::default(), last: None, question: None }
    }

    /// Gives the event where it may leave, with the metadata that it may have; else drops, counts and warns.
    #[inline]
    pub(crate) fn pass(&mut self, event: Arc<Event>) -> Option<Arc<Event>> {
        if let (Some(last), Some(scope)) = (&self.last, event.scope.child())
            && Arc::ptr_eq(last, scope)
            && !matches!(event.kind, EventKind::SpawnSessionStart(_) | EventKind::SessionUpdated(_))
        {
            return Some(event);
        }
        self.pass_judged(event)
    }

    fn pass_judged(&mut self, event: Arc<Event>) -> Option<Arc<Event>> {
        match self.judge(&event) {
            Ok(None) => Some(event),
            Ok(Some(metadata)) => {
                let mut corrected = Event::clone(&event);
                corrected.metadata = metadata;
                Some(Arc::new(corrected))
            }
            Err(why) => {
                self.caller.counters.drop_event();
                tracing::warn!(
                    call = %self.call_id,
                    kind = event.kind.tag(),
                    child = event.scope.child().map(|scope| scope.child_session_id.as_str()),
                    why,
                    "dropped an event that may not leave its call"
                );
                None
            }
        }
    }

    /// Whether the call has asked something and waits for the answer.
    pub(crate) fn is_asking(&self) -> bool {
        self.question.is_some()
    }

    /// Lets others have the children: the call has ended.
    pub(crate) fn release(&mut self) {
        self.last = None;
        if !self.children.is_empty() {
            self.caller.claims.release(self.children.drain().map(|(child, _)| child), &self.call_id);
        }
    }

    /// Whether an event may leave, and the metadata that it must have where that is not its own.
    fn judge(&mut self, event: &Event) -> Result<Option<Metadata>, Refused> {
        if event.scope.same_run(&self.caller.scope) {
            return self.judge_own(event);
        }
        let Scope::Child(scope) = &event.scope else { return Err("it is the root's") };
        self.admit(scope)?;
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            self.announce(spawn, &scope.child_session_id)?;
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            self.look_up(update)?;
        }
        Ok(None)
    }

    /// In its caller's name a call may only report, announce, say more of whom it announced, and ask about itself.
    fn judge_own(&mut self, event: &Event) -> Result<Option<Metadata>, Refused> {
        if let EventKind::Custom(_) = &event.kind {
            Ok(self.reported(&event.metadata))
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            self.look_up(update)?;
            Ok(self.reported(&event.metadata))
        } else if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            if spawn.tool_call_id.as_ref().is_some_and(|call| *call != self.call_id) {
                return Err("it names another call");
            }
            let session = self.caller.session_id.clone();
            self.announce(spawn, &session)?;
            Ok(self.announced(&event.metadata))
        } else if let EventKind::RequireUserConfirm(ask) = &event.kind {
            let calls = ask.tool_calls.iter().map(|call| &call.id);
            self.ask(&ask.reply_id, calls, Question::Confirm)?;
            Ok(self.reported(&event.metadata))
        } else if let EventKind::RequireExternalExecution(ask) = &event.kind {
            let calls = ask.tool_calls.iter().map(|call| &call.id);
            self.ask(&ask.reply_id, calls, Question::External)?;
            Ok(self.reported(&event.metadata))
        } else if let EventKind::UserConfirmResult(answer) = &event.kind {
            let calls = answer.confirm_results.iter().map(|result| &result.tool_call.id);
            self.answer(&answer.reply_id, calls, Question::Confirm)?;
            Ok(self.reported(&event.metadata))
        } else if let EventKind::ExternalExecutionResult(answer) = &event.kind {
            let calls = answer.execution_results.iter().map(|result| &result.id);
            self.answer(&answer.reply_id, calls, Question::External)?;
            Ok(self.reported(&event.metadata))
        } else {
            Err("only its caller itself may say this")
        }
    }

    /// Takes note of a question, which must be about this call alone.
    fn ask<'a>(
        &mut self,
        reply: &ReplyId,
        calls: impl Iterator<Item = &'a ToolCallId>,
        question: Question,
    ) -> Result<(), Refused> {
        self.about_this_call(reply, calls)?;
        if self.question.is_some() {
            return Err("the call has asked something already and was not answered");
        }
        self.question = Some(question);
        Ok(())
    }

    /// Takes note of an answer, which must be to the open question.
    fn answer<'a>(
        &mut self,
        reply: &ReplyId,
        calls: impl Iterator<Item = &'a ToolCallId>,
        question: Question,
    ) -> Result<(), Refused> {
        self.about_this_call(reply, calls)?;
        if self.question != Some(question) {
            return Err("the call has not asked for this");
        }
        self.question = None;
        Ok(())
    }

    fn about_this_call<'a>(
        &self,
        reply: &ReplyId,
        mut calls: impl Iterator<Item = &'a ToolCallId>,
    ) -> Result<(), Refused> {
        let is_only_this = calls.next() == Some(&self.call_id) && calls.next().is_none();
        if is_only_this && *reply == self.caller.reply_id {
            Ok(())
        } else {
            Err("a call asks about itself alone")
        }
    }

    /// Whether a child's event may leave. A child that nobody announced is this call's where it says so, or where it says
    /// nothing of calls; one that is not the caller's own must be below one that passed.
    fn admit(&mut self, scope: &Arc<ChildScope>) -> Result<(), Refused> {
        let run = scope.run.max(1);
        match self.children.get(&scope.child_session_id) {
            Some(announced) if announced.is_none_or(|announced| announced == run) => {}
            Some(_) => return Err("it is of a run that was not announced in this call"),
            None => {
                let is_callers = scope.parent_session_id == self.caller.session_id
                    && scope.tool_call_id.as_ref().is_none_or(|call| *call == self.call_id);
                if !is_callers && !self.children.contains_key(&scope.parent_session_id) {
                    return Err("it is of no child of this call");
                }
                self.claim(&scope.child_session_id)?;
                self.children.insert(scope.child_session_id.clone(), Some(run));
            }
        }
        self.last = Some(Arc::clone(scope));
        Ok(())
    }

    /// Takes note of a spawn in the scope of a session.
    fn announce(&mut self, spawn: &SpawnSessionStart, by: &SessionId) -> Result<(), Refused> {
        if spawn.parent_session_id != *by {
            return Err("it names another parent than the one whose event it is");
        }
        if spawn.child_session_id == *by {
            return Err("a session does not spawn itself");
        }
        self.claim(&spawn.child_session_id)?;
        let run = spawn.run.map(|run| run.max(1));
        match self.children.entry(spawn.child_session_id.clone()) {
            Entry::Occupied(mut known) => {
                // An earlier run again is a duplicate, which is not decided here.
                let last = known.get().zip(run).map_or(run, |(known, run)| Some(known.max(run)));
                known.insert(last);
            }
            Entry::Vacant(unknown) => {
                unknown.insert(run);
            }
        }
        self.last = None;
        Ok(())
    }

    fn look_up(&self, update: &SessionUpdated) -> Result<(), Refused> {
        let is_known = self.children.contains_key(&update.child_session_id);
        if is_known { Ok(()) } else { Err("it is about no child of this call") }
    }

    /// Makes a session this call's, unless it is the caller, the caller's parent or below a call that runs beside this one.
    fn claim(&self, session: &SessionId) -> Result<(), Refused> {
        if self.children.contains_key(session) {
            return Ok(());
        }
        let parent = self.caller.scope.child().map(|scope| &scope.parent_session_id);
        if *session == self.caller.session_id || parent == Some(session) {
            return Err("it takes its caller or its caller's parent for a child");
        }
        match self.caller.claims.claim(session, &self.call_id) {
            Claim::Ours => Ok(()),
            Claim::Anothers => Err("the child is another call's"),
        }
    }

    /// The metadata that a report must have, where that is not its own: the caller's over the tool's, which has no say in
    /// reserved keys.
    fn reported(&self, metadata: &Metadata) -> Option<Metadata> {
        let callers = &self.caller.metadata;
        if metadata.shares_with(callers) {
            return None;
        }
        let corrected = rewritten(metadata, |key, value| match callers.get(key) {
            Some(value) => Some(value),
            None => (!Metadata::RESERVED.contains(&key)).then_some(value),
        });
        let corrected = corrected.merged(callers);
        (corrected != *metadata).then_some(corrected)
    }

    /// The metadata that a spawn must have, where that is not its own: it is an event of the caller's, and has the reserved
    /// keys that only spawns have.
    fn announced(&self, metadata: &Metadata) -> Option<Metadata> {
        let subagent_id = self
            .caller
            .scope
            .child()
            .map(|scope| Json::from(serde_json::Value::from(scope.subagent_id.as_str())));
        let may_stand = |key: &str| !Metadata::RESERVED.contains(&key) || SPAWN_KEYS.contains(&key);
        let is_right = |key: &str, value: &Json| {
            if key == "subagent_id" { subagent_id.as_ref() == Some(value) } else { may_stand(key) }
        };
        if metadata.iter().all(|(key, value)| is_right(key, value))
            && (subagent_id.is_none() || metadata.get("subagent_id").is_some())
        {
            return None;
        }
        let corrected = rewritten(metadata, |key, value| match key {
            "subagent_id" => subagent_id.as_ref(),
            key => may_stand(key).then_some(value),
        });
        Some(match subagent_id {
            Some(subagent_id) => corrected.with_json("subagent_id", subagent_id),
            None => corrected,
        })
    }
}

/// Metadata with other values, or without some of its keys. Keys keep their order.
fn rewritten<'a>(metadata: &'a Metadata, rewrite: impl Fn(&str, &'a Json) -> Option<&'a Json>) -> Metadata {
    let mut fields = Fields::default();
    for (key, value) in metadata.iter() {
        if let Some(value) = rewrite(key, value) {
            fields.insert(key, value.clone());
        }
    }
    fields.into()
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.release();
    }
}

/// Which of a caller's running calls has which child below it.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<SessionId, ToolCallId>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Ours,
    Anothers,
}

impl Claims {
    fn claim(&self, session: &SessionId, call: &ToolCallId) -> Claim {
        let mut claims = self.lock();
        let owner = claims.entry(session.clone()).or_insert_with(|| call.clone());
        if owner == call { Claim::Ours } else { Claim::Anothers }
    }

    fn release(&self, sessions: impl Iterator<Item = SessionId>, call: &ToolCallId) {
        let mut claims = self.lock();
        for session in sessions {
            if claims.get(&session) == Some(call) {
                claims.remove(&session);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, ToolCallId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
