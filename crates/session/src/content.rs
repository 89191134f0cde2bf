//! What becomes part of a reply's content: blocks, tool calls, tool results.

use std::{mem, sync::Arc};

use anabranch_proto::{
    BlockId, ContentBlock, DataBlock, DataSource, Event, HintBlock, ReplyId, TextBlock, TextOrBlocks,
    ThinkingBlock, ToolCallBlock, ToolCallId, ToolCallState, ToolResultBlock, ToolResultState,
    event::{
        DataBlockDelta, DataBlockEnd, DataBlockStart, ExternalExecutionResult, HintBlockEvent,
        RequireExternalExecution, RequireUserConfirm, TextBlockDelta, TextBlockEnd, TextBlockStart,
        ThinkingBlockDelta, ThinkingBlockEnd, ThinkingBlockStart, ToolCallDelta, ToolCallEnd, ToolCallStart,
        ToolResultDataDelta, ToolResultEnd, ToolResultStart, ToolResultTextDelta, UserConfirmResult,
    },
};

use crate::{MessageAccumulator, accumulator::Open};

impl MessageAccumulator {
    pub(crate) fn text_start(&mut self, event: &Event, start: &TextBlockStart) {
        let mut block = TextBlock::new("").id(start.block_id.clone());
        block.created_at = Some(event.created_at);
        self.add_block(event, &start.reply_id, &start.block_id, block.into());
    }

    pub(crate) fn text_delta(&mut self, event: &Event, delta: &TextBlockDelta) {
        if let Some(ContentBlock::Text(block)) = self.block(event, &delta.reply_id, &delta.block_id) {
            block.text.push_str(&delta.delta);
        }
    }

    pub(crate) fn text_end(&mut self, event: &Event, end: &TextBlockEnd) {
        if let Some(ContentBlock::Text(block)) = self.end_block(event, &end.reply_id, &end.block_id) {
            block.finished_at = Some(event.created_at);
            if let Some(text) = &end.text {
                block.text.clone_from(text);
            }
        }
    }

    pub(crate) fn thinking_start(&mut self, event: &Event, start: &ThinkingBlockStart) {
        let mut block = ThinkingBlock::new("").id(start.block_id.clone());
        block.created_at = Some(event.created_at);
        self.add_block(event, &start.reply_id, &start.block_id, block.into());
    }

    pub(crate) fn thinking_delta(&mut self, event: &Event, delta: &ThinkingBlockDelta) {
        if let Some(ContentBlock::Thinking(block)) = self.block(event, &delta.reply_id, &delta.block_id) {
            block.thinking.push_str(&delta.delta);
        }
    }

    pub(crate) fn thinking_end(&mut self, event: &Event, end: &ThinkingBlockEnd) {
        if let Some(ContentBlock::Thinking(block)) = self.end_block(event, &end.reply_id, &end.block_id) {
            block.finished_at = Some(event.created_at);
        }
    }

    pub(crate) fn data_start(&mut self, event: &Event, start: &DataBlockStart) {
        let source = DataSource::Base64 { data: String::new(), media_type: Arc::clone(&start.media_type) };
        let mut block = DataBlock::new(source).id(start.block_id.clone()).name(start.name.clone());
        block.created_at = Some(event.created_at);
        self.add_block(event, &start.reply_id, &start.block_id, block.into());
    }

    pub(crate) fn data_delta(&mut self, event: &Event, delta: &DataBlockDelta) {
        if let Some(ContentBlock::Data(block)) = self.block(event, &delta.reply_id, &delta.block_id) {
            block.source.append(&delta.part);
        }
    }

    pub(crate) fn data_end(&mut self, event: &Event, end: &DataBlockEnd) {
        if let Some(ContentBlock::Data(block)) = self.end_block(event, &end.reply_id, &end.block_id) {
            block.finished_at = Some(event.created_at);
        }
    }

    pub(crate) fn hint(&mut self, event: &Event, hint: &HintBlockEvent) {
        if let Some((layout, message)) = self.reply(event, &hint.reply_id) {
            let mut block = HintBlock::new(hint.hint.clone());
            block.id = Some(hint.block_id.clone());
            block.source.clone_from(&hint.source);
            block.created_at = Some(event.created_at);
            block.finished_at = Some(event.created_at);
            layout.add_hint(&mut message.content, block.into());
        }
    }

    pub(crate) fn call_start(&mut self, event: &Event, start: &ToolCallStart) {
        if let Some((layout, message)) = self.reply(event, &start.reply_id) {
            layout.add_call(&mut message.content, &start.tool_call_id, || {
                let name = Arc::clone(&start.tool_call_name);
                let mut block = ToolCallBlock::new(start.tool_call_id.clone(), name, "");
                block.created_at = Some(event.created_at);
                block.into()
            });
        }
    }

    pub(crate) fn call_delta(&mut self, event: &Event, delta: &ToolCallDelta) {
        if let Some(call) = self.call(event, &delta.reply_id, &delta.tool_call_id) {
            call.input.push_str(&delta.delta);
        }
    }

    pub(crate) fn call_end(&mut self, event: &Event, end: &ToolCallEnd) {
        if let Some(call) = self.call(event, &end.reply_id, &end.tool_call_id) {
            call.finished_at = Some(event.created_at);
        }
    }

    pub(crate) fn result_start(&mut self, event: &Event, start: &ToolResultStart) {
        let Some(open) = self.reply(event, &start.reply_id) else { return };
        let mut fresh = ToolResultBlock::new(start.tool_call_id.clone(), Arc::clone(&start.tool_call_name));
        fresh.created_at = Some(event.created_at);
        set_result(open, fresh);
    }

