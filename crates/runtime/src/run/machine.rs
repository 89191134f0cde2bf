//! The loop's decisions: what a model's items and tools' responses lead to. Polls nothing.

use std::{collections::VecDeque, sync::Arc};

use anabranch_pipeline::{Caller, ToolCall};
use anabranch_proto::{
    Artifact, BlockId, ErrorInfo, ErrorType, Event, EventKind, Message, Outcome, ReplyId, Scope,
    TextOrBlocks, ToolCallId, ToolResponse, Usage,
    event::{
        ExceedMaxIters, HintBlockEvent, MessageOrigin, ModelCallEnd, ModelCallStart, ReplyEnd, ReplyStart,
        StreamComplete, TextBlockDelta, TextBlockEnd, TextBlockStart, ThinkingBlockDelta, ThinkingBlockEnd,
        ThinkingBlockStart, ToolCallDelta, ToolCallEnd, ToolCallStart, UserMessage,
    },
};

use super::{Conversation, Host, Memory, RunIdentity, RunResult, calls::CallNames};
use crate::{
    Agent, ModelError, ModelItem, ModelRequest, Prompt,
    elsewhere::Template,
    task::{Untold, titled},
};

/// What is to be done next.
pub(crate) enum Next {
    /// Call the model.
    CallModel(ModelRequest),
    /// Run these calls, in call order.
    RunTools(Vec<ToolCall>),
    /// Wait until one of the run's own background children has ended, then [`go_on`](Machine::go_on).
    AwaitTask,
    /// Nothing: the run has ended.
    End,
}

pub(crate) struct Machine {
    agent: Agent,
    source_name: Arc<str>,
    identity: RunIdentity,
    caller: Arc<Caller>,
    reply_id: ReplyId,
    conversation: Arc<Conversation>,
    names: CallNames,
    turn: u32,
    open_block: Option<(Block, BlockId)>,
    calls: Vec<ToolCall>,
    usage: Usage,
    /// How many bytes the model has given in this turn.
    answer_bytes: usize,
    /// Whether the model has given text or thinking in this turn.
    has_answered: bool,
    files: Vec<Artifact>,
    result: Option<RunResult>,
    /// Events that wait to be read.
    pub(crate) ready: VecDeque<Arc<Event>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Thinking,
}

impl Machine {
    /// The machine of a run, with the run's first events ready.
    pub(crate) fn new(
        agent: Agent,
        source_name: Arc<str>,
        identity: RunIdentity,
        history: Vec<Message>,
        prompt: Prompt,
    ) -> Self {
        let stamp = &identity.shared.stamp;
        let reply_id = stamp.reply_id();
        let message_id = stamp.message_id();
        let names = CallNames::of(&history).attempt(identity.attempt);
        let conversation = Arc::new(Conversation::new(history));
        let host = Host {
            identity: identity.clone(),
            conversation: Arc::clone(&conversation),
            user_message_id: Some(message_id.clone()),
        };
        let caller = Caller::new(&identity.session_id, &reply_id, Arc::clone(stamp))
            .scope(identity.scope.clone())
            .metadata(identity.metadata.clone())
            .counters(Arc::clone(&identity.shared.counters))
            .host(Arc::new(host));
        let mut this = Self {
            names,
            agent,
            source_name,
            identity,
            caller: Arc::new(caller),
            reply_id,
            conversation,
            turn: 0,
            open_block: None,
            calls: Vec::new(),
            usage: Usage::default(),
            answer_bytes: 0,
            has_answered: false,
            files: Vec::new(),
            result: None,
            ready: VecDeque::new(),
        };
        this.push(UserMessage::new(message_id, prompt.content, prompt.origin));
        let start = ReplyStart::new(&this.identity.session_id, &this.reply_id, Arc::clone(&this.source_name));
        this.push(start);
        this
    }

    /// Makes the next model call, or ends the run where it has made as many as it may.
    pub(crate) fn call_model(&mut self) -> Next {
        let limit = self.agent.inner().limits.max_iterations;
        if self.turn >= limit {
            self.push(ExceedMaxIters::new(&self.reply_id, Arc::clone(&self.source_name)));
            return self.end(Outcome::ExceedMaxIters);
        }
        for message in self.identity.control.inbox.take() {
            let message_id = self.identity.shared.stamp.message_id();
            self.push(UserMessage::new(message_id, message.content, MessageOrigin::Steering));
        }
        self.hint();
        let messages = self.conversation.messages();
        let agent = self.agent.inner();
        let mut request =
            ModelRequest::new(Arc::clone(&agent.system_prompt), messages, Arc::clone(&agent.tools));
        request.turn = self.turn;
        let start = ModelCallStart::new(&self.reply_id, Arc::clone(&agent.model_name));
        self.push(start);
        self.turn += 1;
        self.usage = Usage::default();
        self.answer_bytes = 0;
        self.has_answered = false;
        self.names.next_turn();
        Next::CallModel(request)
    }

