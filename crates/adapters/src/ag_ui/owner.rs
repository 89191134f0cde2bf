//! What one speaker, the root or a child's run, has open.

use std::sync::Arc;

use anabranch_proto::{BlockId, ReplyId, ToolCallId, event::ToolResultEnd};
use foldhash::{HashMap, HashSet};

use super::{
    Mode,
    frame::{Body, Value},
    ids::{OwnerId, SentIds, What},
    metadata::Own,
    writer::Writer,
};
use crate::{ordered::Ordered, sanitize};

/// What one speaker has open. Whatever is opened here is closed here.
#[derive(Clone, Debug, Default)]
pub(super) struct Owner {
    /// The child's run; nothing for the root.
    pub(super) id: OwnerId,
    /// What the speaker calls itself, where frames name nobody else.
    pub(super) name: Option<Arc<str>>,
    texts: Ordered<(ReplyId, BlockId), OpenBlock>,
    thoughts: Ordered<(ReplyId, BlockId), OpenBlock>,
    calls: HashMap<ToolCallId, Call>,
    /// Models that are at work, each with its step; and the names of the steps.
    models: Vec<Model>,
    steps: HashSet<Arc<str>>,
    /// The last message of text, which the calls after it belong to.
    last_message: Option<(ReplyId, Arc<str>)>,
}

#[derive(Clone, Debug)]
struct OpenBlock {
    id: Arc<str>,
    has_text: bool,
}

#[derive(Clone, Debug)]
struct Call {
    id: Arc<str>,
    name: Arc<str>,
    message: Option<Arc<str>>,
    stage: Stage,
    output: String,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its arguments are open.
    Arguments,
    /// Its arguments were open when a run ended.
    Cut,
    /// Its arguments are complete.
    Ready,
    /// It has its result.
    Answered,
}

#[derive(Clone, Debug)]
struct Model {
    name: Arc<str>,
    /// The step, while it is open.
    step: Option<Arc<str>>,
}

impl Owner {
    /// A child's run, with nothing open.
    pub(super) fn of_child(id: Arc<str>, name: Arc<str>) -> Self {
        Self { id: Some(id), name: Some(name), ..Self::default() }
    }

    /// Begins a text.
    pub(super) fn start_text(
        &mut self,
        reply: &ReplyId,
        block: &BlockId,
        ids: &mut SentIds,
        to: &mut Writer<'_, '_>,
    ) {
        let key = (reply.clone(), block.clone());
        if self.texts.contains(&key) {
            return;
        }
        let id = ids.of(&self.id, What::Text(reply.clone(), block.clone()));
        let name = self.name.as_deref().filter(|_| to.mode == Mode::AttributionOnly).map(sanitize::line);
        let body = Body::TextMessageStart { message_id: &id, role: "assistant", name: name.as_deref() };
        to.put(self.id.as_deref(), body);
        self.last_message = Some((reply.clone(), Arc::clone(&id)));
        self.texts.push(key, OpenBlock { id, has_text: false });
    }

    /// Writes a piece of a text; one that is not open, because a run ended in its midst, goes on under its id.
    pub(super) fn text(
        &mut self,
        reply: &ReplyId,
        block: &BlockId,
        delta: &str,
        ids: &mut SentIds,
        to: &mut Writer<'_, '_>,
    ) {
        if delta.is_empty() {
            return;
        }
        let is_last = |key: &(ReplyId, BlockId)| key.1 == *block && key.0 == *reply;
        if self.texts.last_mut(is_last).is_none() {
            self.start_text(reply, block, ids, to);
        }
        let owner = self.id.as_deref();
        let mut put = |open: &mut OpenBlock| {
            open.has_text = true;
            to.put(owner, Body::TextMessageContent { message_id: &open.id, delta });
        };
        match self.texts.last_mut(is_last) {
            Some(open) => put(open),
            None => _ = self.texts.get_mut(&(reply.clone(), block.clone())).map(put),
        }
    }

