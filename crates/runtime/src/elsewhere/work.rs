//! A child elsewhere, at work.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_proto::{
    Artifact, ChildScope, ErrorInfo, ErrorType, Event, EventKind, Json, Message, Outcome, Scope,
    event::{Custom, MessageOrigin, StreamComplete, UserMessage},
};
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

use super::{
    Elsewhere, Heard, Instruction, Instructions, Order, OrderLimits, RunnerStream, Template,
    border::Border,
    sequence::{Lost, Sequence},
};
use crate::{
    Prompt,
    run::{Conversation, Memory, RunControl, RunIdentity, RunResult, drop_quietly},
    subagent::{Birth, Newborn, Work},
};

/// How many items that give no event are taken in one poll, before whoever else waits has its turn.
const SILENT_ITEMS: u32 = 32;

/// The name of the event that says that the child is run again, and why.
const RUN_AGAIN: &str = "anabranch.run_again";

/// How many instructions wait for room, beside the messages that wait in the inbox.
const WAITING: usize = 16;

/// Stream of a child's events from elsewhere; the last is its terminal.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream drops the runner's, which tells the other side.
pub(crate) struct Remote {
    elsewhere: Elsewhere,
    source_name: Arc<str>,
    identity: RunIdentity,
    scope: Arc<ChildScope>,
    /// What the runner is to be told when it is first polled.
    order: Option<(Order, Instructions)>,
    events: Option<RunnerStream>,
    sequence: Sequence,
    border: Border,
    instructions: PollSender<Instruction>,
    waiting: VecDeque<Instruction>,
    said: Option<BoxFuture<'static, ()>>,
    /// The prompt, until the child's own stands in the stream.
    prompt: Option<Prompt>,
    conversation: Conversation,
    files: Vec<Artifact>,
    ready: VecDeque<Arc<Event>>,
    result: Option<RunResult>,
}

impl Remote {
    /// A child that has everything but its work.
    pub(crate) fn new(newborn: Newborn, elsewhere: Elsewhere) -> (Birth, Self) {
        let Newborn { birth, identity, source_name, prompt, history } = newborn;
        let scope = Arc::clone(&birth.scope);
        let order = order(&birth, &identity, &elsewhere, &source_name, &prompt, &history);
        let border = Border::new(identity.clone(), Arc::clone(&scope), order.limits, &*elsewhere.runner);
        let (sender, instructions) = Instructions::new();
        if !elsewhere.runner.takes_messages() {
            identity.control.inbox.deafen();
        }
        let work = Self {
            elsewhere,
            source_name,
            scope,
            order: Some((order, instructions)),
            events: None,
            sequence: Sequence::default(),
            border,
            identity,
            instructions: PollSender::new(sender),
            waiting: VecDeque::new(),
            said: None,
            prompt: Some(prompt),
            conversation: Conversation::new(history),
            files: Vec::new(),
            ready: VecDeque::new(),
            result: None,
        };
        (birth, work)
    }

    fn start(&mut self) {
        if let Some((order, instructions)) = self.order.take() {
            self.events = Some(self.elsewhere.runner.run(order, instructions));
        }
    }

    /// Says what there is to say to the other side, as far as there is room.
    fn say(&mut self, cx: &mut Context<'_>) -> Result<(), ErrorInfo> {
        loop {
            while self.waiting.len() < WAITING
                && let Poll::Ready(instruction) = self.border.poll_instruction(cx)
            {
                self.waiting.push_back(instruction);
            }
            self.read_inbox(cx);
            if self.waiting.is_empty() {
                if !self.instructions.get_ref().is_none_or(mpsc::Sender::is_closed) {
                    return Ok(());
                }
                self.identity.control.inbox.deafen();
                return if self.border.is_asking() { Err(deaf()) } else { Ok(()) };
            }
            match self.instructions.poll_reserve(cx) {
                Poll::Ready(Ok(())) => {
                    let Some(instruction) = self.waiting.pop_front() else { return Ok(()) };
                    // There is room, so it is taken unless nobody listens any more, which the next turn finds.
                    self.instructions.send_item(instruction).ok();
                }
                Poll::Ready(Err(_)) => return Err(deaf()),
                Poll::Pending => return Ok(()),
            }
        }
    }