    /// Takes a part of the model's answer.
    ///
    /// Gives what follows where the answer is larger than it may be; else the model goes on.
    pub(crate) fn model_item(&mut self, item: ModelItem) -> Option<Next> {
        self.answer_bytes = self.answer_bytes.saturating_add(size(&item));
        let limit = self.agent.inner().limits.model_output;
        if self.answer_bytes > limit {
            let text = format!("the model's answer is over {limit} bytes and was cut");
            return Some(self.fail(ErrorInfo::new(ErrorType::UPSTREAM, text)));
        }
        match item {
            ModelItem::Text(delta) if !delta.is_empty() => {
                let block_id = self.block(Block::Text);
                self.push(TextBlockDelta::new(&self.reply_id, block_id, delta));
            }
            ModelItem::Thinking(delta) if !delta.is_empty() => {
                let block_id = self.block(Block::Thinking);
                self.push(ThinkingBlockDelta::new(&self.reply_id, block_id, delta));
            }
            ModelItem::Text(_) | ModelItem::Thinking(_) => {}
            ModelItem::ToolCallStart { id, name } => self.begin_call(ToolCall::new(id, name, "")),
            ModelItem::ToolCallDelta { id, delta } => self.call_arguments(&id, delta),
            ModelItem::ToolCall(ToolCall { id, name, arguments, .. }) => {
                self.begin_call(ToolCall::new(&id, name, ""));
                self.call_arguments(&id, arguments);
            }
            ModelItem::Usage(usage) => self.usage.add(usage),
        }
        None
    }

    /// The model's answer is complete.
    pub(crate) fn model_ended(&mut self) -> Next {
        self.close_block();
        let calls = std::mem::take(&mut self.calls);
        for call in &calls {
            self.push(ToolCallEnd::new(&self.reply_id, &call.id));
        }
        let Usage { input_tokens, output_tokens, .. } = self.usage;
        let end = ModelCallEnd::new(&self.reply_id, input_tokens, output_tokens)
            .cache_input_tokens(self.usage.cache_input_tokens)
            .cache_creation_input_tokens(self.usage.cache_creation_input_tokens);
        self.push(end);
        if !calls.is_empty() {
            return Next::RunTools(calls);
        }
        if self.has_answered {
            return self.go_on();
        }
        self.fail(ErrorInfo::new(ErrorType::UPSTREAM, "the model answered with nothing"))
    }

    /// Ends the run, unless something is left to wait for or to answer.
    pub(crate) fn go_on(&mut self) -> Next {
        let RunIdentity { session_id, scope, control, shared, .. } = &self.identity;
        // A sub-agent has nobody but itself to read what its own background children came to.
        let must_read = *scope != Scope::Root && shared.tasks.has_untold(session_id);
        // What was said meanwhile is answered first.
        if must_read || !control.inbox.is_empty() {
            return self.call_model();
        }
        if shared.tasks.is_awaited(session_id) {
            return Next::AwaitTask;
        }
        if control.inbox.close_if_empty() { self.end(Outcome::Completed) } else { self.call_model() }
    }

    /// Tells the model what its background children came to, each once.
    fn hint(&mut self) {
        let RunIdentity { session_id, shared, .. } = &self.identity;
        let untold = shared.tasks.take_untold(session_id);
        for Untold { info, result, .. } in untold {
            let hint = TextOrBlocks::Blocks(titled(&info, result).content);
            let block_id = self.identity.shared.stamp.block_id();
            self.push(HintBlockEvent::new(&self.reply_id, block_id, info.task_id.to_string(), hint));
        }
    }

    /// The model failed. What it left open is closed by the session's processor, as after any other end.
    pub(crate) fn model_failed(&mut self, error: ModelError) -> Next {
        self.fail(error.into())
    }

    /// Passes on an event of a running call. Decides nothing by it.
    pub(crate) fn pass(&mut self, event: Arc<Event>) {
        if event.scope.same_run(&self.identity.scope) {
            self.conversation.apply(&event);
        }
        self.ready.push_back(event);
    }

    /// Takes what a call came to; its text is in the conversation by its events.
    pub(crate) fn response(&mut self, call: &ToolCallId, response: &ToolResponse) {
        self.identity.shared.tasks.told(&self.identity.session_id, call);
        let files = response.metadata.get("files").and_then(|files| files.to::<Vec<Artifact>>().ok());
        self.files.extend(files.unwrap_or_default());
    }

    /// Ends the run as failed.
    pub(crate) fn fail(&mut self, error: ErrorInfo) -> Next {
        self.cut(Outcome::Failed, Some(error))
    }

