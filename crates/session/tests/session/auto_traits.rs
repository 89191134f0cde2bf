//! What the runtime may move between threads and share.

use anabranch_session::{
    AppendError, Batch, Counters, Ending, EventLog, EventProcessor, Limits, LogError, MemoryLog,
    MessageAccumulator, SessionRecord, SessionTree,
};
use static_assertions::{assert_impl_all, assert_obj_safe};

assert_obj_safe!(EventLog);
assert_impl_all!(EventProcessor: Send, Sync, std::fmt::Debug);
assert_impl_all!(MemoryLog: EventLog, Send, Sync);
assert_impl_all!(MessageAccumulator: Send, Sync, Clone, Default);
assert_impl_all!(SessionTree: Send, Sync);
assert_impl_all!(SessionRecord: Send, Sync, Clone);
assert_impl_all!(Batch: Send, Sync, Clone);
assert_impl_all!(Ending: Send, Sync, Clone);
assert_impl_all!(Limits: Send, Sync, Copy);
assert_impl_all!(Counters: Send, Sync, Copy);
assert_impl_all!(AppendError: std::error::Error, Send, Sync);
assert_impl_all!(LogError: std::error::Error, Send, Sync);
