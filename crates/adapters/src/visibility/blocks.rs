//! What is hidden within messages, results and metadata.

use anabranch_proto::{
    ContentBlock, Fields, Message, Metadata, TextOrBlocks, ToolCallBlock, ToolResultBlock,
    event::ConfirmResult,
};

use super::{Shown, Tools, Visibility};

impl Visibility {
    /// Whether anything but children is hidden, so that what nobody can look into must not pass.
    pub(super) fn hides_content(&self) -> bool {
        self.thinking == Shown::No
            || self.prompts == Shown::No
            || self.arguments.is_some()
            || self.results.is_some()
    }

    /// Takes out of a list of blocks what is hidden. Whether something was.
    pub(super) fn veil_blocks(&self, blocks: &mut Vec<ContentBlock>) -> bool {
        let before = blocks.len();
        blocks.retain(|block| match block {
            ContentBlock::Thinking(_) => self.thinking == Shown::Yes,
            ContentBlock::Hint(_) => self.prompts == Shown::Yes,
            ContentBlock::Text(_)
            | ContentBlock::Data(_)
            | ContentBlock::ToolCall(_)
            | ContentBlock::ToolResult(_) => true,
            // Nobody knows what is in it.
            ContentBlock::Other(_) | _ => !self.hides_content(),
        });
        let mut changed = blocks.len() != before;
        for block in blocks {
            changed |= match block {
                ContentBlock::Text(block) => self.veil_fields(&mut block.extra),
                ContentBlock::Thinking(block) => self.veil_fields(&mut block.extra),
                ContentBlock::Data(block) => self.veil_fields(&mut block.extra),
                ContentBlock::Hint(block) => {
                    self.veil_fields(&mut block.extra) | self.veil_text(&mut block.hint)
                }
                ContentBlock::ToolCall(block) => self.veil_call(block, None),
                ContentBlock::ToolResult(block) => self.veil_result(block, None),
                ContentBlock::Other(_) | _ => false,
            };
        }
        changed
    }

    pub(super) fn veil_text(&self, text: &mut TextOrBlocks) -> bool {
        match text {
            TextOrBlocks::Text(_) => false,
            TextOrBlocks::Blocks(blocks) => self.veil_blocks(blocks),
        }
    }

    pub(super) fn veil_message(&self, message: &mut Message) -> bool {
        self.veil_blocks(&mut message.content)
            | self.veil_fields(&mut message.extra)
            | self.veil_response(&mut message.metadata)
    }

    /// Takes the input out of a call, where that is hidden: of the tool that the call says, or of the one that it began with.
    pub(super) fn veil_call(&self, call: &mut ToolCallBlock, tool: Option<&str>) -> bool {
        let mut changed = self.veil_fields(&mut call.extra);
        if is_of_any(self.arguments.as_ref(), &call.name, tool) {
            changed |= !(call.input.is_empty() && call.suggested_rules.is_empty());
            call.input.clear();
            // A rule repeats the arguments that it is for.
            call.suggested_rules.clear();
        }
        changed
    }

    pub(super) fn veil_answer(&self, answer: &mut ConfirmResult, tool: Option<&str>) -> bool {
        let mut changed = self.veil_call(&mut answer.tool_call, tool);
        if is_of_any(self.arguments.as_ref(), &answer.tool_call.name, tool) {
            changed |= answer.rules.take().is_some();
        }
        changed
    }

    pub(super) fn veil_result(&self, result: &mut ToolResultBlock, tool: Option<&str>) -> bool {
        let mut changed = self.veil_fields(&mut result.extra)
            | self.veil_text(&mut result.output)
            | self.veil_response(&mut result.metadata);
        if is_of_any(self.results.as_ref(), &result.name, tool) {
            let empty = TextOrBlocks::Blocks(Vec::new());
            changed |= result.output != empty || !result.metadata.is_empty();
            result.output = empty;
            result.metadata = Metadata::default();
        }
        changed
    }

    /// Takes the prompt out of an event's metadata.
    pub(super) fn veil_metadata(&self, metadata: &mut Metadata) -> bool {
        self.prompts == Shown::No && take_out(metadata, |key| key == "prompt")
    }

    /// Takes the prompt out of what a result says for programs, and the ids of children that are hidden.
    pub(super) fn veil_response(&self, response: &mut Metadata) -> bool {
        let veiled = self.veil_metadata(response);
        if !self.children.hides_some() {
            return veiled;
        }
        let said = response.clone();
        let is_id = |key: &str| said.get_str(key).is_some_and(|text| self.children.hides_id(&text));
        take_out(response, is_id) || veiled
    }

    /// Takes fields away that nobody knows, where they may hold what is hidden.
    pub(super) fn veil_fields(&self, fields: &mut Fields) -> bool {
        let changed = self.hides_content() && !fields.is_empty();
        if changed {
            *fields = Fields::default();
        }
        changed
    }
}

/// Whether one of two names is that of a tool of which something is hidden.
fn is_of_any(hidden: Option<&Tools>, name: &str, other: Option<&str>) -> bool {
    hidden.is_some_and(|hidden| hidden(name) || other.is_some_and(|other| hidden(other)))
}

/// Takes keys out of metadata, where they are there. Whether any was.
fn take_out(metadata: &mut Metadata, which: impl Fn(&str) -> bool) -> bool {
    if !metadata.iter().any(|(key, _)| which(key)) {
        return false;
    }
    let mut kept = Fields::default();
    for (key, value) in metadata.iter().filter(|(key, _)| !which(key)) {
        kept.insert(key, value.clone());
    }
    *metadata = Metadata::from(kept);
    true
}
