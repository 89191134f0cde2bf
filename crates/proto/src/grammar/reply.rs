//! One reply: what is open in it.

use std::collections::HashMap;

use super::{
    Counts, Rule,
    call::{Call, Question},
    ended::Ended,
    error::Step,
};
use crate::{BlockId, ReplyId, ToolCallId};

/// An open reply.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    id: ReplyId,
    part: Part,
    model_call: ModelCall,
    blocks: HashMap<BlockId, BlockKind>,
    calls: HashMap<ToolCallId, Call>,
}

/// How much of a reply is in this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// An earlier stream had its beginning, so calls may be its.
    Rest,
    /// Likewise, and so far there are only answers to what it waited for.
    Answers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelCall {
    None,
    Open,
}

/// What a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    Thinking,
    Data,
}

impl BlockKind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Thinking => "thinking",
            Self::Data => "data",
        }
    }
}

/// What outlives the reply: the ids that its session has had, and how much came.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) blocks: Ended<BlockId>,
    pub(super) calls: Ended<ToolCallId>,
    pub(super) counts: Counts,
}

impl Reply {
    pub(super) fn new(id: ReplyId, part: Part) -> Self {
        Self { id, part, model_call: ModelCall::None, blocks: HashMap::new(), calls: HashMap::new() }
    }

    pub(super) fn id(&self) -> &ReplyId {
        &self.id
    }

    /// Takes note that something came which is no answer.
    pub(super) fn go_on(&mut self) {
        if self.part == Part::Answers {
            self.part = Part::Rest;
        }
    }

    /// How many things are open in it.
    pub(super) fn open(&self) -> usize {
        usize::from(self.model_call == ModelCall::Open) + self.blocks.len() + self.calls.len()
    }

    /// An open call of it.
    pub(super) fn call_mut(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        self.calls.get_mut(id)
    }

    /// Whether it waits for somebody's answer and has nothing else open, so that it may stay without an end. What the rest
    /// of a reply waits for may lie in its beginning.
    pub(super) fn is_parked(&self) -> bool {
        let is_idle = self.model_call == ModelCall::None && self.blocks.is_empty();
        let mut calls = self.calls.values();
        match self.part {
            Part::Answers => true,
            Part::Whole => is_idle && calls.clone().any(Call::is_asked) && !calls.any(Call::is_busy),
            Part::Rest if calls.clone().any(Call::is_asked) => is_idle && !calls.any(Call::is_busy),
            Part::Rest => is_idle && calls.all(Call::is_settled),
        }
    }

    /// That nothing is open in it.
    pub(super) fn close(&mut self, session: usize, memory: &mut Memory) -> Step {
        let Self { id, .. } = self;
        if let Some(block) = self.blocks.keys().min() {
            return Err(Rule::ReplyClosed
                .expected(format!("the end of the block `{block}` before that of the reply `{id}`")));
        }
        Rule::ReplyClosed.demand(self.model_call == ModelCall::None, || {
            format!("the end of the model call before that of the reply `{id}`")
        })?;
        let unsettled = self.calls.iter().filter(|(_, call)| !call.is_settled()).map(|(id, _)| id).min();
        if let Some(call) = unsettled {
            return Err(Rule::ReplyClosed
                .expected(format!("the result of the call `{call}` before the end of the reply `{id}`")));
        }
        for (call, _) in self.calls.drain() {
            memory.calls.insert(session, &call);
        }
        Ok(())
    }

    pub(super) fn start_model_call(&mut self, memory: &mut Memory) -> Step {
        Rule::WithinModelCall.demand(self.model_call == ModelCall::None, || {
            format!("the end of the reply `{}`'s model call before its next one", self.id)
        })?;
        self.model_call = ModelCall::Open;
        memory.counts.model_calls += 1;
        Ok(())
    }

    pub(super) fn end_model_call(&mut self) -> Step {
        Rule::WithinModelCall.demand(self.model_call == ModelCall::Open, || {
            format!("the start of a model call of the reply `{}` before its end", self.id)
        })?;
        self.model_call = ModelCall::None;
        Ok(())
    }

    pub(super) fn start_block(
        &mut self,
        id: &BlockId,
        kind: BlockKind,
        session: usize,
        memory: &mut Memory,
    ) -> Step {
        self.new_block(id, session, memory)?;
        self.blocks.insert(id.clone(), kind);
        Ok(())
    }

