//! What is kept until it is complete.

use std::{collections::BTreeMap, sync::Arc};

use foldhash::{HashMap, HashSet};

use crate::{
    intent::{BlockKey, BlockKind, Call, EndBlock, Piece, Speaker},
    ordered::Ordered,
};

/// Texts that are not complete, per card.
///
/// Cards are the unit that frontends redraw: an update per token would cost them the square of the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// In the order of card ids, so that what is left at the end comes in the same order each time. The root's own is
    /// under the empty id.
    cards: BTreeMap<Arc<str>, HeldCard>,
    /// The root's open blocks of which something was shown.
    shown: HashSet<BlockKey>,
}

#[derive(Clone, Debug, Default)]
struct HeldCard {
    blocks: Ordered<BlockKey, Block>,
    /// By the calls' card ids.
    calls: HashMap<Arc<str>, HeldCall>,
}

/// What a child said or thought.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) kind: BlockKind,
    pub(super) text: String,
}

/// A call's texts.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldCall {
    pub(super) input: String,
    pub(super) output: String,
}

impl Held {
    /// Notes that a piece of a block of the root was shown.
    pub(super) fn root_shows(&mut self, kind: BlockKind, piece: &Piece<'_>) {
        self.shown.insert(BlockKey::of_piece(kind, piece));
    }

    /// Whether something of a block of the root was shown; asked once, when it ends.
    pub(super) fn root_has_shown(&mut self, end: &EndBlock<'_>) -> bool {
        self.shown.remove(&BlockKey::of_end(end))
    }

    /// The root's run is over.
    pub(super) fn end_root(&mut self) {
        self.shown.clear();
    }

    /// Keeps a piece of what a child says.
    pub(super) fn say(&mut self, card: &Arc<str>, kind: BlockKind, piece: &Piece<'_>) {
        let blocks = &mut self.card(card).blocks;
        let key = BlockKey::of_piece(kind, piece);
        match blocks.get_mut(&key) {
            Some(block) => block.text.push_str(piece.text),
            None => blocks.push(key, Block { kind, text: piece.text.to_owned() }),
        }
    }

    /// Takes what a child said in a block that ends.
    pub(super) fn end_block(&mut self, card: &Arc<str>, end: &EndBlock<'_>) -> Option<Block> {
        self.cards.get_mut(card)?.blocks.remove(&BlockKey::of_end(end))
    }

    /// A call's texts so far.
    pub(super) fn call(&mut self, call: Call<'_>) -> &mut HeldCall {
        let card = match call.speaker {
            Speaker::Root => Arc::default(),
            Speaker::Child(child) => Arc::clone(&child.card),
        };
        let calls = &mut self.cards.entry(card).or_default().calls;
        calls.entry(Arc::clone(call.id)).or_default()
    }

    /// Takes a call's texts.
    pub(super) fn end_call(&mut self, call: Call<'_>) -> HeldCall {
        let card = self.cards.get_mut(call.speaker.card());
        card.and_then(|card| card.calls.remove(call.id)).unwrap_or_default()
    }

    /// Takes what is not complete of a child that ends.
    pub(super) fn end_child(&mut self, card: &str) -> Vec<Block> {
        self.cards.remove(card).map(|mut card| card.blocks.take().collect()).unwrap_or_default()
    }

    /// Takes everything that is not complete.
    pub(super) fn finish(&mut self, show: &mut dyn FnMut(&str, &Block)) {
        for (id, card) in std::mem::take(&mut self.cards) {
            for block in card.blocks.iter() {
                show(&id, block);
            }
        }
    }

    fn card(&mut self, card: &Arc<str>) -> &mut HeldCard {
        self.cards.entry(Arc::clone(card)).or_default()
    }
}
