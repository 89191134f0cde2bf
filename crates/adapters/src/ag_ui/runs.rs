//! Where runs of the protocol begin and end.

use std::{collections::HashMap, sync::Arc};

use anabranch_proto::{
    Event, EventKind, Outcome, Scope, Timestamp, ToolCallBlock, Usage, event::StreamComplete,
};

use super::{
    AgUi, Mode, Phase, RunIds,
    children::State,
    frame::{Body, RunOutcome, SubagentOutcome, TokenUsage, Value, code, in_words, no_metadata},
    metadata::Own,
    writer::{Out, Writer},
};
use crate::intent::Asked;

/// The version of the protocol that is spoken.
const PROTOCOL_VERSION: &str = "1.0";

/// What models used since the run began.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    entries: Vec<TokenUsage>,
    /// Where each model's entry lies.
    places: HashMap<Arc<str>, usize>,
}

impl Tally {
    pub(super) fn add(&mut self, model: &Arc<str>, usage: Usage) {
        let entries = &mut self.entries;
        let at = *self.places.entry(Arc::clone(model)).or_insert_with(|| {
            entries.push(TokenUsage {
                model: Arc::clone(model),
                input_tokens: 0,
                output_tokens: 0,
                cached_input_tokens: 0,
                cache_write_input_tokens: 0,
            });
            entries.len().saturating_sub(1)
        });
        if let Some(entry) = self.entries.get_mut(at) {
            let add = |count: &mut u64, more: u64| *count = count.saturating_add(more).min(LARGEST);
            add(&mut entry.input_tokens, usage.input_tokens);
            add(&mut entry.output_tokens, usage.output_tokens);
            add(&mut entry.cached_input_tokens, usage.cache_input_tokens);
            add(&mut entry.cache_write_input_tokens, usage.cache_creation_input_tokens);
        }
    }
}

/// The largest count that JavaScript keeps.
const LARGEST: u64 = (1 << 53) - 1;

impl AgUi {
    pub(super) fn take(&mut self, event: &Event, out: &mut Out<'_>) {
        self.at = event.created_at.unix_millis();
        self.note(event);
        if !self.is_running() && self.begins(event) {
            let metadata = if event.scope == Scope::Root { &event.metadata } else { no_metadata() };
            let mut to = Writer { mode: self.mode, at: self.at, metadata, out: &mut *out };
            self.begin_run(&mut to);
            // What was held can be the end of a run that was stopped while it waited for an answer.
            if matches!(self.phase, Phase::Between) && self.begins(event) {
                self.begin_run(&mut to);
            }
        }
        if self.is_running() {
            let mut to = Writer { mode: self.mode, at: self.at, metadata: &event.metadata, out };
            self.show(event, &mut to);
        } else if self.phase != Phase::Between || !is_end_of_root(event) {
            self.held.keep(event);
        }
    }

    /// Begins the run that the caller gave, if it did.
    pub(super) fn begin_given(&mut self, now: Timestamp, out: &mut Out<'_>) {
        if !self.is_running() && self.given.is_some() {
            self.at = now.unix_millis();
            let mut to = Writer { mode: self.mode, at: self.at, metadata: no_metadata(), out };
            self.begin_run(&mut to);
        }
    }

    fn is_running(&self) -> bool {
        match self.phase {
            Phase::Running | Phase::Finishing(_) => true,
            Phase::Before | Phase::Between | Phase::Asking => false,
        }
    }

    /// Whether a run begins with this event.
    fn begins(&self, event: &Event) -> bool {
        match self.phase {
            Phase::Running | Phase::Finishing(_) => false,
            Phase::Before => true,
            Phase::Between => self.given.is_some() || is_begin_of_root(event),
            Phase::Asking => {
                self.given.is_some()
                    || matches!(
                        event.kind,
                        EventKind::UserConfirmResult(_) | EventKind::ExternalExecutionResult(_)
                    )
                    || is_begin_of_root(event)
            }
        }
    }

    /// Keeps account of what is asked and answered, whether or not it can be sent yet.
    fn note(&mut self, event: &Event) {
        let session = event.scope.session(&self.session);
        let questions = &mut self.questions;
        let mut ask = |calls: &[ToolCallBlock], asked| {
            for block in calls {
                questions.ask(session, &block.id, asked);
            }
        };
        if let EventKind::RequireUserConfirm(request) = &event.kind {
            ask(&request.tool_calls, Asked::Person);
        } else if let EventKind::RequireExternalExecution(request) = &event.kind {
            ask(&request.tool_calls, Asked::Executor);
        } else if let EventKind::UserConfirmResult(answer) = &event.kind {
            for result in &answer.confirm_results {
                questions.answered(session, &result.tool_call.id, Asked::Person);
            }
        } else if let EventKind::ExternalExecutionResult(answer) = &event.kind {
            for result in &answer.execution_results {
                questions.answered(session, &result.id, Asked::Executor);
            }
        } else if let EventKind::ToolResultEnd(end) = &event.kind {
            // Nobody waits for the answer any more.
            questions.withdraw(session, &end.tool_call_id);
        } else if let EventKind::StreamComplete(_) = &event.kind {
            questions.withdraw_all(session);
        }
    }