    /// A block that begins and ends with one event.
    pub(super) fn whole_block(&mut self, id: &BlockId, session: usize, memory: &mut Memory) -> Step {
        self.new_block(id, session, memory)?;
        memory.blocks.insert(session, id);
        Ok(())
    }

    fn new_block(&mut self, id: &BlockId, session: usize, memory: &mut Memory) -> Step {
        let new = !self.blocks.contains_key(id) && !memory.blocks.contains(session, id);
        Rule::BlockUnique.demand(new, || format!("an id that no block of the session had, not `{id}`"))?;
        memory.counts.blocks += 1;
        Ok(())
    }

    pub(super) fn continue_block(&mut self, id: &BlockId, kind: BlockKind) -> Step {
        Rule::WithinBlock.demand(self.blocks.get(id) == Some(&kind), || {
            format!("the start of the {} block `{id}` before it", kind.name())
        })
    }

    pub(super) fn end_block(
        &mut self,
        id: &BlockId,
        kind: BlockKind,
        session: usize,
        memory: &mut Memory,
    ) -> Step {
        self.continue_block(id, kind)?;
        self.blocks.remove(id);
        memory.blocks.insert(session, id);
        Ok(())
    }

    pub(super) fn start_call(&mut self, id: &ToolCallId, session: usize, memory: &mut Memory) -> Step {
        let new = !self.calls.contains_key(id) && !memory.calls.contains(session, id);
        Rule::CallUnique.demand(new, || format!("an id that no call of the session had, not `{id}`"))?;
        self.calls.insert(id.clone(), Call::new());
        memory.counts.tool_calls += 1;
        Ok(())
    }

    pub(super) fn continue_call(&mut self, id: &ToolCallId) -> Step<&mut Call> {
        self.calls.get_mut(id).filter(|call| call.arguments_are_open()).ok_or_else(|| {
            Rule::WithinCall.expected(format!("the start of the call `{id}` before it and no end"))
        })
    }

    pub(super) fn end_call(&mut self, id: &ToolCallId) -> Step {
        self.continue_call(id)?.complete_arguments();
        Ok(())
    }

    pub(super) fn start_result(&mut self, id: &ToolCallId, session: usize, memory: &Memory) -> Step {
        self.called(id, Rule::ResultAfterCall, session, memory)?.start_result(id)
    }

    pub(super) fn continue_result(&mut self, id: &ToolCallId, session: usize, memory: &Memory) -> Step {
        self.called(id, Rule::WithinResult, session, memory)?.continue_result(id)
    }

    pub(super) fn end_result(&mut self, id: &ToolCallId, session: usize, memory: &mut Memory) -> Step {
        let call = self.called(id, Rule::WithinResult, session, memory)?;
        call.continue_result(id)?;
        call.children_first(id)?;
        // Somebody else's result is counted when it comes.
        memory.counts.tool_results += u64::from(!call.has_external_result());
        self.calls.remove(id);
        memory.calls.insert(session, id);
        Ok(())
    }

    pub(super) fn external_result(&mut self, id: &ToolCallId, session: usize, memory: &mut Memory) -> Step {
        self.called(id, Rule::ResultAfterCall, session, memory)?.give_external_result(id)?;
        memory.counts.tool_results += 1;
        Ok(())
    }

    pub(super) fn ask(
        &mut self,
        question: Question,
        id: &ToolCallId,
        session: usize,
        memory: &Memory,
    ) -> Step {
        self.called(id, Rule::QuestionOfCall, session, memory)?.ask(question, id)
    }

    pub(super) fn answer(&mut self, id: &ToolCallId, session: usize, memory: &Memory) -> Step {
        self.called(id, Rule::QuestionOfCall, session, memory)?.answer(id)
    }

    /// The call that something is about. In the rest of a reply it may be one of the beginning.
    fn called(&mut self, id: &ToolCallId, rule: Rule, session: usize, memory: &Memory) -> Step<&mut Call> {
        if !self.calls.contains_key(id) {
            if memory.calls.contains(session, id) {
                let rule = if rule == Rule::ResultAfterCall { Rule::OneResult } else { rule };
                return Err(rule.expected(format!("nothing more of the call `{id}`, which has its result")));
            }
            if self.part == Part::Whole {
                return Err(rule.expected(format!("the start of the call `{id}` before it")));
            }
        }
        Ok(self.calls.entry(id.clone()).or_insert_with(Call::earlier))
    }
}
