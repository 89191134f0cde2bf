//! Which block a piece belongs to.

#[cfg(any(feature = "acp", feature = "text", feature = "tool-calls"))]
use anabranch_proto::{BlockId, ReplyId};

#[cfg(any(feature = "acp", feature = "text", feature = "tool-calls"))]
use super::{EndBlock, Piece};

/// What a block is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BlockKind {
    /// What an agent says.
    Text,
    /// What it thinks.
    Thinking,
}

/// A block among those of one speaker. Its own id is not enough: producers that count blocks anew in each reply, or texts and
/// thoughts apart, give one twice.
#[cfg(any(feature = "acp", feature = "text", feature = "tool-calls"))]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    pub(crate) kind: BlockKind,
    reply: ReplyId,
    block: BlockId,
}

#[cfg(any(feature = "acp", feature = "text", feature = "tool-calls"))]
impl BlockKey {
    /// The block that a piece of this kind belongs to.
    pub(crate) fn of_piece(kind: BlockKind, piece: &Piece<'_>) -> Self {
        Self { kind, reply: piece.reply.clone(), block: piece.block.clone() }
    }

    /// The block that ends.
    pub(crate) fn of_end(end: &EndBlock<'_>) -> Self {
        Self { kind: end.kind, reply: end.reply.clone(), block: end.block.clone() }
    }

    /// Whether a piece of this kind belongs to the block.
    #[cfg(any(feature = "acp", feature = "text"))]
    pub(crate) fn is_of(&self, kind: BlockKind, piece: &Piece<'_>) -> bool {
        self.kind == kind && self.block == *piece.block && self.reply == *piece.reply
    }
}
