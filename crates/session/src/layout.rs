//! Where the blocks of an open reply stand.
//!
//! A reply is a row of model turns. Each turn is first what the model wrote, in the order in which it began, then the
//! results of its calls, in the order of the calls. Results that begin in call order, as most do, are only appended;
//! any other costs a shift of the blocks behind it, never of their text.

use std::collections::HashMap;

use anabranch_proto::{BlockId, ContentBlock, ToolCallId};

/// Where things are in the content of the open reply's message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    blocks: HashMap<BlockId, usize>,
    last_block: Option<(BlockId, usize)>,
    calls: Vec<Call>,
    call_numbers: HashMap<ToolCallId, usize>,
    turns: Vec<Turn>,
    /// The turn that the open model call writes.
    writing: Option<usize>,
}

/// A tool call and its result.
#[derive(Clone, Debug)]
struct Call {
    turn: usize,
    block: Option<usize>,
    result: Option<usize>,
    /// Where in the result's output each block of data is.
    data: HashMap<BlockId, usize>,
}

/// What the model wrote in one call, and the results of the calls in it.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Where the next thing that the model writes goes; behind it are the results.
    head_end: usize,
    has_call: bool,
    has_result: bool,
}

/// What is to be placed among the things that the model reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Written,
    Call,
    Hint,
}

impl Layout {
    /// A model call begins, and a turn with it.
    pub(crate) fn model_call_start(&mut self, content: &[ContentBlock]) {
        self.writing = Some(self.add_turn(content));
    }

    /// The model call ends; its calls' results may still come.
    pub(crate) fn model_call_end(&mut self) {
        self.writing = None;
    }

    /// Places a block that is built up by events.
    pub(crate) fn add_block(&mut self, content: &mut Vec<ContentBlock>, id: &BlockId, block: ContentBlock) {
        let turn = self.turn_for(content, Head::Written);
        let at = self.insert_head(content, turn, block);
        self.blocks.insert(id.clone(), at);
        self.last_block = Some((id.clone(), at));
    }

    /// Where an open block is.
    pub(crate) fn block(&self, id: &BlockId) -> Option<usize> {
        match &self.last_block {
            Some((last, at)) if last == id => Some(*at),
            Some(_) | None => self.blocks.get(id).copied(),
        }
    }

    /// Where a block is that is now complete.
    pub(crate) fn end_block(&mut self, id: &BlockId) -> Option<usize> {
        if self.last_block.as_ref().is_some_and(|(last, _)| last == id) {
            self.last_block = None;
        }
        self.blocks.remove(id)
    }

    /// Places a hint before what the model reads next.
    pub(crate) fn add_hint(&mut self, content: &mut Vec<ContentBlock>, hint: ContentBlock) {
        let turn = self.turn_for(content, Head::Hint);
        self.insert_head(content, turn, hint);
    }

    /// Places what is said to the agent in mid-reply: behind the turn under way and its results, before the next.
    pub(crate) fn add_steering(&mut self, content: &mut Vec<ContentBlock>, hint: ContentBlock) {
        let turn = self.add_turn(content);
        self.insert_head(content, turn, hint);
    }

    /// Places a tool call, once per id.
    pub(crate) fn add_call(
        &mut self,
        content: &mut Vec<ContentBlock>,
        id: &ToolCallId,
        block: impl FnOnce() -> ContentBlock,
    ) {
        if self.call_numbers.contains_key(id) {
            return;
        }
        let turn = self.turn_for(content, Head::Call);
        let at = self.insert_head(content, turn, block());
        self.add_call_number(id, turn, Some(at));
    }

    /// Where a call's own block is.
    pub(crate) fn call(&self, id: &ToolCallId) -> Option<usize> {
        self.calls.get(*self.call_numbers.get(id)?)?.block
    }

    /// Where a call's result is.
    pub(crate) fn result(&self, id: &ToolCallId) -> Option<usize> {
        self.calls.get(*self.call_numbers.get(id)?)?.result
    }

