//! What is kept of one speaker.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::{
    call::CallLine,
    label::Prefix,
    lines::Lines,
    page::{Out, Page, mark::THOUGHT},
};
use crate::intent::{BlockKey, BlockKind, EndBlock, Piece};

/// A speaker's lines that are not complete, and calls that are open.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) prefix: Prefix,
    text: Lines,
    thoughts: Lines,
    /// Open blocks of which something was shown.
    shown: HashSet<BlockKey>,
    /// Where the last piece of text or thinking came from.
    last: Option<BlockKey>,
    /// By the calls' card ids.
    pub(super) calls: HashMap<Arc<str>, CallLine>,
    pub(super) call_count: u64,
}

impl Lane {
    pub(super) fn new(prefix: Prefix) -> Self {
        Self { prefix, ..Self::default() }
    }

    /// Notes that a piece of a block comes. Whether it is another block than the last piece's.
    pub(super) fn enters(&mut self, kind: BlockKind, piece: &Piece<'_>) -> bool {
        let other = !self.last.as_ref().is_some_and(|last| last.is_of(kind, piece));
        if other {
            let block = BlockKey::of_piece(kind, piece);
            self.shown.insert(block.clone());
            self.last = Some(block);
        }
        other
    }

    /// Notes that a block ends. Whether something of it was shown.
    pub(super) fn leaves(&mut self, end: &EndBlock<'_>) -> bool {
        let block = BlockKey::of_end(end);
        if self.last.as_ref() == Some(&block) {
            self.last = None;
        }
        self.shown.remove(&block)
    }

    /// Takes a piece of text and writes the lines that it completes.
    pub(super) fn say(&mut self, piece: &str, page: &mut Page, out: &mut Out<'_>) {
        let prefix = &self.prefix;
        self.text.push(piece, &mut |line| page.line(prefix, "", line, out));
    }

    /// Takes a piece of thinking and writes the lines that it completes.
    pub(super) fn think(&mut self, piece: &str, page: &mut Page, out: &mut Out<'_>) {
        let prefix = &self.prefix;
        self.thoughts.push(piece, &mut |line| page.line(prefix, THOUGHT, line, out));
    }

    /// Writes the lines that were begun.
    pub(super) fn flush(&mut self, page: &mut Page, out: &mut Out<'_>) {
        let prefix = &self.prefix;
        self.text.flush(&mut |line| page.line(prefix, "", line, out));
        self.thoughts.flush(&mut |line| page.line(prefix, THOUGHT, line, out));
    }

    /// Writes a line of its own, after those that were begun.
    pub(super) fn line(&mut self, mark: &str, text: &str, page: &mut Page, out: &mut Out<'_>) {
        self.flush(page, out);
        page.line(&self.prefix, mark, text, out);
    }
}