    fn begin_run(&mut self, to: &mut Writer<'_, '_>) {
        self.run += 1;
        match self.given.take() {
            Some(given) => {
                self.first = given;
                self.since_given = 1;
            }
            None => self.since_given += 1,
        }
        self.run_id = match self.since_given {
            0 | 1 => Arc::clone(&self.first.run_id),
            count => format!("{}#{count}", self.first.run_id).into(),
        };
        self.phase = Phase::Running;
        self.usage = Tally::default();
        let (thread_id, run_id) = (&*self.first.thread_id, &*self.run_id);
        to.put(None, Body::RunStarted { thread_id, run_id, protocol_version: PROTOCOL_VERSION });
        for at in self.children.suspended() {
            self.announce(at, to);
        }
        let count = self.held.take_dropped();
        if count > 0 {
            let value = Value::Dropped { count };
            to.put(None, Body::Custom { name: "anabranch.events_dropped", value });
        }
        while self.is_running()
            && let Some(event) = self.held.take()
        {
            let mut to = to.with(&event.metadata);
            self.show(&event, &mut to);
        }
    }

    /// The root's run has ended: so does the protocol's, as soon as nobody is open whom the root waits for.
    pub(super) fn complete_root(&mut self, complete: &StreamComplete, to: &mut Writer<'_, '_>) {
        if self.children.is_waited_for() {
            if self.phase == Phase::Running {
                self.phase = Phase::Finishing(Box::new(complete.clone()));
            }
            return;
        }
        self.finish_run(complete, to);
    }

    pub(super) fn finish_run(&mut self, complete: &StreamComplete, to: &mut Writer<'_, '_>) {
        self.suspend_all(to);
        self.root.forget();
        self.phase = Phase::Between;
        let (thread_id, run_id) = (&*self.first.thread_id, &*self.run_id);
        let usage = &*self.usage.entries;
        let outcome = complete.outcome;
        let finished = |outcome| Body::RunFinished { thread_id, run_id, outcome, usage };
        let error = complete.error.as_ref();
        // Clients that know no sub-agents know no cancelled run either.
        let body = if outcome == Outcome::Completed {
            finished(RunOutcome::Success)
        } else if outcome == Outcome::Interrupted && to.mode != Mode::AttributionOnly {
            finished(RunOutcome::Cancelled)
        } else {
            let message = error.map_or(in_words(outcome), |error| &error.message);
            Body::RunError { message, code: code(outcome), usage }
        };
        let own = if outcome == Outcome::Completed {
            Own::None
        } else {
            Own::Ended { outcome, error_type: error.map(|error| &error.error_type) }
        };
        to.put_with(None, own, body);
    }

    /// Questions end the run.
    pub(super) fn interrupt_run(&mut self, to: &mut Writer<'_, '_>) {
        self.suspend_all(to);
        self.phase = Phase::Asking;
        let interrupts = self.questions.told();
        let (thread_id, run_id) = (&*self.first.thread_id, &*self.run_id);
        let outcome = RunOutcome::Interrupt { interrupts: &interrupts };
        // The event is whoever's that asks, and the run is the root's.
        let body = Body::RunFinished { thread_id, run_id, outcome, usage: &self.usage.entries };
        to.with(no_metadata()).put(None, body);
    }

    /// Those who are at work, the deepest first.
    fn at_work(&self) -> Vec<usize> {
        let mut open = self.children.open();
        let depth = |at: &usize| self.children.get(*at).map_or(0, |child| child.info.depth);
        open.sort_by_key(|at| (std::cmp::Reverse(depth(at)), *at));
        open
    }

    /// Closes what is open, children first. They go on in the next run.
    fn suspend_all(&mut self, to: &mut Writer<'_, '_>) {
        for at in self.at_work() {
            self.children.set(at, State::Suspended);
            let Some(child) = self.children.get_mut(at) else { continue };
            child.owner.close(to);
            if !to.mode.announces() {
                continue;
            }
            let interrupt_ids = self.questions.told_by(&child.session);
            let outcome = SubagentOutcome::Suspended { interrupt_ids: &interrupt_ids };
            let body = Body::SubagentFinished { result: None, outcome };
            to.with(&child.metadata).put(Some(&child.id), body);
        }
        self.root.close(to);
    }

    /// The stream is over. What did not end is not told as if it had.
    pub(super) fn end_stream(&mut self, out: &mut Out<'_>) {
        const MESSAGE: &str = "the stream ended before the run did";
        const CODE: &str = "incomplete";
        if !self.is_running() {
            return;
        }
        self.phase = Phase::Between;
        let mut to = Writer { mode: self.mode, at: self.at, metadata: no_metadata(), out };
        for at in self.at_work() {
            let Some(child) = self.children.get_mut(at) else { continue };
            child.owner.close(&mut to);
            if to.mode.announces() {
                let body = Body::SubagentError { message: MESSAGE, code: CODE };
                to.with(&child.metadata).put(Some(&child.id), body);
            }
            self.children.set(at, State::Ended);
        }
        self.root.close(&mut to);
        to.put(None, Body::RunError { message: MESSAGE, code: CODE, usage: &self.usage.entries });
    }

    /// The ids of the next run, from the caller.
    pub(super) fn give(&mut self, ids: RunIds) {
        self.given = Some(ids);
    }
}

/// Whether the root takes up its work: it is prompted, or it goes on.
fn is_begin_of_root(event: &Event) -> bool {
    event.scope == Scope::Root && matches!(event.kind, EventKind::UserMessage(_) | EventKind::ReplyStart(_))
}

fn is_end_of_root(event: &Event) -> bool {
    event.scope == Scope::Root && matches!(event.kind, EventKind::StreamComplete(_))
}