    pub(crate) fn result_text(&mut self, event: &Event, delta: &ToolResultTextDelta) {
        let Some(open) = self.reply(event, &delta.reply_id) else { return };
        let Some(output) = output(open, &delta.tool_call_id) else { return };
        if let Some(ContentBlock::Text(last)) = output.last_mut() {
            last.text.push_str(&delta.delta);
        } else {
            output.push(TextBlock::new(delta.delta.clone()).into());
        }
    }

    pub(crate) fn result_data(&mut self, event: &Event, delta: &ToolResultDataDelta) {
        let Some((layout, message)) = self.reply(event, &delta.reply_id) else { return };
        let Some(next) = output((layout, message), &delta.tool_call_id).map(|output| output.len()) else {
            return;
        };
        let at = layout.result_data(&delta.tool_call_id, &delta.block_id, next);
        let Some(output) = output((layout, message), &delta.tool_call_id) else { return };
        if let Some(ContentBlock::Data(block)) = output.get_mut(at) {
            block.source.append(&delta.part);
        } else {
            let source = DataSource::from_part(Arc::clone(&delta.media_type), &delta.part);
            output.push(DataBlock::new(source).id(delta.block_id.clone()).into());
        }
    }

    pub(crate) fn result_end(&mut self, event: &Event, end: &ToolResultEnd) {
        let Some((layout, message)) = self.reply(event, &end.reply_id) else { return };
        if let Some(result) = running_result((layout, message), &end.tool_call_id) {
            result.state = end.state;
            result.metadata = end.response.clone();
            result.finished_at = Some(event.created_at);
        }
        if let Some(call) = call_block((layout, message), &end.tool_call_id) {
            call.state = ToolCallState::Finished;
        }
    }

    pub(crate) fn confirm_required(&mut self, event: &Event, require: &RequireUserConfirm) {
        for asked in &require.tool_calls {
            if let Some(call) = self.call(event, &require.reply_id, &asked.id) {
                call.state = ToolCallState::Asking;
                call.suggested_rules.clone_from(&asked.suggested_rules);
            }
        }
    }

    pub(crate) fn confirmed(&mut self, event: &Event, result: &UserConfirmResult) {
        for answer in result.confirm_results.iter().filter(|answer| answer.confirmed) {
            if let Some(call) = self.call(event, &result.reply_id, &answer.tool_call.id) {
                call.state = ToolCallState::Allowed;
                call.input.clone_from(&answer.tool_call.input);
            }
        }
    }

    pub(crate) fn external_required(&mut self, event: &Event, require: &RequireExternalExecution) {
        for submitted in &require.tool_calls {
            if let Some(call) = self.call(event, &require.reply_id, &submitted.id) {
                call.state = ToolCallState::Submitted;
            }
        }
    }

    pub(crate) fn external_result(&mut self, event: &Event, result: &ExternalExecutionResult) {
        for given in &result.execution_results {
            let Some(open) = self.reply(event, &result.reply_id) else { return };
            set_result(open, given.clone());
            if let Some(call) = self.call(event, &result.reply_id, &given.id) {
                call.state = ToolCallState::Finished;
            }
        }
    }

    fn add_block(&mut self, event: &Event, reply: &ReplyId, id: &BlockId, block: ContentBlock) {
        if let Some((layout, message)) = self.reply(event, reply) {
            layout.add_block(&mut message.content, id, block);
        }
    }

    fn block(&mut self, event: &Event, reply: &ReplyId, id: &BlockId) -> Option<&mut ContentBlock> {
        let (layout, message) = self.reply(event, reply)?;
        message.content.get_mut(layout.block(id)?)
    }

    fn end_block(&mut self, event: &Event, reply: &ReplyId, id: &BlockId) -> Option<&mut ContentBlock> {
        let (layout, message) = self.reply(event, reply)?;
        message.content.get_mut(layout.end_block(id)?)
    }

    fn call(&mut self, event: &Event, reply: &ReplyId, id: &ToolCallId) -> Option<&mut ToolCallBlock> {
        call_block(self.reply(event, reply)?, id)
    }
}

fn call_block<'a>((layout, message): Open<'a>, id: &ToolCallId) -> Option<&'a mut ToolCallBlock> {
    if let ContentBlock::ToolCall(call) = message.content.get_mut(layout.call(id)?)? {
        Some(call)
    } else {
        None
    }
}

/// Puts a result into the slot of its call, in place of one that is there.
fn set_result((layout, message): Open<'_>, result: ToolResultBlock) {
    let id = result.id.clone();
    if let Some(slot) = layout.result_mut(&mut message.content, &id) {
        *slot = result.into();
        layout.restart_result(&id);
    } else {
        layout.add_result(&mut message.content, &id, result.into());
    }
}

/// A call's result while it runs; begun here where its start was not seen.
fn running_result<'a>((layout, message): Open<'a>, id: &ToolCallId) -> Option<&'a mut ToolResultBlock> {
    if layout.result(&message.content, id).is_none() {
        let name =
            call_block((layout, message), id).map_or_else(|| Arc::from(""), |call| Arc::clone(&call.name));
        layout.add_result(&mut message.content, id, ToolResultBlock::new(id.clone(), name).into());
    }
    let ContentBlock::ToolResult(result) = layout.result_mut(&mut message.content, id)? else { return None };
    (result.state == ToolResultState::Running).then_some(result)
}

/// The output of a call's result while it runs.
fn output<'a>(open: Open<'a>, id: &ToolCallId) -> Option<&'a mut Vec<ContentBlock>> {
    let result = running_result(open, id)?;
    if let TextOrBlocks::Text(text) = &mut result.output {
        result.output = TextOrBlocks::Blocks(vec![TextBlock::new(mem::take(text)).into()]);
    }
    match &mut result.output {
        TextOrBlocks::Blocks(blocks) => Some(blocks),
        TextOrBlocks::Text(_) => None,
    }
}