    fn read_inbox(&mut self, cx: &mut Context<'_>) {
        let control = &self.identity.control;
        while self.waiting.len() < WAITING {
            if let Some(Prompt { content, .. }) = control.inbox.take_one() {
                let session_id = self.scope.child_session_id.clone();
                self.waiting.push_back(Instruction::Message { session_id, content });
                continue;
            }
            let said = self.said.get_or_insert_with(|| said(Arc::clone(control)).boxed());
            if said.poll_unpin(cx).is_pending() {
                return;
            }
            self.said = None;
        }
    }

    /// Takes what came from the other side.
    fn take(&mut self, item: Option<Result<Heard, ErrorInfo>>) {
        let taken = match item {
            Some(Ok(Heard::Again { why })) => self.again(&why),
            Some(Ok(Heard::Event(numbered))) => self.sequence.take(numbered).map_err(lost),
            Some(Err(error)) => Err(error),
            None => self.sequence.end().map_err(lost).and_then(|()| {
                let text = "the other side's events ended before the sub-agent did";
                Err(ErrorInfo::new(ErrorType::CONNECTION, text))
            }),
        };
        if let Err(error) = taken.and_then(|()| self.take_in_order()) {
            self.terminate(Outcome::Failed, Some(error));
        }
    }

    /// Somebody else runs the child from its beginning.
    fn again(&mut self, why: &str) -> Result<(), ErrorInfo> {
        if !self.elsewhere.runner.runs_again() {
            let text = "the runner runs nothing again, and said that it did";
            return Err(ErrorInfo::new(ErrorType::INTERNAL, text));
        }
        self.sequence = Sequence::default();
        self.files.clear();
        for event in self.border.again()? {
            if self.border.is_own(&event) {
                self.note(&event);
            }
            self.ready.push_back(event);
        }
        if self.prompt.is_none() {
            self.push(Custom::new(RUN_AGAIN, Json::from(serde_json::json!({ "why": why }))));
        }
        Ok(())
    }

    fn take_in_order(&mut self) -> Result<(), ErrorInfo> {
        while self.result.is_none()
            && let Some(event) = self.sequence.next()
        {
            if let Some(event) = self.border.take(event)? {
                if self.border.is_own(&event) {
                    self.note(&event);
                }
                self.ready.push_back(event);
            }
        }
        Ok(())
    }

    /// Takes note of one of the child's own events.
    fn note(&mut self, event: &Event) {
        self.conversation.apply(event);
        if let EventKind::UserMessage(_) = &event.kind {
            self.prompt = None;
        } else if let EventKind::ToolResultEnd(end) = &event.kind {
            let files = end.response.get("files").and_then(|files| files.to::<Vec<Artifact>>().ok());
            self.files.extend(files.unwrap_or_default());
        } else if let EventKind::StreamComplete(complete) = &event.kind {
            let message = complete.message.clone().or_else(|| self.conversation.final_message());
            self.end(complete.outcome, complete.error.clone(), message);
        }
    }

    /// Ends the run from here: nothing but its terminal is said.
    fn terminate(&mut self, outcome: Outcome, error: Option<ErrorInfo>) {
        if self.result.is_some() {
            return;
        }
        if let Some(prompt) = self.prompt.take() {
            let id = self.identity.shared.stamp.message_id();
            self.push(UserMessage::new(id, prompt.content, MessageOrigin::Parent));
        }
        let message = self.conversation.final_message();
        self.push(StreamComplete::new(outcome).error(error.clone()).message(message.clone()));
        self.end(outcome, error, message);
    }

    /// The run has its terminal.
    fn end(&mut self, outcome: Outcome, error: Option<ErrorInfo>, message: Option<Message>) {
        self.identity.control.inbox.close();
        self.border.close();
        self.remember();
        let mut result = RunResult::new(outcome);
        result.error = error;
        result.files = std::mem::take(&mut self.files);
        if outcome != Outcome::Completed && message.as_ref().is_none_or(|message| message.content.is_empty())
        {
            result.said = self.conversation.said();
        }
        result.message = message;
        self.result = Some(result);
    }

