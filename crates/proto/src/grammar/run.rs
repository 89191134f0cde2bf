//! One open run of a session.

use super::{
    Rule,
    call::Question,
    error::Step,
    reply::{BlockKind, Memory, Part, Reply},
};
use crate::{EventKind, ReplyId, event::MessageOrigin};

/// An open run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) progress: Progress,
    reply: Option<Reply>,
}

/// Whether a run has had an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Announced,
    Begun,
}

impl Run {
    pub(super) fn new(progress: Progress) -> Self {
        Self { progress, reply: None }
    }

    /// A run of which an earlier stream had the beginning.
    pub(super) fn resumed(reply: ReplyId) -> Self {
        Self { progress: Progress::Begun, reply: Some(Reply::new(reply, Part::Answers)) }
    }

    pub(super) fn reply_mut(&mut self) -> Option<&mut Reply> {
        self.reply.as_mut()
    }

    /// How many things are open in it, itself included.
    pub(super) fn open(&self) -> usize {
        1 + self.reply.as_ref().map_or(0, |reply| 1 + reply.open())
    }

    pub(super) fn is_parked(&self) -> bool {
        self.reply.as_ref().is_some_and(Reply::is_parked)
    }

    /// That nothing is open in it.
    pub(super) fn close(&self) -> Step {
        match &self.reply {
            Some(reply) => {
                Err(Rule::RunClosed.expected(format!("the end of the reply `{}` before it", reply.id())))
            }
            None => Ok(()),
        }
    }

    /// Takes one of the run's own events that begins or ends no run.
    pub(super) fn take(&mut self, kind: &EventKind, session: usize, memory: &mut Memory) -> Step {
        use BlockKind::{Data, Text, Thinking};
        use EventKind as E;
        if let Some(reply) = &mut self.reply
            && !matches!(kind, E::UserConfirmResult(_) | E::ExternalExecutionResult(_) | E::UserInterrupt(_))
        {
            reply.go_on();
        }
        match kind {
            E::ReplyStart(e) => self.start_reply(&e.reply_id, memory),
            E::ReplyEnd(e) => {
                self.within(&e.reply_id)?.close(session, memory)?;
                self.reply = None;
                Ok(())
            }
            E::ModelCallStart(e) => self.within(&e.reply_id)?.start_model_call(memory),
            E::ModelCallEnd(e) => self.within(&e.reply_id)?.end_model_call(),
            E::TextBlockStart(e) => self.within(&e.reply_id)?.start_block(&e.block_id, Text, session, memory),
            E::TextBlockDelta(e) => self.within(&e.reply_id)?.continue_block(&e.block_id, Text),
            E::TextBlockEnd(e) => self.within(&e.reply_id)?.end_block(&e.block_id, Text, session, memory),
            E::ThinkingBlockStart(e) => {
                self.within(&e.reply_id)?.start_block(&e.block_id, Thinking, session, memory)
            }
            E::ThinkingBlockDelta(e) => self.within(&e.reply_id)?.continue_block(&e.block_id, Thinking),
            E::ThinkingBlockEnd(e) => {
                self.within(&e.reply_id)?.end_block(&e.block_id, Thinking, session, memory)
            }
            E::DataBlockStart(e) => self.within(&e.reply_id)?.start_block(&e.block_id, Data, session, memory),
            E::DataBlockDelta(e) => self.within(&e.reply_id)?.continue_block(&e.block_id, Data),
            E::DataBlockEnd(e) => self.within(&e.reply_id)?.end_block(&e.block_id, Data, session, memory),
            E::HintBlock(e) => self.within(&e.reply_id)?.whole_block(&e.block_id, session, memory),
            E::ToolCallStart(e) => self.within(&e.reply_id)?.start_call(&e.tool_call_id, session, memory),
            E::ToolCallDelta(e) => self.within(&e.reply_id)?.continue_call(&e.tool_call_id).map(drop),
            E::ToolCallEnd(e) => self.within(&e.reply_id)?.end_call(&e.tool_call_id),
            E::ToolResultStart(e) => self.within(&e.reply_id)?.start_result(&e.tool_call_id, session, memory),
            E::ToolResultTextDelta(e) => {
                self.within(&e.reply_id)?.continue_result(&e.tool_call_id, session, memory)
            }
            E::ToolResultDataDelta(e) => {
                self.within(&e.reply_id)?.continue_result(&e.tool_call_id, session, memory)
            }
            E::ToolResultEnd(e) => self.within(&e.reply_id)?.end_result(&e.tool_call_id, session, memory),
            E::RequireUserConfirm(e) => {
                let reply = self.within(&e.reply_id)?;
                let mut calls = e.tool_calls.iter();
                calls.try_for_each(|call| reply.ask(Question::Confirm, &call.id, session, memory))
            }
            E::RequireExternalExecution(e) => {
                let reply = self.within(&e.reply_id)?;
                let mut calls = e.tool_calls.iter();
                calls.try_for_each(|call| reply.ask(Question::External, &call.id, session, memory))
            }
            E::UserConfirmResult(e) => {
                let reply = self.within(&e.reply_id)?;
                let mut answers = e.confirm_results.iter();
                answers.try_for_each(|answer| reply.answer(&answer.tool_call.id, session, memory))
            }
            E::ExternalExecutionResult(e) => {
                let reply = self.within(&e.reply_id)?;
                let mut results = e.execution_results.iter();
                results.try_for_each(|result| reply.external_result(&result.id, session, memory))
            }
            E::UserInterrupt(e) => self.within(&e.reply_id).map(drop),
            E::ExceedMaxIters(e) => self.within(&e.reply_id).map(drop),
            E::Custom(_)
            | E::UserMessage(_)
            | E::SpawnSessionStart(_)
            | E::SessionUpdated(_)
            | E::StreamComplete(_)
            | E::Unknown(_) => Ok(()),
        }
    }

