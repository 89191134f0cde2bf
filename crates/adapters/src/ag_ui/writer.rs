//! Where frames go.

use anabranch_proto::Metadata;

use super::{
    Mode,
    frame::{Body, Frame, no_metadata},
    metadata::{FrameMetadata, Own},
};

/// Where frames go.
pub(super) type Out<'o> = dyn for<'a> FnMut(Frame<'a>) + 'o;

/// Writes the frames that follow from one event.
pub(super) struct Writer<'w, 'o> {
    pub(super) mode: Mode,
    /// When the event happened.
    pub(super) at: i64,
    /// The event's metadata.
    pub(super) metadata: &'w Metadata,
    pub(super) out: &'w mut Out<'o>,
}

impl<'o> Writer<'_, 'o> {
    /// Writes a frame of an owner: of a child's run, or of the root.
    pub(super) fn put(&mut self, owner: Option<&str>, body: Body<'_>) {
        self.put_with(owner, Own::None, body);
    }

    /// Writes a frame that has more to say than the protocol has fields for.
    pub(super) fn put_with(&mut self, owner: Option<&str>, own: Own<'_>, body: Body<'_>) {
        // Among what the root says nothing tells whose it is, so neither does the metadata.
        let is_hidden = self.mode == Mode::Inline && owner.is_some();
        let event = if is_hidden || !body.bears_metadata() { no_metadata() } else { self.metadata };
        let metadata = FrameMetadata { own, event };
        let subagent_run_id = self.mode.attribution(owner);
        (self.out)(Frame { body, subagent_run_id, timestamp: self.at, metadata });
    }

    /// The same with other metadata: that of somebody whom the event is not about.
    pub(super) fn with<'v>(&'v mut self, metadata: &'v Metadata) -> Writer<'v, 'o> {
        Writer { mode: self.mode, at: self.at, metadata, out: &mut *self.out }
    }
}
