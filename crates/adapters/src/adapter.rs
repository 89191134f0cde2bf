//! The role of an adapter.

use anabranch_proto::{Event, Timestamp};
use serde::Serialize;

/// Turns events into the frames of one frontend's protocol.
///
/// A synchronous machine: it does no I/O and reads no clock, and the same calls give the same frames. Frames borrow
/// from the event and from the adapter, so they are given to a callback and not returned; a delta is never copied.
///
/// It expects the events of one root session in the order in which they were admitted, with the guarantees of
/// [`anabranch_proto`]'s stream: a child is announced before its first event, and each run ends once. What breaks
/// them must not break an adapter.
///
/// The example in the [crate's page](crate) is an adapter of twenty lines.
pub trait Adapter: 'static {
    /// What the frontend reads.
    type Frame<'a>: Serialize;

    /// Takes the next event and gives the frames that follow from it, in order: none, one or several.
    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(Self::Frame<'a>));

    /// Takes the time now, in the units of the events, and gives what was held back until then.
    ///
    /// For adapters that limit a rate. By default nothing.
    fn tick(&mut self, now: Timestamp, out: &mut dyn for<'a> FnMut(Self::Frame<'a>)) {
        let _ = (now, out);
    }

    /// Gives what is still held back. Called once, when no event will follow.
    fn finish(&mut self, out: &mut dyn for<'a> FnMut(Self::Frame<'a>));
}
