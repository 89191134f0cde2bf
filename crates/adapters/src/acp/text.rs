//! What agents say and think.

use agent_client_protocol_schema::v1::{ContentBlock, ContentChunk, MessageId, SessionUpdate, TextContent};
use anabranch_proto::{BlockId, ReplyId};

use super::{
    Message,
    body::PartKind,
    client::{Client, Out, Run, Shown},
};
use crate::intent::{EndBlock, Piece, Speaker};

impl Client {
    pub(super) fn say(&mut self, kind: PartKind, piece: Piece<'_>, out: &mut Out<'_>) {
        let Some(run) = self.runs.get_mut(piece.speaker.card()).filter(|_| !piece.text.is_empty()) else {
            return;
        };
        run.has_said = true;
        match run.shown {
            Shown::Session => {
                if !run.blocks.contains(piece.block) {
                    run.blocks.insert(piece.block.clone());
                }
                let id = message_id(piece.speaker, piece.reply, piece.block);
                out(chunk(run, kind, id, piece.text));
            }
            Shown::Card | Shown::Quiet => {
                let card = std::sync::Arc::clone(&run.card);
                if let Some(card) = self.cards.get_mut(&card) {
                    card.body.say(kind, piece.block, piece.text);
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
                if let (false, Some(text)) = (run.blocks.remove(end.block), whole) {
                    let id = message_id(end.speaker, end.reply, end.block);
                    out(chunk(run, PartKind::Text, id, text));
                }
            }
            Shown::Card | Shown::Quiet => {
                let card = std::sync::Arc::clone(&run.card);
                if let Some(card) = self.cards.get_mut(&card) {
                    card.body.end_block(end.block, whole);
                }
                if whole.is_some() {
                    self.touch(&card);
                }
            }
        }
    }
}

pub(super) fn chunk(run: &Run, kind: PartKind, id: MessageId, text: &str) -> Message {
    let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text))).message_id(id);
    let update = match kind {
        PartKind::Thinking => SessionUpdate::AgentThoughtChunk(chunk),
        PartKind::Text | PartKind::ToolCall | PartKind::Outcome => SessionUpdate::AgentMessageChunk(chunk),
    };
    Message::update(&run.session, update)
}

/// One message per block: a reply goes on after a tool call, and what it says then is no longer the message before.
/// Producers count replies and blocks anew in each session and run, so a child's are told apart by both.
fn message_id(speaker: Speaker<'_>, reply: &ReplyId, block: &BlockId) -> MessageId {
    MessageId::new(match speaker {
        Speaker::Root => format!("{reply}/{block}"),
        Speaker::Child(child) => {
            format!("{}/{reply}/{block}", child.card.strip_prefix("spawn:").unwrap_or(&child.card))
        }
    })
}
