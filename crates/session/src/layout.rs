//! Where the blocks of an open reply stand.
//!
//! A reply is a row of model turns. Each turn is first its head, what the model wrote in the order in which it began,
//! then the results of its calls, in the order of the calls. The message's content has the heads, and those results that
//! can be appended to it: of the last turn, once that is written, and each behind the results of all calls before its
//! own. Any other result is kept apart until that is so, or until the reply ends. So a result costs the same whatever the
//! order in which results come; only what is written before a prompt that came in mid-turn shifts that prompt.

use std::{mem, vec};

use anabranch_proto::{BlockId, ContentBlock, ToolCallId};

use crate::hash::IdMap;

/// Where things are in the content of the open reply's message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    blocks: IdMap<BlockId, Place>,
    last_block: Option<(BlockId, Place)>,
    calls: Vec<Call>,
    call_numbers: IdMap<ToolCallId, usize>,
    turns: Vec<Turn>,
    /// The turn that the open model call writes.
    writing: Option<usize>,
    /// How many results are kept apart.
    apart: usize,
}

/// A block in the head of a turn. It stays there, wherever the turn goes.
#[derive(Clone, Copy, Debug)]
struct Place {
    turn: usize,
    offset: usize,
}

/// A tool call and its result.
#[derive(Clone, Debug)]
struct Call {
    turn: usize,
    /// How many calls of the turn are before it.
    ordinal: usize,
    /// Where in the turn's head the call is. It may be in an earlier stream.
    block: Option<Place>,
    /// Its result, while that is not in the content.
    apart: Option<ContentBlock>,
    /// Where in the result's output each block of data is.
    data: IdMap<BlockId, usize>,
}

/// What the model wrote in one call, and the results of the calls in it.
#[derive(Clone, Debug)]
struct Turn {
    /// Where in the content its head begins.
    start: usize,
    /// How many blocks its head has.
    head: usize,
    /// How many results are in the content behind its head: those of its first calls. Its head grows no more then.
    results: usize,
    /// Its calls, by their numbers.
    calls: Vec<usize>,
    has_result: bool,
}

/// What is to be placed among the things that the model reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Written,
    Hint,
}

impl Layout {
    /// A model call begins, and a turn with it.
    pub(crate) fn model_call_start(&mut self, content: &mut Vec<ContentBlock>) {
        self.model_call_end(content);
        self.writing = Some(self.add_turn(content));
    }

    /// The model call ends; its calls' results may still come.
    pub(crate) fn model_call_end(&mut self, content: &mut Vec<ContentBlock>) {
        if let Some(written) = self.writing.take() {
            self.append_results(content, written);
        }
    }

    /// Places a block that is built up by events.
    pub(crate) fn add_block(&mut self, content: &mut Vec<ContentBlock>, id: &BlockId, block: ContentBlock) {
        let turn = self.turn_for(content, Head::Written);
        let place = self.insert_head(content, turn, block);
        self.blocks.insert(id.clone(), place);
        self.last_block = Some((id.clone(), place));
    }

    /// Where an open block is.
    pub(crate) fn block(&self, id: &BlockId) -> Option<usize> {
        match &self.last_block {
            Some((last, place)) if last == id => self.index(*place),
            Some(_) | None => self.index(*self.blocks.get(id)?),
        }
    }

    /// Where a block is that is now complete.
    pub(crate) fn end_block(&mut self, id: &BlockId) -> Option<usize> {
        if self.last_block.as_ref().is_some_and(|(last, _)| last == id) {
            self.last_block = None;
        }
        let place = self.blocks.remove(id)?;
        self.index(place)
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
        let turn = self.turn_for(content, Head::Written);
        let place = self.insert_head(content, turn, block());
        self.add_call_number(id, turn, Some(place));
    }

    /// Where a call's own block is.
    pub(crate) fn call(&self, id: &ToolCallId) -> Option<usize> {
        self.index(self.numbered(id)?.block?)
    }

