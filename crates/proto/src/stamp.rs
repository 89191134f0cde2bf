//! Where ids and times come from.

use std::sync::Arc;

use ulid::Ulid;

use crate::{BlockId, EventId, MessageId, ReplyId, SessionId, SubagentId, Timestamp};

/// Brings ids and times to code that makes events.
///
/// Machines that decide (processor, adapters) take a `&dyn Stamp` and so stay repeatable: a test brings a counter, the
/// runtime a clock and randomness.
pub trait Stamp: Send + Sync {
    /// The 16 bytes of a fresh ULID. Never the same twice.
    fn unique(&self) -> [u8; 16];

    /// The 16 bytes of a fresh ULID that is greater than each that this method gave before. For session ids, which
    /// sort by creation (RFC-0014).
    fn ascending(&self) -> [u8; 16];

    /// The time now, in UTC.
    fn now(&self) -> Timestamp;

    /// A fresh event id.
    fn event_id(&self) -> EventId {
        EventId::from_ulid(self.unique())
    }

    /// A fresh event id for an event that has this time. A stamp whose ids have a time in them need not read its clock for
    /// it again; that is all that the time is for, and ids order nothing.
    fn event_id_at(&self, at: Timestamp) -> EventId {
        let _ = at;
        self.event_id()
    }

    /// A fresh block id.
    fn block_id(&self) -> BlockId {
        BlockId::new(text(self.unique()))
    }

    /// A fresh message id.
    fn message_id(&self) -> MessageId {
        MessageId::new(text(self.unique()))
    }

    /// The ids of a new session and of the sub-agent in it: `ses_` and `sa_` before the same ULID. Nobody may derive one
    /// from the other, because foreign ones need not match.
    fn session_ids(&self) -> (SessionId, SubagentId) {
        let mut text = [0; ulid::ULID_LEN];
        let ulid = &*Ulid::from_bytes(self.ascending()).array_to_str(&mut text);
        (SessionId::new(["ses_", ulid].concat()), SubagentId::new(["sa_", ulid].concat()))
    }

    /// A fresh reply id.
    fn reply_id(&self) -> ReplyId {
        ReplyId::new(text(self.unique()))
    }
}

fn text(unique: [u8; 16]) -> Arc<str> {
    Arc::from(&*Ulid::from_bytes(unique).array_to_str(&mut [0; ulid::ULID_LEN]))
}
