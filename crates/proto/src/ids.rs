//! Ids that successive events repeat, held once.

use std::sync::Arc;

use crate::{
    BlockId, ContentBlock, ErrorInfo, FinishedReason, Json, Message, MessageId, Metadata, Outcome, ReplyId,
    Role, SessionId, SourceType, SpawnMechanism, SubagentId, TextOrBlocks, ToolCallBlock, ToolCallId,
    ToolResultBlock, ToolResultState,
    event::{ConfirmResult, MessageOrigin, ModelFinishedReason},
};

/// The ids that a stream named last. As many as there are agents that speak at a time, and their blocks and calls;
/// one that comes again after more others than that is held twice, which is no error.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    sessions: Latest<SessionId, 16>,
    replies: Latest<ReplyId, 16>,
    blocks: Latest<BlockId, 16>,
    calls: Latest<ToolCallId, 32>,
}

/// Something with ids in it.
pub(crate) trait HasIds {
    /// Puts the id that was read first in the place of each equal one.
    fn share_ids(&mut self, ids: &mut Ids);
}

/// The longest id that is remembered, in bytes.
const LONGEST: usize = 256;

/// At most `MOST` ids, the one that was named last at the end.
#[derive(Debug)]
struct Latest<T, const MOST: usize>(Vec<T>);

impl<T, const MOST: usize> Default for Latest<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone + AsText, const MOST: usize> Latest<T, MOST> {
    fn share(&mut self, id: &mut T) {
        if let Some(at) = self.0.iter().rposition(|known| known.as_text() == id.as_text()) {
            let known = self.0.remove(at);
            *id = known.clone();
            self.0.push(known);
        } else if id.as_text().len() <= LONGEST {
            if self.0.len() >= MOST {
                self.0.remove(0);
            }
            self.0.push(id.clone());
        }
    }
}

trait AsText {
    fn as_text(&self) -> &str;
}

macro_rules! shared {
    ($($id:ident in $latest:ident;)*) => {$(
        impl AsText for $id {
            fn as_text(&self) -> &str {
                self.as_str()
            }
        }

        impl HasIds for $id {
            fn share_ids(&mut self, ids: &mut Ids) {
                ids.$latest.share(self);
            }
        }
    )*};
}

shared! {
    SessionId in sessions;
    ReplyId in replies;
    BlockId in blocks;
    ToolCallId in calls;
}

impl<T: HasIds> HasIds for Option<T> {
    fn share_ids(&mut self, ids: &mut Ids) {
        if let Some(value) = self {
            value.share_ids(ids);
        }
    }
}

impl<T: HasIds> HasIds for Box<T> {
    fn share_ids(&mut self, ids: &mut Ids) {
        (**self).share_ids(ids);
    }
}

macro_rules! not_shared {
    ($($type:ty),* $(,)?) => {$(
        impl HasIds for $type {
            fn share_ids(&mut self, _: &mut Ids) {}
        }
    )*};
}

// A message's id and a sub-agent's come once each; blocks, calls and results that come whole are rare.
not_shared! {
    Arc<str>, ErrorInfo, FinishedReason, Json, Message, MessageId, MessageOrigin, Metadata, ModelFinishedReason,
    Outcome, Role, SourceType, SpawnMechanism, String, SubagentId, TextOrBlocks, ToolResultState,
    Vec<ConfirmResult>, Vec<ContentBlock>, Vec<ToolCallBlock>, Vec<ToolResultBlock>, u32, u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(latest: &mut Latest<BlockId, 4>, text: &str) -> *const u8 {
        let mut id = BlockId::new(text);
        latest.share(&mut id);
        assert_eq!(id.as_str(), text);
        id.as_str().as_ptr()
    }

    #[test]
    fn the_latest_ids_are_held_once_and_no_others() {
        let mut latest = Latest::default();
        let first = share(&mut latest, "0");
        for number in 1..100 {
            share(&mut latest, &number.to_string());
            assert_eq!(share(&mut latest, "0"), first, "named again and again, so among the latest");
            assert!(latest.0.len() <= 4);
        }
        share(&mut latest, &"x".repeat(LONGEST + 1));
        assert!(latest.0.iter().all(|id| id.as_str().len() <= LONGEST));
    }
}
