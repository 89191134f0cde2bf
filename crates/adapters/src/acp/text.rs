//! What agents say and think.

use std::{borrow::Cow, sync::Arc};

use agent_client_protocol_schema::v1::{ContentBlock, ContentChunk, MessageId, SessionUpdate, TextContent};
use anabranch_proto::{BlockId, ReplyId};
use foldhash::HashMap;

use super::{
    Message,
    client::{Client, Out, Run, Shown},
};
use crate::intent::{BlockKey, BlockKind, Child, EndBlock, Piece, Speaker};

impl Client {
    pub(super) fn say(&mut self, kind: BlockKind, piece: Piece<'_>, out: &mut Out<'_>) {
        let Some(run) = self.runs.get_mut(piece.speaker.card()).filter(|_| !piece.text.is_empty()) else {
            return;
        };
        run.has_said = true;
        match run.shown {
            Shown::Session => {
                let id = run.blocks.id_of(kind, &piece);
                out(chunk(run, kind, id, piece.text));
            }
            Shown::Card | Shown::Quiet => {
                let card = Arc::clone(&run.card);
                if let Some(card) = self.cards.get_mut(&card) {
                    card.body.say(kind, &piece);
                }
                self.touch(&card);
            }
        }
    }

    pub(super) fn end_block(&mut self, end: EndBlock<'_>, out: &mut Out<'_>) {
        let Some(run) = self.runs.get_mut(end.speaker.card()) else {
            return;
        };
        let whole = end.whole.filter(|whole| !whole.is_empty());
        run.has_said |= whole.is_some();
        match run.shown {
            // What was shown cannot be taken back; a text that came with the end alone can still be shown.
            Shown::Session => {
                if let (false, Some(text)) = (run.blocks.end(&BlockKey::of_end(&end)), whole) {
                    let id = message_id(end.kind, end.speaker, end.reply, end.block);
                    out(chunk(run, end.kind, id, text));
                }
            }
            Shown::Card | Shown::Quiet => {
                let card = Arc::clone(&run.card);
                if let Some(card) = self.cards.get_mut(&card) {
                    card.body.end_block(&end, whole);
                }
                if whole.is_some() {
                    self.touch(&card);
                }
            }
        }
    }
}

/// The blocks that are not complete and of which something was shown, each with its message's id.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    all: HashMap<BlockKey, MessageId>,
    /// The one that was added to last, which mostly is added to next.
    last: Option<(BlockKey, MessageId)>,
}

impl Blocks {
    /// The id of the message that a piece belongs to.
    fn id_of(&mut self, kind: BlockKind, piece: &Piece<'_>) -> MessageId {
        if let Some((_, id)) = self.last.as_ref().filter(|(key, _)| key.is_of(kind, piece)) {
            return id.clone();
        }
        let key = BlockKey::of_piece(kind, piece);
        let new = || message_id(kind, piece.speaker, piece.reply, piece.block);
        let id = self.all.entry(key.clone()).or_insert_with(new).clone();
        self.last = Some((key, id.clone()));
        id
    }

    /// Forgets a block; whether something of it was shown.
    fn end(&mut self, key: &BlockKey) -> bool {
        self.last.take_if(|(last, _)| last == key);
        self.all.remove(key).is_some()
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

pub(super) fn chunk(run: &Run, kind: BlockKind, id: MessageId, text: &str) -> Message {
    let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text))).message_id(id);
    let update = match kind {
        BlockKind::Thinking => SessionUpdate::AgentThoughtChunk(chunk),
        BlockKind::Text => SessionUpdate::AgentMessageChunk(chunk),
    };
    Message::update(&run.session, update)
}

/// One message per block: a reply goes on after a tool call, and what it says then is no longer the message before.
/// Producers count replies and blocks anew in each session and run, and perhaps texts and thoughts apart, so an id has all of
/// that; and what separates its parts is in none of them, so no two are equal whatever the parts are.
fn message_id(kind: BlockKind, speaker: Speaker<'_>, reply: &ReplyId, block: &BlockId) -> MessageId {
    let thought = match kind {
        BlockKind::Text => "",
        BlockKind::Thinking => "thought:",
    };
    let (reply, block) = (part(reply.as_str()), part(block.as_str()));
    MessageId::new(match speaker {
        Speaker::Root => format!("{thought}{reply}/{block}"),
        Speaker::Child(child) => format!("{thought}{}/{reply}/{block}", run(child)),
    })
}

/// The id of what a child's end says, where the child itself said nothing.
pub(super) fn id_of_result(child: &Child) -> MessageId {
    MessageId::new(format!("result:{}", run(child)))
}

/// The name of a child's run, which its card has to itself.
fn run(child: &Child) -> Cow<'_, str> {
    part(child.card.strip_prefix("spawn:").unwrap_or(&child.card))
}

/// A part of an id, without what separates parts.
fn part(id: &str) -> Cow<'_, str> {
    if !id.contains(['%', '/', ':']) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.replace('%', "%25").replace('/', "%2F").replace(':', "%3A"))
}