    /// Ends a text. `whole` is its text where it is another than the pieces.
    pub(super) fn end_text(
        &mut self,
        reply: &ReplyId,
        block: &BlockId,
        whole: Option<&str>,
        ids: &mut SentIds,
        to: &mut Writer<'_, '_>,
    ) {
        let owner = self.id.clone();
        let key = (reply.clone(), block.clone());
        let what = What::Text(reply.clone(), block.clone());
        // One that is not open and has been sent was cut by a run's end, so it has been shown.
        let is_shown = match self.texts.get(&key) {
            Some(open) => open.has_text,
            None => ids.has(&self.id, what.clone()),
        };
        if let Some(whole) = whole.filter(|_| !is_shown) {
            self.text(reply, block, whole, ids, to);
        }
        if let Some(open) = self.texts.remove(&key) {
            to.put(owner.as_deref(), Body::TextMessageEnd { message_id: &open.id });
        }
        // What was shown cannot be taken back; a client that cares is told.
        if let Some(text) = whole.filter(|_| is_shown) {
            let value = Value::Replaced { message_id: &ids.of(&owner, what), text };
            to.put(owner.as_deref(), Body::Custom { name: "anabranch.text_replaced", value });
        }
    }

    /// Begins a thought.
    pub(super) fn start_thought(
        &mut self,
        reply: &ReplyId,
        block: &BlockId,
        ids: &mut SentIds,
        to: &mut Writer<'_, '_>,
    ) {
        let key = (reply.clone(), block.clone());
        if self.thoughts.contains(&key) {
            return;
        }
        let id = ids.of(&self.id, What::Thought(reply.clone(), block.clone()));
        to.put(self.id.as_deref(), Body::ReasoningStart { message_id: &id });
        to.put(self.id.as_deref(), Body::ReasoningMessageStart { message_id: &id, role: "reasoning" });
        self.thoughts.push(key, OpenBlock { id, has_text: false });
    }

    /// Writes a piece of a thought.
    pub(super) fn thought(
        &mut self,
        reply: &ReplyId,
        block: &BlockId,
        delta: &str,
        ids: &mut SentIds,
        to: &mut Writer<'_, '_>,
    ) {
        if delta.is_empty() {
            return;
        }
        self.start_thought(reply, block, ids, to);
        if let Some(open) = self.thoughts.get(&(reply.clone(), block.clone())) {
            to.put(self.id.as_deref(), Body::ReasoningMessageContent { message_id: &open.id, delta });
        }
    }

    /// Ends a thought.
    pub(super) fn end_thought(&mut self, reply: &ReplyId, block: &BlockId, to: &mut Writer<'_, '_>) {
        if let Some(open) = self.thoughts.remove(&(reply.clone(), block.clone())) {
            close_thought(self.id.as_deref(), &open, to);
        }
    }

    /// Begins a call.
    pub(super) fn start_call(
        &mut self,
        reply: &ReplyId,
        call: &ToolCallId,
        name: &Arc<str>,
        ids: &mut SentIds,
        to: &mut Writer<'_, '_>,
    ) {
        if self.calls.contains_key(call) || ids.has(&self.id, What::Result(call.clone())) {
            return;
        }
        let id = ids.of(&self.id, What::Call(call.clone()));
        let message = self.last_message.as_ref().filter(|(of, _)| of == reply).map(|(_, id)| Arc::clone(id));
        let opened =
            Call { id, name: Arc::clone(name), message, stage: Stage::Arguments, output: String::new() };
        opened.start(self.id.as_deref(), to);
        self.calls.insert(call.clone(), opened);
    }

    /// Writes a piece of a call's arguments.
    pub(super) fn arguments(&mut self, call: &ToolCallId, delta: &str, to: &mut Writer<'_, '_>) {
        let Some(call) = self.calls.get_mut(call).filter(|_| !delta.is_empty()) else {
            return;
        };
        if call.stage == Stage::Cut {
            call.start(self.id.as_deref(), to);
            call.stage = Stage::Arguments;
        }
        if call.stage == Stage::Arguments {
            to.put(self.id.as_deref(), Body::ToolCallArgs { tool_call_id: &call.id, delta });
        }
    }

    /// Ends a call's arguments.
    pub(super) fn end_arguments(&mut self, call: &ToolCallId, to: &mut Writer<'_, '_>) {
        if let Some(call) = self.calls.get_mut(call) {
            call.complete(self.id.as_deref(), to);
        }
    }

    /// Keeps a piece of a call's output: the protocol has a result, and no pieces of one.
    pub(super) fn output(&mut self, call: &ToolCallId, delta: &str) {
        if let Some(call) = self.calls.get_mut(call).filter(|call| call.stage != Stage::Answered) {
            call.output.push_str(delta);
        }
    }

