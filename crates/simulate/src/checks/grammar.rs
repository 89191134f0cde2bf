//! The stream as a stream.

use anabranch_proto::grammar::{Profile, Verifier};

use super::{Story, ensure};
use crate::fakes::FORGED;

/// Numbers count 1, 2, 3….
pub(super) fn numbers_have_no_gaps(story: &Story<'_>) -> Result<(), String> {
    for (number, admitted) in (1..).zip(&story.record.log) {
        ensure(admitted.seq == number, || format!("number {number} is {}", admitted.seq))?;
    }
    Ok(())
}

/// Every rule of a stream holds.
pub(super) fn is_well_formed(story: &Story<'_>) -> Result<(), String> {
    let mut verifier = Verifier::new(Profile::Native).max_depth(story.plan.limits.depth);
    for admitted in &story.record.log {
        verifier
            .check_numbered(admitted.seq, &admitted.event)
            .map_err(|violation| format!("at {}: {violation}", admitted.seq))?;
    }
    verifier.finish().map_err(|violation| format!("at the end: {violation}"))
}

/// Nothing enters that its producer may not say, or says too late.
pub(super) fn nothing_forged_is_seen(story: &Story<'_>) -> Result<(), String> {
    let forged = story.record.log.iter().find(|admitted| admitted.event.metadata.get(FORGED).is_some());
    ensure(forged.is_none(), || {
        forged
            .map(|forged| format!("{} at {} is forged", forged.event.kind.tag(), forged.seq))
            .unwrap_or_default()
    })
}