    fn start_reply(&mut self, id: &ReplyId, memory: &mut Memory) -> Step {
        if let Some(open) = &self.reply {
            return Err(Rule::OneReplyAtATime
                .expected(format!("the end of the reply `{}` before the start of the next", open.id())));
        }
        self.reply = Some(Reply::new(id.clone(), Part::Whole));
        memory.counts.replies += 1;
        Ok(())
    }

    fn within(&mut self, id: &ReplyId) -> Step<&mut Reply> {
        let Some(reply) = &mut self.reply else {
            return Err(Rule::WithinReply.expected(format!("the start of the reply `{id}` before it")));
        };
        Rule::WithinReply
            .demand(reply.id() == id, || format!("the open reply `{}`, not `{id}`", reply.id()))?;
        Ok(reply)
    }
}

/// What an event may be where its session has no run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening<'a> {
    /// The prompt of a run.
    Prompt(MessageOrigin),
    /// The start of a reply.
    Reply,
    /// The first thing in a resumed stream, which goes on with this reply: an answer to what the reply waited for, or
    /// something of a call's result.
    Rest(&'a ReplyId),
    /// What some producers send at any time.
    Free,
    /// Nothing: it comes within a run.
    None,
}

pub(super) fn opening(kind: &EventKind) -> Opening<'_> {
    use EventKind as E;
    match kind {
        E::UserConfirmResult(e) => Opening::Rest(&e.reply_id),
        E::ExternalExecutionResult(e) => Opening::Rest(&e.reply_id),
        E::UserInterrupt(e) => Opening::Rest(&e.reply_id),
        E::ToolResultStart(e) => Opening::Rest(&e.reply_id),
        E::ToolResultTextDelta(e) => Opening::Rest(&e.reply_id),
        E::ToolResultDataDelta(e) => Opening::Rest(&e.reply_id),
        E::ToolResultEnd(e) => Opening::Rest(&e.reply_id),
        E::UserMessage(e) => Opening::Prompt(e.origin),
        E::ReplyStart(_) => Opening::Reply,
        E::Custom(_) | E::Unknown(_) => Opening::Free,
        E::ReplyEnd(_)
        | E::ModelCallStart(_)
        | E::ModelCallEnd(_)
        | E::TextBlockStart(_)
        | E::TextBlockDelta(_)
        | E::TextBlockEnd(_)
        | E::ThinkingBlockStart(_)
        | E::ThinkingBlockDelta(_)
        | E::ThinkingBlockEnd(_)
        | E::DataBlockStart(_)
        | E::DataBlockDelta(_)
        | E::DataBlockEnd(_)
        | E::HintBlock(_)
        | E::ToolCallStart(_)
        | E::ToolCallDelta(_)
        | E::ToolCallEnd(_)
        | E::RequireUserConfirm(_)
        | E::RequireExternalExecution(_)
        | E::ExceedMaxIters(_)
        | E::SpawnSessionStart(_)
        | E::SessionUpdated(_)
        | E::StreamComplete(_) => Opening::None,
    }
}
