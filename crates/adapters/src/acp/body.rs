//! What a card says.

use agent_client_protocol_schema::v1::{
    Content, ContentBlock, SessionId, SessionReference, TextContent, ToolCallContent,
};
use foldhash::{HashMap, HashSet};

use super::meta;
use crate::intent::{BlockKey, BlockKind, EndBlock, Piece};

/// How much of a card is shown while it runs: clients replace the whole of it each time.
const TAIL_BYTES: usize = 8 * 1024;
/// In how many parts, and beside how many links. A part costs as much as a short text.
const TAIL_PARTS: usize = 64;

/// What a card says: the sessions that it links to, and pieces of text in the order in which they began.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    links: Vec<SessionId>,
    linked: HashSet<SessionId>,
    parts: Vec<Part>,
    /// Links to files, behind the text.
    files: Vec<ToolCallContent>,
    /// Where the blocks that are not complete lie in `parts`.
    open: HashMap<BlockKey, usize>,
}

#[derive(Clone, Debug)]
struct Part {
    kind: PartKind,
    text: String,
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// What an agent said, or a tool answered.
    Text,
    /// What an agent thought.
    Thinking,
    /// Which tool it called.
    ToolCall,
    /// What became of it.
    Outcome,
}

impl From<BlockKind> for PartKind {
    fn from(kind: BlockKind) -> Self {
        match kind {
            BlockKind::Text => Self::Text,
            BlockKind::Thinking => Self::Thinking,
        }
    }
}

impl PartKind {
    /// What the client is told of it; nothing of text, which is what one expects.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Text => None,
            Self::Thinking => Some("thinking"),
            Self::ToolCall => Some("tool_call"),
            Self::Outcome => Some("outcome"),
        }
    }
}

impl Body {
    /// Links to a session. Says how many links there are, where this one is new.
    pub(super) fn link(&mut self, session: SessionId) -> Option<usize> {
        if !self.linked.insert(session.clone()) {
            return None;
        }
        self.links.push(session);
        Some(self.links.len())
    }

    /// Appends to a block.
    pub(super) fn say(&mut self, kind: BlockKind, piece: &Piece<'_>) {
        let at = self.block(BlockKey::of_piece(kind, piece));
        if let Some(part) = self.parts.get_mut(at) {
            part.text.push_str(piece.text);
        }
    }

    /// Ends a block, whose text is `whole` where that is given.
    pub(super) fn end_block(&mut self, end: &EndBlock<'_>, whole: Option<&str>) {
        let block = BlockKey::of_end(end);
        if let Some(whole) = whole {
            let at = self.block(block.clone());
            if let Some(part) = self.parts.get_mut(at) {
                whole.clone_into(&mut part.text);
            }
        }
        self.open.remove(&block);
    }

    /// Appends to the last piece, where it is of this kind and no block; else as a piece of its own.
    pub(super) fn append(&mut self, kind: PartKind, text: &str) {
        match self.parts.last_mut() {
            Some(part) if part.kind == kind && kind == PartKind::Text => part.text.push_str(text),
            _ => self.add(kind, text),
        }
    }

    /// Appends a piece of its own.
    pub(super) fn add(&mut self, kind: PartKind, text: &str) {
        self.parts.push(Part { kind, text: text.to_owned() });
    }

    /// Links to files. Those that were linked before are forgotten.
    pub(super) fn attach(&mut self, files: Vec<ToolCallContent>) {
        self.files = files;
    }

    /// Whether it ends with this text.
    pub(super) fn ends_with(&self, text: &str) -> bool {
        let mut rest = text;
        for part in self.parts.iter().rev().filter(|part| part.kind == PartKind::Text) {
            if part.text.ends_with(rest) {
                return true;
            }
            match rest.strip_suffix(part.text.as_str()) {
                Some(before) => rest = before,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// All of it.
    pub(super) fn whole(&self) -> Vec<ToolCallContent> {
        let parts = self.parts.iter().filter(|part| !part.text.is_empty());
        let texts = parts.map(|part| part.content(part.text.clone()));
        links(&self.links).chain(texts).chain(self.files.iter().cloned()).collect()
    }

    /// The last of it, behind an ellipsis where something was before.
    pub(super) fn tail(&self) -> Vec<ToolCallContent> {
        let (mut left, mut tail) = (TAIL_BYTES, Vec::new());
        let parts = self.parts.iter().rev().filter(|part| !part.text.is_empty());
        for part in parts {
            if left == 0 || tail.len() == TAIL_PARTS {
                break;
            }
            tail.push(part.content(last(&part.text, left)));
            left = left.saturating_sub(part.text.len());
        }
        let first = self.links.len().saturating_sub(TAIL_PARTS);
        links(self.links.get(first..).unwrap_or_default()).chain(tail.into_iter().rev()).collect()
    }

    fn block(&mut self, block: BlockKey) -> usize {
        if let Some(at) = self.open.get(&block) {
            return *at;
        }
        let at = self.parts.len();
        self.add(block.kind.into(), "");
        self.open.insert(block, at);
        at
    }
}

impl Part {
    fn content(&self, text: String) -> ToolCallContent {
        let content = Content::new(ContentBlock::Text(TextContent::new(text)));
        ToolCallContent::Content(content.meta(self.kind.name().map(meta::of_part)))
    }
}

fn links(links: &[SessionId]) -> impl Iterator<Item = ToolCallContent> {
    links.iter().cloned().map(SessionReference::new).map(ToolCallContent::from)
}

/// The last `most` bytes of a text, or a little less so that no character is cut.
fn last(text: &str, most: usize) -> String {
    let mut from = text.len().saturating_sub(most);
    if from == 0 {
        return text.to_owned();
    }
    while !text.is_char_boundary(from) {
        from += 1;
    }
    format!("…{}", text.get(from..).unwrap_or_default())
}