    /// Writes a call's result, once.
    pub(super) fn result(&mut self, end: &ToolResultEnd, ids: &mut SentIds, to: &mut Writer<'_, '_>) {
        let Some(call) = self.calls.get_mut(&end.tool_call_id).filter(|call| call.stage != Stage::Answered)
        else {
            return;
        };
        call.complete(self.id.as_deref(), to);
        call.stage = Stage::Answered;
        let content = std::mem::take(&mut call.output);
        let message_id = ids.of(&self.id, What::Result(end.tool_call_id.clone()));
        let own = Own::Result { state: end.state, response: &end.response };
        let body = Body::ToolCallResult {
            message_id: &message_id,
            tool_call_id: &call.id,
            content: &content,
            role: "tool",
        };
        to.put_with(self.id.as_deref(), own, body);
    }

    /// The id and the name that a call was sent with.
    pub(super) fn call(&self, call: &ToolCallId) -> Option<(&Arc<str>, &Arc<str>)> {
        self.calls.get(call).map(|call| (&call.id, &call.name))
    }

    /// The message that a call belongs to.
    pub(super) fn message_of(&self, call: &ToolCallId) -> Option<&Arc<str>> {
        self.calls.get(call)?.message.as_ref()
    }

    /// A model begins to work: a step.
    pub(super) fn start_model(&mut self, name: &Arc<str>, to: &mut Writer<'_, '_>) {
        // Steps are told apart by name, where clients do not know owners by nothing else.
        let step: Arc<str> = match &self.id {
            Some(id) if !to.mode.announces() => format!("{id}:{name}").into(),
            Some(_) | None => Arc::clone(name),
        };
        let step = self.steps.insert(Arc::clone(&step)).then_some(step);
        if let Some(step) = &step {
            to.put(self.id.as_deref(), Body::StepStarted { step_name: step });
        }
        self.models.push(Model { name: Arc::clone(name), step });
    }

    /// A model has done its work; gives its name.
    pub(super) fn end_model(&mut self, to: &mut Writer<'_, '_>) -> Option<Arc<str>> {
        let model = self.models.pop()?;
        if let Some(step) = &model.step {
            self.steps.remove(step);
            to.put(self.id.as_deref(), Body::StepFinished { step_name: step });
        }
        Some(model.name)
    }

    /// Closes what is open, because the run of the protocol ends or the speaker does.
    pub(super) fn close(&mut self, to: &mut Writer<'_, '_>) {
        let owner = self.id.as_deref();
        for open in self.texts.take() {
            to.put(owner, Body::TextMessageEnd { message_id: &open.id });
        }
        for open in self.thoughts.take() {
            close_thought(owner, &open, to);
        }
        let mut cut: Vec<_> = self.calls.values_mut().filter(|call| call.stage == Stage::Arguments).collect();
        cut.sort_by(|a, b| a.id.cmp(&b.id));
        for call in cut {
            call.complete(owner, to);
            call.stage = Stage::Cut;
        }
        self.steps.clear();
        for step in self.models.iter_mut().rev().filter_map(|model| model.step.take()) {
            to.put(owner, Body::StepFinished { step_name: &step });
        }
    }

    /// Forgets what only matters while the speaker speaks.
    pub(super) fn forget(&mut self) {
        *self = Self { id: self.id.take(), name: self.name.take(), ..Self::default() };
    }
}

impl Call {
    fn start(&self, owner: Option<&str>, to: &mut Writer<'_, '_>) {
        let body = Body::ToolCallStart {
            tool_call_id: &self.id,
            tool_call_name: &sanitize::line(&self.name),
            parent_message_id: self.message.as_deref(),
        };
        to.put(owner, body);
    }

    fn complete(&mut self, owner: Option<&str>, to: &mut Writer<'_, '_>) {
        match self.stage {
            Stage::Arguments => {
                to.put(owner, Body::ToolCallEnd { tool_call_id: &self.id });
                self.stage = Stage::Ready;
            }
            Stage::Cut => self.stage = Stage::Ready,
            Stage::Ready | Stage::Answered => {}
        }
    }
}

fn close_thought(owner: Option<&str>, open: &OpenBlock, to: &mut Writer<'_, '_>) {
    to.put(owner, Body::ReasoningMessageEnd { message_id: &open.id });
    to.put(owner, Body::ReasoningEnd { message_id: &open.id });
}