    /// Ends the run from outside: nothing but its terminal is said.
    pub(crate) fn cut(&mut self, outcome: Outcome, error: Option<ErrorInfo>) -> Next {
        if self.result.is_none() {
            self.identity.control.inbox.close();
            self.remember();
            let mut complete = StreamComplete::new(outcome);
            complete.error.clone_from(&error);
            complete.message = self.conversation.final_message();
            let mut result = RunResult::new(outcome);
            result.error = error;
            result.message.clone_from(&complete.message);
            result.files = std::mem::take(&mut self.files);
            if outcome != Outcome::Completed
                && result.message.as_ref().is_none_or(|message| message.content.is_empty())
            {
                result.said = self.conversation.said();
            }
            self.push(complete);
            self.result = Some(result);
        }
        Next::End
    }

    /// The run is dropped in mid-work, if it has not ended: what it has said by then can be gone on from too.
    pub(crate) fn stopped(&mut self) {
        if self.result.is_none() {
            self.identity.control.inbox.close();
            self.remember();
        }
    }

    /// Keeps the conversation for a further run, where there can be one.
    fn remember(&self) {
        if let (Scope::Child(scope), Some(manner)) = (&self.identity.scope, &self.identity.kept) {
            let memory = Memory {
                template: Template::Agent(self.agent.clone()),
                source_name: Arc::clone(&self.source_name),
                subagent_id: scope.subagent_id.clone(),
                messages: self.conversation.settled(),
                run: scope.run,
                manner: Arc::clone(manner),
            };
            self.identity.shared.memories.keep(self.identity.session_id.clone(), memory);
        }
    }

    pub(crate) fn identity(&self) -> &RunIdentity {
        &self.identity
    }

    pub(crate) fn result(&self) -> Option<&RunResult> {
        self.result.as_ref()
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    fn end(&mut self, outcome: Outcome) -> Next {
        let end = ReplyEnd::new(&self.identity.session_id, &self.reply_id, outcome.finished_reason());
        self.push(end);
        self.cut(outcome, None)
    }

    fn begin_call(&mut self, mut call: ToolCall) {
        self.close_block();
        call.id = self.names.begin(&call.id);
        self.push(ToolCallStart::new(&self.reply_id, &call.id, Arc::clone(&call.name)));
        self.calls.push(call);
    }

    fn call_arguments(&mut self, name: &ToolCallId, delta: String) {
        let id = self.names.get(name).cloned();
        // From the last: models give a call's arguments right after they begin it.
        let Some(call) = id.and_then(|id| self.calls.iter_mut().rfind(|call| call.id == id)) else {
            tracing::warn!(
                call = name.as_str(),
                "the model gave arguments for a call that it had not begun; dropped"
            );
            return;
        };
        if !delta.is_empty() {
            call.arguments.push_str(&delta);
            let delta = ToolCallDelta::new(&self.reply_id, &call.id, delta);
            self.push(delta);
        }
    }

    /// The open block of a type, opened where another or none was.
    fn block(&mut self, block: Block) -> BlockId {
        self.has_answered = true;
        if let Some((open, id)) = &self.open_block
            && *open == block
        {
            return id.clone();
        }
        self.close_block();
        let id = self.identity.shared.stamp.block_id();
        match block {
            Block::Text => self.push(TextBlockStart::new(&self.reply_id, &id)),
            Block::Thinking => self.push(ThinkingBlockStart::new(&self.reply_id, &id)),
        }
        self.open_block = Some((block, id.clone()));
        id
    }

    fn close_block(&mut self) {
        match self.open_block.take() {
            Some((Block::Text, id)) => self.push(TextBlockEnd::new(&self.reply_id, id)),
            Some((Block::Thinking, id)) => self.push(ThinkingBlockEnd::new(&self.reply_id, id)),
            None => {}
        }
    }

    /// Makes one of the run's own events.
    fn push(&mut self, kind: impl Into<EventKind>) {
        let RunIdentity { scope, metadata, shared, .. } = &self.identity;
        let event = Arc::new(Event::stamped(&*shared.stamp, scope.clone(), metadata.clone(), kind));
        self.conversation.apply(&event);
        self.ready.push_back(event);
    }
}

/// The bytes of a model's item that become a part of the conversation.
fn size(item: &ModelItem) -> usize {
    match item {
        ModelItem::Text(text) | ModelItem::Thinking(text) => text.len(),
        ModelItem::ToolCallStart { name, .. } => name.len(),
        ModelItem::ToolCallDelta { delta, .. } => delta.len(),
        ModelItem::ToolCall(call) => call.name.len() + call.arguments.len(),
        ModelItem::Usage(_) => 0,
    }
}