    /// Keeps the conversation for a further run, where there can be one.
    fn remember(&self) {
        if let Some(manner) = &self.identity.kept {
            let memory = Memory {
                template: Template::Elsewhere(self.elsewhere.clone()),
                source_name: Arc::clone(&self.source_name),
                subagent_id: self.scope.subagent_id.clone(),
                messages: self.conversation.settled(),
                run: self.scope.run,
                manner: Arc::clone(manner),
            };
            self.identity.shared.memories.keep(self.identity.session_id.clone(), memory);
        }
    }

    /// Makes one of the child's own events.
    fn push(&mut self, kind: impl Into<EventKind>) {
        let RunIdentity { metadata, shared, .. } = &self.identity;
        let scope = Scope::Child(Arc::clone(&self.scope));
        let event = Arc::new(Event::stamped(&*shared.stamp, scope, metadata.clone(), kind));
        self.conversation.apply(&event);
        self.ready.push_back(event);
    }
}

/// Waits until something was said to a run.
async fn said(control: Arc<RunControl>) {
    control.inbox.arrived().await;
}

fn deaf() -> ErrorInfo {
    ErrorInfo::new(ErrorType::CONNECTION, "the other side takes no answers and no messages")
}

fn lost(lost: Lost) -> ErrorInfo {
    let Lost { from, to } = lost;
    let text = format!("events {from} to {to} of the sub-agent did not come");
    ErrorInfo::new(ErrorType::CONNECTION, text)
}

fn order(
    birth: &Birth,
    identity: &RunIdentity,
    elsewhere: &Elsewhere,
    source_name: &Arc<str>,
    prompt: &Prompt,
    history: &[Message],
) -> Order {
    let limits = &identity.shared.limits;
    Order {
        session_id: birth.scope.child_session_id.clone(),
        run: birth.scope.run,
        subagent_id: birth.scope.subagent_id.clone(),
        parent_session_id: birth.scope.parent_session_id.clone(),
        tool_call_id: birth.scope.tool_call_id.clone(),
        agent: Arc::clone(&elsewhere.agent),
        source_name: Arc::clone(source_name),
        prompt: prompt.content.clone(),
        history: history.to_vec(),
        metadata: identity.metadata.clone().without_reserved(),
        limits: OrderLimits {
            depth: identity.shared.slots.max_depth().saturating_sub(birth.scope.depth),
            running: limits.max_running,
            spawned: identity.shared.slots.left(),
            request_ms: u64::try_from(limits.request.as_millis()).unwrap_or(u64::MAX),
        },
        timeout: birth.timeout,
        attempt: 1,
        permissions: identity.permissions.iter().map(crate::Permissions::policy).collect(),
    }
}

impl Stream for Remote {
    type Item = Arc<Event>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        let this = self.get_mut();
        for _ in 0..SILENT_ITEMS {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if this.result.is_some() {
                // The first terminal ends the run; what comes after it is nobody's.
                drop_quietly(this.events.take());
                return Poll::Ready(None);
            }
            this.start();
            if let Err(error) = this.say(cx) {
                this.terminate(Outcome::Failed, Some(error));
                continue;
            }
            let Some(events) = &mut this.events else { return Poll::Ready(None) };
            let item = std::task::ready!(events.poll_next_unpin(cx));
            this.take(item);
        }
        // Whoever has nothing but duplicates to say is ready for ever; others have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Work for Remote {
    fn result(&self) -> Option<&RunResult> {
        self.result.as_ref()
    }

    fn cut(self: Pin<&mut Self>, outcome: Outcome, error: Option<ErrorInfo>) {
        let this = self.get_mut();
        // Before anything is dropped: that may panic, and the terminal must stand.
        this.terminate(outcome, error);
        this.order = None;
        drop_quietly(this.events.take());
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // What it has said by then can be gone on from too.
        if self.result.is_none() {
            self.identity.control.inbox.close();
            self.remember();
        }
    }
}
