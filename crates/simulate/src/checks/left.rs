//! What is left when a session has ended.

use super::{Story, ensure};

/// The run came to an end.
pub(super) fn comes_to_an_end(story: &Story<'_>) -> Result<(), String> {
    ensure(!story.record.hangs, || "a day passed and the run did not end".to_owned())
}

/// Nothing panicked but what was planned to.
pub(super) fn has_no_other_panic(story: &Story<'_>) -> Result<(), String> {
    ensure(story.record.panics.is_empty(), || story.record.panics.join("; "))
}

/// No task, no fake, no child's place.
pub(super) fn nothing_is_left(story: &Story<'_>) -> Result<(), String> {
    let end = &story.record.end;
    ensure(end.alive_tasks == 0, || format!("{} tasks are alive", end.alive_tasks))?;
    ensure(end.alive_fakes == 0, || format!("{} fakes are alive", end.alive_fakes))?;
    ensure(end.children_running == 0, || format!("{} children have a place", end.children_running))?;
    let (expected, found) = (story.record.prompts, story.record.replies.len());
    ensure(expected == found, || format!("of {expected} readers of replies {found} came back"))?;
    let (expected, found) = (story.plan.readers.len(), story.record.readers.len());
    ensure(expected == found, || format!("of {expected} readers {found} came back"))
}

/// No fake saw something that must not happen.
pub(super) fn no_fake_saw_a_fault(story: &Story<'_>) -> Result<(), String> {
    ensure(story.record.seen.faults.is_empty(), || story.record.seen.faults.join("; "))
}
