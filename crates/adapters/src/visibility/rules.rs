//! What becomes of each kind of event.

use std::{borrow::Cow, sync::Arc};

use anabranch_proto::{
    Event, EventKind, Metadata, Scope, SessionId, ToolCallBlock, ToolCallId,
    event::{MessageOrigin, UserMessage},
};
use foldhash::HashMap;

use super::{Shown, Tools, Visibility};

/// The tools of the calls that are open, by the session that calls; none for the root.
pub(super) type Calls = HashMap<Option<SessionId>, HashMap<ToolCallId, Arc<str>>>;

/// What becomes of an event's payload.
enum Payload {
    Kept,
    /// With something taken out.
    Changed(EventKind),
    Dropped,
}

impl Visibility {
    /// An event without what is hidden of its content; none where nothing of it is left.
    pub(super) fn content<'e>(&mut self, event: &'e Event) -> Option<Cow<'e, Event>> {
        if !(self.hides_content() || self.children.hides_some()) {
            return Some(Cow::Borrowed(event));
        }
        let payload = match self.payload(event) {
            Payload::Dropped => return None,
            Payload::Kept => None,
            Payload::Changed(kind) => Some(kind),
        };
        let mut metadata = event.metadata.clone();
        let other_metadata = self.veil_metadata(&mut metadata);
        let has_unknown_fields = self.hides_content() && event.extra.is_some();
        if payload.is_none() && !other_metadata && !has_unknown_fields {
            return Some(Cow::Borrowed(event));
        }
        let mut changed = Event::new(
            event.id.clone(),
            event.created_at,
            event.scope.clone(),
            metadata,
            payload.unwrap_or_else(|| event.kind.clone()),
        );
        if !self.hides_content() {
            changed.extra.clone_from(&event.extra);
        }
        Some(Cow::Owned(changed))
    }

    #[expect(
        clippy::match_same_arms,
        reason = "the kinds that stay as they are are named, so that a new one is not among them by chance"
    )]
    fn payload(&mut self, event: &Event) -> Payload {
        let scope = &event.scope;
        match &event.kind {
            EventKind::ThinkingBlockStart(_)
            | EventKind::ThinkingBlockDelta(_)
            | EventKind::ThinkingBlockEnd(_) => dropped_if(self.thinking == Shown::No),
            EventKind::HintBlock(_) if self.prompts == Shown::No => Payload::Dropped,
            EventKind::HintBlock(hint) => changed(&**hint, |hint| self.veil_text(&mut hint.hint)),
            EventKind::UserMessage(message) => self.prompt(scope, message),
            EventKind::StreamComplete(complete) => changed(&**complete, |complete| {
                complete.message.as_mut().is_some_and(|message| self.veil_message(message))
            }),
            EventKind::ToolCallStart(start) => {
                self.open(scope, &start.tool_call_id, &start.tool_call_name);
                Payload::Kept
            }
            EventKind::ToolResultStart(start) => {
                self.open(scope, &start.tool_call_id, &start.tool_call_name);
                Payload::Kept
            }
            EventKind::ToolCallDelta(delta) => {
                dropped_if(self.is_hidden(self.arguments.as_ref(), scope, &delta.tool_call_id))
            }
            EventKind::ToolResultTextDelta(delta) => {
                dropped_if(self.is_hidden(self.results.as_ref(), scope, &delta.tool_call_id))
            }
            EventKind::ToolResultDataDelta(delta) => {
                dropped_if(self.is_hidden(self.results.as_ref(), scope, &delta.tool_call_id))
            }
            EventKind::ToolResultEnd(end) => {
                let is_hidden = self.is_hidden(self.results.as_ref(), scope, &end.tool_call_id);
                self.close(scope, &end.tool_call_id);
                changed(end, |end| {
                    if is_hidden && !end.response.is_empty() {
                        end.response = Metadata::default();
                        return true;
                    }
                    self.veil_response(&mut end.response)
                })
            }
            EventKind::RequireUserConfirm(request) => {
                changed(request, |request| self.veil_calls(scope, &mut request.tool_calls))
            }
            EventKind::RequireExternalExecution(request) => {
                changed(request, |request| self.veil_calls(scope, &mut request.tool_calls))
            }
            EventKind::UserConfirmResult(answer) => changed(answer, |answer| {
                let answers = answer.confirm_results.iter_mut();
                answers.fold(false, |changed, answer| {
                    let tool = self.tool(scope, &answer.tool_call.id);
                    self.veil_answer(answer, tool) | changed
                })
            }),
            EventKind::ExternalExecutionResult(answer) => changed(answer, |answer| {
                let results = answer.execution_results.iter_mut();
                results.fold(false, |changed, result| {
                    let tool = self.tool(scope, &result.id);
                    self.veil_result(result, tool) | changed
                })
            }),
            EventKind::ReplyEnd(_) => {
                self.calls.remove(&speaker(scope));
                Payload::Kept
            }
            // Nobody knows what is in it.
            EventKind::Unknown(_) => dropped_if(self.hides_content()),
            // What is said, how it goes, and what is an application's own. A spawn's prompt is in its metadata.
            EventKind::TextBlockStart(_)
            | EventKind::TextBlockDelta(_)
            | EventKind::TextBlockEnd(_)
            | EventKind::DataBlockStart(_)
            | EventKind::DataBlockDelta(_)
            | EventKind::DataBlockEnd(_)
            | EventKind::ToolCallEnd(_)
            | EventKind::ReplyStart(_)
            | EventKind::ModelCallStart(_)
            | EventKind::ModelCallEnd(_)
            | EventKind::UserInterrupt(_)
            | EventKind::ExceedMaxIters(_)
            | EventKind::Custom(_)
            | EventKind::SpawnSessionStart(_)
            | EventKind::SessionUpdated(_) => Payload::Kept,
            // A match outside `proto` must end in a `_`; `clippy::wildcard_enum_match_arm` fails as soon as there is a
            // kind that only it answers for.
            _ => dropped_if(self.hides_content()),
        }
    }

    /// A prompt. A run has to begin with one, so that of a run stays, and is empty.
    fn prompt(&self, scope: &Scope, message: &UserMessage) -> Payload {
        let is_from_a_person = matches!(scope, Scope::Root) && message.origin != MessageOrigin::Parent;
        if self.prompts == Shown::Yes || is_from_a_person {
            return changed(message, |message| self.veil_blocks(&mut message.content));
        }
        if message.origin == MessageOrigin::Steering {
            return Payload::Dropped;
        }
        changed(message, |message| {
            let had_content = !message.content.is_empty();
            message.content.clear();
            had_content
        })
    }

    fn veil_calls(&self, scope: &Scope, calls: &mut [ToolCallBlock]) -> bool {
        calls.iter_mut().fold(false, |changed, call| {
            let tool = self.tool(scope, &call.id);
            self.veil_call(call, tool) | changed
        })
    }

    fn open(&mut self, scope: &Scope, call: &ToolCallId, tool: &Arc<str>) {
        if self.arguments.is_some() || self.results.is_some() {
            // Who begins a call twice, by another name, has not changed whose arguments they are.
            let calls = self.calls.entry(speaker(scope)).or_default();
            calls.entry(call.clone()).or_insert_with(|| Arc::clone(tool));
        }
    }

    fn close(&mut self, scope: &Scope, call: &ToolCallId) {
        if let Some(calls) = self.calls.get_mut(&speaker(scope)) {
            calls.remove(call);
        }
    }

    fn is_hidden(&self, hidden: Option<&Tools>, scope: &Scope, call: &ToolCallId) -> bool {
        hidden.is_some_and(|hidden| self.tool(scope, call).is_none_or(|tool| hidden(tool)))
    }

    /// The tool of a call that is open.
    fn tool(&self, scope: &Scope, call: &ToolCallId) -> Option<&str> {
        self.calls.get(&speaker(scope))?.get(call).map(|tool| &**tool)
    }
}

fn speaker(scope: &Scope) -> Option<SessionId> {
    scope.child().map(|child| child.child_session_id.clone())
}

fn dropped_if(is_hidden: bool) -> Payload {
    if is_hidden { Payload::Dropped } else { Payload::Kept }
}

/// A payload after `change`, which says whether it changed anything.
fn changed<P: Clone + Into<EventKind>>(payload: &P, change: impl FnOnce(&mut P) -> bool) -> Payload {
    let mut copy = payload.clone();
    if change(&mut copy) { Payload::Changed(copy.into()) } else { Payload::Kept }
}