    /// A call's result.
    pub(crate) fn result<'a>(
        &'a self,
        content: &'a [ContentBlock],
        id: &ToolCallId,
    ) -> Option<&'a ContentBlock> {
        let call = self.numbered(id)?;
        match &call.apart {
            Some(result) => Some(result),
            None => content.get(self.result_index(call)?),
        }
    }

    /// A call's result.
    pub(crate) fn result_mut<'a>(
        &'a mut self,
        content: &'a mut [ContentBlock],
        id: &ToolCallId,
    ) -> Option<&'a mut ContentBlock> {
        let number = *self.call_numbers.get(id)?;
        let appended = self.result_index(self.calls.get(number)?);
        match &mut self.calls.get_mut(number)?.apart {
            Some(result) => Some(result),
            None => content.get_mut(appended?),
        }
    }

    /// Places a call's result, its first, in the slot of its call. The call itself may be in an earlier stream.
    pub(crate) fn add_result(
        &mut self,
        content: &mut Vec<ContentBlock>,
        id: &ToolCallId,
        result: ContentBlock,
    ) {
        let number = if let Some(&number) = self.call_numbers.get(id) {
            number
        } else {
            let turn = self.turns.len().checked_sub(1).unwrap_or_else(|| self.add_turn(content));
            self.add_call_number(id, turn, None)
        };
        let Some(call) = self.calls.get_mut(number) else { return };
        call.apart = Some(result);
        self.apart += 1;
        let turn = call.turn;
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.has_result = true;
        }
        self.append_results(content, turn);
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

    /// Whether something is not in the content.
    pub(crate) fn has_apart(&self) -> bool {
        self.apart > 0
    }

    /// The content with all that was kept apart. Nothing can be placed after that.
    pub(crate) fn finish(mut self, content: Vec<ContentBlock>) -> Vec<ContentBlock> {
        if !self.has_apart() {
            return content;
        }
        let mut whole = Vec::with_capacity(content.len() + self.apart);
        let mut content = content.into_iter();
        for turn in mem::take(&mut self.turns) {
            whole.extend(content.by_ref().take(turn.head + turn.results));
            whole.extend(self.take_apart(turn.calls.into_iter()));
        }
        whole.extend(content);
        whole
    }

    fn take_apart(&mut self, calls: vec::IntoIter<usize>) -> impl Iterator<Item = ContentBlock> {
        calls.filter_map(|number| self.calls.get_mut(number)?.apart.take())
    }

    fn numbered(&self, id: &ToolCallId) -> Option<&Call> {
        self.calls.get(*self.call_numbers.get(id)?)
    }

    fn index(&self, Place { turn, offset }: Place) -> Option<usize> {
        Some(self.turns.get(turn)?.start + offset)
    }

    /// Where in the content a result is, if it is there.
    fn result_index(&self, call: &Call) -> Option<usize> {
        let turn = self.turns.get(call.turn)?;
        (call.ordinal < turn.results).then_some(turn.start + turn.head + call.ordinal)
    }

    /// Appends the results that can be: no turn follows, nothing is written before them, none before them is missing.
    fn append_results(&mut self, content: &mut Vec<ContentBlock>, turn: usize) {
        if self.writing == Some(turn) || turn + 1 != self.turns.len() {
            return;
        }
        let Some(turn) = self.turns.get_mut(turn) else { return };
        while let Some(&next) = turn.calls.get(turn.results)
            && let Some(result) = self.calls.get_mut(next).and_then(|call| call.apart.take())
        {
            content.push(result);
            turn.results += 1;
            self.apart -= 1;
        }
    }

    fn add_call_number(&mut self, id: &ToolCallId, turn: usize, block: Option<Place>) -> usize {
        let number = self.calls.len();
        let mut ordinal = 0;
        if let Some(turn) = self.turns.get_mut(turn) {
            ordinal = turn.calls.len();
            turn.calls.push(number);
        }
        self.calls.push(Call { turn, ordinal, block, apart: None, data: IdMap::default() });
        self.call_numbers.insert(id.clone(), number);
        number
    }

    fn add_turn(&mut self, content: &[ContentBlock]) -> usize {
        let start = content.len();
        self.turns.push(Turn { start, head: 0, results: 0, calls: Vec::new(), has_result: false });
        self.turns.len() - 1
    }

    /// The turn that something new belongs to. Without an open model call a turn ends where its results begin; a hint
    /// never goes between calls and their results.
    fn turn_for(&mut self, content: &[ContentBlock], head: Head) -> usize {
        match (self.writing, self.turns.last()) {
            (Some(writing), _) => writing,
            (None, Some(last)) if !last.has_result && (head != Head::Hint || last.calls.is_empty()) => {
                self.turns.len() - 1
            }
            (None, Some(_) | None) => self.add_turn(content),
        }
    }

    /// Adds a block to a turn's head. What is behind it is of later turns: where it has results in the content its head
    /// grows no more.
    fn insert_head(&mut self, content: &mut Vec<ContentBlock>, turn: usize, block: ContentBlock) -> Place {
        for later in self.turns.iter_mut().skip(turn + 1) {
            later.start += 1;
        }
        let Some(of) = self.turns.get_mut(turn) else { return Place { turn, offset: content.len() } };
        debug_assert_eq!(of.results, 0, "a head grows behind results");
        let offset = of.head;
        of.head += 1;
        content.insert((of.start + offset).min(content.len()), block);
        Place { turn, offset }
    }
}
