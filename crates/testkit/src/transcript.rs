//! What an encoder writes.

use std::borrow::Borrow;

use anabranch_adapters::Encode;
use anabranch_proto::Event;

/// Everything that `encoder` writes for `events`, which are numbered from 1, and for their end.
///
/// Takes events as `&Event`, `Arc<Event>` or `&Arc<Event>`. The example in the [crate's page](crate) makes a
/// transcript.
///
/// # Panics
/// When a frame cannot be written or what is written is not UTF-8.
#[expect(clippy::expect_used, reason = "for tests, where a failure is best told at once")]
pub fn transcript<E: Borrow<Event>>(
    mut encoder: impl Encode,
    events: impl IntoIterator<Item = impl std::ops::Deref<Target = E>>,
) -> String {
    let mut out = Vec::new();
    for (seq, event) in (1..).zip(events) {
        let event: &Event = (*event).borrow();
        encoder.event(Some(seq), event, &mut out).expect("every frame has a spelling");
    }
    encoder.finish(&mut out).expect("every frame has a spelling");
    String::from_utf8(out).expect("frames are UTF-8")
}
