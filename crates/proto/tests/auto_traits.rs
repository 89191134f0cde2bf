//! Events cross threads: what every public type must be able to do.

use anabranch_proto::{
    Admitted, Event, EventId, EventKind, Json, Message, Metadata, Scope, Timestamp, ToolChunk, native,
};
use static_assertions::assert_impl_all;

assert_impl_all!(Event: Send, Sync, Unpin, Clone);
assert_impl_all!(EventKind: Send, Sync, Unpin, Clone);
assert_impl_all!(EventId: Send, Sync, Unpin, Clone);
assert_impl_all!(Admitted: Send, Sync, Unpin, Clone);
assert_impl_all!(Json: Send, Sync, Unpin, Clone);
assert_impl_all!(Message: Send, Sync, Unpin, Clone);
assert_impl_all!(Metadata: Send, Sync, Unpin, Clone);
assert_impl_all!(Scope: Send, Sync, Unpin, Clone);
assert_impl_all!(Timestamp: Send, Sync, Unpin, Copy);
assert_impl_all!(ToolChunk: Send, Sync, Unpin, Clone);
assert_impl_all!(native::Reader: Send, Sync, Unpin);
assert_impl_all!(native::ReadError: Send, Sync, std::error::Error);

#[test]
fn an_event_is_at_most_two_cache_lines() {
    assert!(size_of::<Event>() <= 128, "{}", size_of::<Event>());
    assert!(size_of::<EventKind>() <= 64, "{}", size_of::<EventKind>());
}
