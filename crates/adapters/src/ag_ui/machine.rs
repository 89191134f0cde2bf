//! From events to frames: what each kind becomes.

use std::sync::Arc;

use anabranch_proto::{
    Event, EventKind, Metadata, Scope, SpawnMechanism, ToolCallBlock,
    event::{SessionUpdated, SpawnSessionStart, StreamComplete},
};

use super::{
    AgUi, Phase,
    children::{Announced, State},
    frame::{Body, RawEvent, SubagentOutcome, Value, code, in_words, no_metadata},
    ids::What,
    metadata::Own,
    owner::Owner,
    writer::Writer,
};
use crate::{
    intent::{Asked, learnt, met},
    sanitize,
};

/// Whether an event has been shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Yes,
    No,
}

impl AgUi {
    /// Shows an event, within a run.
    #[expect(
        clippy::match_same_arms,
        reason = "the kinds that give nothing are named, so that a new one is not among them by chance"
    )]
    pub(super) fn show(&mut self, event: &Event, to: &mut Writer<'_, '_>) {
        self.meet(event, to);
        if self.about_runs(event, to) == Shown::Yes {
            return;
        }
        let Some(owner) = speaker(&mut self.root, &mut self.children, &event.scope) else {
            return;
        };
        let ids = &mut self.ids;
        let mut custom = |name: &str, value: Value<'_>| {
            to.put(owner.id.as_deref(), Body::Custom { name, value });
        };
        match &event.kind {
            EventKind::TextBlockStart(start) => owner.start_text(&start.reply_id, &start.block_id, ids, to),
            EventKind::TextBlockDelta(delta) => {
                owner.text(&delta.reply_id, &delta.block_id, &delta.delta, ids, to);
            }
            EventKind::TextBlockEnd(end) => {
                owner.end_text(&end.reply_id, &end.block_id, end.text.as_deref(), ids, to);
            }
            EventKind::ThinkingBlockStart(start) => {
                owner.start_thought(&start.reply_id, &start.block_id, ids, to);
            }
            EventKind::ThinkingBlockDelta(delta) => {
                owner.thought(&delta.reply_id, &delta.block_id, &delta.delta, ids, to);
            }
            EventKind::ThinkingBlockEnd(end) => owner.end_thought(&end.reply_id, &end.block_id, to),
            EventKind::ToolCallStart(start) => {
                owner.start_call(&start.reply_id, &start.tool_call_id, &start.tool_call_name, ids, to);
            }
            EventKind::ToolCallDelta(delta) => owner.arguments(&delta.tool_call_id, &delta.delta, to),
            EventKind::ToolCallEnd(end) => owner.end_arguments(&end.tool_call_id, to),
            // A result must be seen even where the call itself was not.
            EventKind::ToolResultStart(start) => {
                owner.start_call(&start.reply_id, &start.tool_call_id, &start.tool_call_name, ids, to);
                owner.end_arguments(&start.tool_call_id, to);
            }
            EventKind::ToolResultTextDelta(delta) => owner.output(&delta.tool_call_id, &delta.delta),
            EventKind::ToolResultEnd(end) => owner.result(end, ids, to),
            EventKind::ModelCallStart(start) => owner.start_model(&start.model_name, to),
            EventKind::ModelCallEnd(end) => {
                if let Some(model) = owner.end_model(to) {
                    self.usage.add(&model, end.usage());
                }
            }
            EventKind::HintBlock(hint) => custom("anabranch.hint", Value::Hint(hint)),
            EventKind::DataBlockStart(start) => custom("anabranch.data_block_start", Value::DataStart(start)),
            EventKind::DataBlockDelta(delta) => custom("anabranch.data_block_delta", Value::DataDelta(delta)),
            EventKind::DataBlockEnd(end) => custom("anabranch.data_block_end", Value::DataEnd(end)),
            EventKind::ToolResultDataDelta(delta) => {
                custom("anabranch.tool_result_data_delta", Value::ResultData(delta));
            }
            EventKind::Custom(own) => custom(&own.name, Value::Application(&own.value)),
            EventKind::Unknown(unknown) => {
                let event = RawEvent { kind: &unknown.kind, fields: &unknown.fields };
                to.put(owner.id.as_deref(), Body::Raw { event, source: "anabranch" });
            }
            // How a run ended is in its terminal, a prompt is the client's own or stands on the spawn, and the answer
            // to a question is in the call's result.
            EventKind::ReplyStart(_)
            | EventKind::ReplyEnd(_)
            | EventKind::UserMessage(_)
            | EventKind::UserInterrupt(_)
            | EventKind::ExceedMaxIters(_)
            | EventKind::UserConfirmResult(_)
            | EventKind::ExternalExecutionResult(_) => {}
            // Shown above.
            EventKind::SpawnSessionStart(_)
            | EventKind::SessionUpdated(_)
            | EventKind::StreamComplete(_)
            | EventKind::RequireUserConfirm(_)
            | EventKind::RequireExternalExecution(_) => {}
            // A match outside `proto` must end in a `_`; `clippy::wildcard_enum_match_arm` fails as soon as there is a
            // kind that only it answers for.
            _ => {}
        }
    }

    /// Shows what begins or ends a run, a child's or the protocol's. Who was not announced or has ended can still be the
    /// parent of somebody that is spawned.
    fn about_runs(&mut self, event: &Event, to: &mut Writer<'_, '_>) -> Shown {
        let scope = &event.scope;
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            match self.children.announced_late(spawn) {
                Some(run) => self.update(scope, &learnt(spawn, run), to),
                None => self.begin(spawn, Announced::Yes, &event.metadata, to),
            }
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            self.update(scope, update, to);
        } else if let EventKind::StreamComplete(complete) = &event.kind {
            self.complete(scope, complete, to);
        } else if let EventKind::RequireUserConfirm(request) = &event.kind {
            self.ask(scope, Asked::Person, &request.reply_id, &request.tool_calls, to);
        } else if let EventKind::RequireExternalExecution(request) = &event.kind {
            self.ask(scope, Asked::Executor, &request.reply_id, &request.tool_calls, to);
        } else {
            return Shown::No;
        }
        Shown::Yes
    }

    /// Announces a child that is met in its midst, as where a reader begins behind its spawn. Its scope says who it is.
    fn meet(&mut self, event: &Event, to: &mut Writer<'_, '_>) {
        let Some(scope) = event.scope.child() else {
            return;
        };
        // One that says nothing but its end has nothing to show.
        if self.children.of_scope(scope).is_none() && !matches!(event.kind, EventKind::StreamComplete(_)) {
            self.begin(&met(scope), Announced::NotYet, &event.metadata, to);
        }
    }

    fn begin(
        &mut self,
        spawn: &SpawnSessionStart,
        announced: Announced,
        metadata: &Metadata,
        to: &mut Writer<'_, '_>,
    ) {
        if let Some(at) = self.children.add(spawn, announced, metadata) {
            self.announce(at, to);
        }
    }

    /// Says that a child is at work, in each run in which it is.
    pub(super) fn announce(&mut self, at: usize, to: &mut Writer<'_, '_>) {
        let run = self.run;
        self.children.set(at, State::Open);
        if let Some(child) = self.children.get_mut(at) {
            child.announced_in = run;
        }
        let (Some(child), true) = (self.children.get(at), to.mode.announces()) else {
            return;
        };
        let is_root = child.parent == self.session;
        // One can say that it is its own.
        let parent = self.children.last(&child.parent).filter(|parent| !is_root && parent.id != child.id);
        let owner = parent.map_or(&self.root, |parent| &parent.owner);
        let call = child.parent_call.as_ref();
        let sent = call.and_then(|call| owner.call(call)).map(|(id, _)| Arc::clone(id));
        let message = call.and_then(|call| owner.message_of(call)).cloned();
        // Where the call was not seen, it would have had this id.
        let parent_call = sent.or_else(|| call.map(|call| self.ids.of(&owner.id, What::Call(call.clone()))));
        let body = Body::SubagentStarted {
            name: &sanitize::line(&child.name),
            description: &sanitize::line(&child.description),
            parent_subagent_run_id: parent
                .filter(|parent| parent.announced_in == run)
                .map(|parent| &*parent.id),
            parent_tool_call_id: parent_call.as_deref(),
            parent_message_id: message.as_deref(),
        };
        let mut to = to.with(&child.metadata);
        to.put_with(Some(&child.id), Own::Spawn(&child.info), body);
    }

    fn update(&mut self, scope: &Scope, update: &SessionUpdated, to: &mut Writer<'_, '_>) {
        let at = self.children.of_run(&update.child_session_id, update.run);
        let above = at.and_then(|at| self.children.get(at)).map(|child| child.parent.clone());
        let above =
            above.and_then(|parent| self.children.last(&parent)).is_some_and(|parent| parent.outlives);
        let child = at.and_then(|at| self.children.get_mut(at));
        let owner = match child {
            Some(child) => {
                child.learn(update);
                child.outlives = above || child.info.spawn_mechanism != SpawnMechanism::Sync;
                // Nothing is said in the name of a child that has ended.
                child.is_open().then(|| Arc::clone(&child.id))
            }
            None => speaker(&mut self.root, &mut self.children, scope).and_then(|owner| owner.id.clone()),
        };
        let body = Body::Custom { name: "anabranch.session_updated", value: Value::Updated(update) };
        to.put(owner.as_deref(), body);
    }

    fn complete(&mut self, scope: &Scope, complete: &StreamComplete, to: &mut Writer<'_, '_>) {
        let Some(scope) = scope.child() else {
            return self.complete_root(complete, to);
        };
        let Some(at) = self.children.of_scope(scope) else {
            return;
        };
        let Some(child) = self.children.get_mut(at).filter(|child| child.is_open()) else {
            return;
        };
        child.owner.close(to);
        if to.mode.announces() {
            end_of_child(&child.id, complete, to);
        }
        self.children.set(at, State::Ended);
        if let Phase::Finishing(root) = &mut self.phase
            && !self.children.is_waited_for()
        {
            let root = std::mem::replace(root, Box::new(StreamComplete::new(complete.outcome)));
            self.finish_run(&root, &mut to.with(no_metadata()));
        }
    }

    fn ask(
        &mut self,
        scope: &Scope,
        asked: Asked,
        reply: &anabranch_proto::ReplyId,
        calls: &[ToolCallBlock],
        to: &mut Writer<'_, '_>,
    ) {
        let Some(owner) = speaker(&mut self.root, &mut self.children, scope) else {
            return;
        };
        let session = scope.session(&self.session);
        let mut is_new = false;
        for block in calls {
            // A question must reach a person even where the call itself was not seen.
            if owner.call(&block.id).is_none() {
                owner.start_call(reply, &block.id, &block.name, &mut self.ids, to);
                owner.arguments(&block.id, &block.input, to);
            }
            owner.end_arguments(&block.id, to);
            if let Some((id, name)) = owner.call(&block.id) {
                let child = to.mode.attribution(owner.id.as_deref()).and(owner.id.clone());
                is_new |= self.questions.tell((session, &block.id, asked), child, (id, name));
            }
        }
        if is_new {
            self.interrupt_run(to);
        }
    }
}

/// Who speaks in a scope; nobody when the run was not announced or has ended.
fn speaker<'s>(
    root: &'s mut Owner,
    children: &'s mut super::children::Children,
    scope: &Scope,
) -> Option<&'s mut Owner> {
    let Some(scope) = scope.child() else {
        return Some(root);
    };
    let at = children.of_scope(scope)?;
    let child = children.get_mut(at)?;
    child.is_open().then_some(&mut child.owner)
}

fn end_of_child(id: &str, complete: &StreamComplete, to: &mut Writer<'_, '_>) {
    let outcome = complete.outcome;
    let error = complete.error.as_ref();
    let own = Own::Ended { outcome, error_type: error.map(|error| &error.error_type) };
    if outcome == anabranch_proto::Outcome::Completed {
        let text = complete.message.as_ref().map(anabranch_proto::Message::text);
        let result = text.as_deref().filter(|text| !text.is_empty());
        let body = Body::SubagentFinished { result, outcome: SubagentOutcome::Success };
        to.put_with(Some(id), own, body);
    } else {
        let message = error.map_or(in_words(outcome), |error| &error.message);
        to.put_with(Some(id), own, Body::SubagentError { message, code: code(outcome) });
    }
}