    /// Places a call's result in the slot of its call. The call itself may be in an earlier stream.
    pub(crate) fn add_result(
        &mut self,
        content: &mut Vec<ContentBlock>,
        id: &ToolCallId,
        block: ContentBlock,
    ) -> usize {
        let number = if let Some(&number) = self.call_numbers.get(id) {
            number
        } else {
            let turn = self.turns.len().checked_sub(1).unwrap_or_else(|| self.add_turn(content));
            self.add_call_number(id, turn, None)
        };
        let turn = self.calls.get(number).map_or(0, |call| call.turn);
        let earlier = self.calls.get(..number).unwrap_or_default().iter().rev();
        let at = earlier
            .take_while(|call| call.turn == turn)
            .find_map(|call| call.result)
            .map(|before| before + 1)
            .or_else(|| Some(self.turns.get(turn)?.head_end))
            .unwrap_or(content.len());
        self.insert(content, turn, at, block);
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.has_result = true;
        }
        if let Some(call) = self.calls.get_mut(number) {
            call.result = Some(at);
        }
        at
    }

    /// Forgets the data blocks of a result that begins anew.
    pub(crate) fn restart_result(&mut self, id: &ToolCallId) {
        if let Some(call) = self.call_numbers.get(id).and_then(|&number| self.calls.get_mut(number)) {
            call.data.clear();
        }
    }

    /// Where in a result's output a block of data is, or that it is to be at `next`.
    pub(crate) fn result_data(&mut self, call: &ToolCallId, block: &BlockId, next: usize) -> usize {
        let call = self.call_numbers.get(call).and_then(|&number| self.calls.get_mut(number));
        call.map_or(next, |call| *call.data.entry(block.clone()).or_insert(next))
    }

    fn add_call_number(&mut self, id: &ToolCallId, turn: usize, block: Option<usize>) -> usize {
        let number = self.calls.len();
        self.calls.push(Call { turn, block, result: None, data: HashMap::new() });
        self.call_numbers.insert(id.clone(), number);
        number
    }

    fn add_turn(&mut self, content: &[ContentBlock]) -> usize {
        self.turns.push(Turn { head_end: content.len(), has_call: false, has_result: false });
        self.turns.len() - 1
    }

    /// The turn that something new belongs to. Without an open model call a turn ends where its results begin; a hint
    /// never goes between calls and their results.
    fn turn_for(&mut self, content: &[ContentBlock], head: Head) -> usize {
        let turn = match (self.writing, self.turns.last()) {
            (Some(writing), _) => writing,
            (None, Some(last)) if !last.has_result && (head != Head::Hint || !last.has_call) => {
                self.turns.len() - 1
            }
            (None, Some(_) | None) => self.add_turn(content),
        };
        if head == Head::Call
            && let Some(turn) = self.turns.get_mut(turn)
        {
            turn.has_call = true;
        }
        turn
    }

    fn insert_head(&mut self, content: &mut Vec<ContentBlock>, turn: usize, block: ContentBlock) -> usize {
        let at = self.turns.get(turn).map_or(content.len(), |turn| turn.head_end);
        self.insert(content, turn, at, block);
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.head_end = at + 1;
        }
        at
    }

    /// Inserts a block of a turn, and moves along what is known of those behind it.
    fn insert(&mut self, content: &mut Vec<ContentBlock>, turn: usize, at: usize, block: ContentBlock) {
        for later in self.turns.iter_mut().skip(turn + 1) {
            later.head_end += 1;
        }
        if at >= content.len() {
            content.push(block);
            return;
        }
        content.insert(at, block);
        let blocks = self.blocks.values_mut().chain(self.last_block.as_mut().map(|(_, place)| place));
        let calls = self.calls.iter_mut().flat_map(|call| call.block.iter_mut().chain(&mut call.result));
        for place in blocks.chain(calls) {
            if *place >= at {
                *place += 1;
            }
        }
    }
}
