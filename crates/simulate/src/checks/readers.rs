//! What readers read.

use anabranch_proto::Admitted;
use anabranch_runtime::Read;

use super::{Story, ensure};
use crate::read::ReadRecord;

/// Each reads the log: in order, nothing twice, and what is missing is a gap that says so.
pub(super) fn each_reads_the_log(story: &Story<'_>) -> Result<(), String> {
    let last = story.record.log.len() as u64;
    for (number, reader) in story.record.readers.iter().enumerate() {
        let end = reader.is_whole.then_some(last);
        follows(story, reader, end).map_err(|what| format!("reader {number}: {what}"))?;
    }
    for (number, reply) in story.record.replies.iter().enumerate() {
        let run = story.runs.iter().find(|run| run.prompt == Some(number));
        let end = run.and_then(|run| run.events.last()).map(|last| last.seq);
        let end = end.filter(|_| reply.is_whole);
        follows(story, reply, end).map_err(|what| format!("the reply to prompt {number}: {what}"))?;
        if let (Some(Read::Event(first)), Some(run)) = (reply.reads.first(), run) {
            let begins = run.events.first().map(|begin| begin.seq);
            ensure(begins == Some(first.seq), || {
                format!("the reply to prompt {number} begins with {} and its run with {begins:?}", first.seq)
            })?;
        }
    }
    Ok(())
}

fn follows(story: &Story<'_>, reader: &ReadRecord, end: Option<u64>) -> Result<(), String> {
    let mut cursor = reader.after;
    for read in &reader.reads {
        let (from, to) = match read {
            Read::Event(admitted) => (admitted.seq, admitted.seq),
            Read::Gap { from, to } => (*from, *to),
        };
        ensure(cursor.is_none_or(|cursor| from == cursor + 1) && from <= to, || {
            format!("{from} to {to} came behind {cursor:?}")
        })?;
        cursor = Some(to);
        match read {
            Read::Event(admitted) => ensure(at(story, from) == Some(admitted), || {
                format!("what it read at {from} is not what was logged there")
            })?,
            Read::Gap { .. } => {
                ensure(story.plan.retention.is_some(), || {
                    format!("{from} to {to} are missing, and the log forgot nothing")
                })?;
            }
        }
    }
    let reached = cursor.unwrap_or(0);
    ensure(end.is_none_or(|end| reached >= end), || format!("it ended at {reached}, before {end:?}"))
}

fn at<'a>(story: &Story<'a>, seq: u64) -> Option<&'a Admitted> {
    story.record.log.get(usize::try_from(seq.checked_sub(1)?).ok()?)
}
