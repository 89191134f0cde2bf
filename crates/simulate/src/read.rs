//! Those who read, each at its own pace.

use std::{sync::Arc, time::Duration};

use anabranch_runtime::{Read, Reader, Reply, Session};
use futures::{Stream, StreamExt};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    plan::{CancelHow, Fate, Pace, ReaderPlan, ReplyPlan},
    world::World,
};

/// After how many events a slow reader pauses.
const EVENTS_PER_PAUSE: u64 = 8;

/// What somebody read.
#[derive(Debug)]
pub(crate) struct ReadRecord {
    /// After which number it began, where that is known.
    pub(crate) after: Option<u64>,
    pub(crate) reads: Vec<Read>,
    /// Whether the stream ended, and not its reader.
    pub(crate) is_whole: bool,
}

/// Reads until the stream ends.
pub(crate) async fn to_end(mut reader: Reader) {
    while reader.next().await.is_some() {}
}

/// Reads up to so many events, at a pace. One that never reads does so only when the session is over.
async fn read(
    stream: &mut (impl Stream<Item = Read> + Unpin),
    pace: Pace,
    most: Option<u64>,
    is_over: &mut watch::Receiver<bool>,
    record: &mut ReadRecord,
) {
    if pace == Pace::Never {
        is_over.wait_for(|is_over| *is_over).await.ok();
    }
    let mut count = 0;
    while most.is_none_or(|most| count < most) {
        let Some(read) = stream.next().await else {
            record.is_whole = true;
            return;
        };
        record.reads.push(read);
        count += 1;
        if let Pace::Slow(millis) = pace
            && count % EVENTS_PER_PAUSE == 0
        {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }
}

/// A reader that subscribes.
pub(crate) fn reader(
    plan: ReaderPlan,
    session: Session,
    mut is_over: watch::Receiver<bool>,
) -> JoinHandle<ReadRecord> {
    let mut record = ReadRecord { after: Some(plan.after), reads: Vec::new(), is_whole: false };
    let open = move |session: &Session| {
        if plan.lossless { session.subscribe_lossless(plan.after) } else { session.subscribe(plan.after) }
    };
    // One that is there from the start sees the first event live.
    let opened = (plan.comes == 0).then(|| open(&session));
    tokio::spawn(async move {
        let mut reader = if let Some(reader) = opened {
            reader
        } else {
            let comes = tokio::time::sleep(Duration::from_millis(plan.comes));
            tokio::select! {
                biased;
                () = comes => {}
                _ = is_over.wait_for(|is_over| *is_over) => {}
            }
            open(&session)
        };
        // A handle would keep the session alive.
        drop(session);
        read(&mut reader, plan.pace, plan.vanishes, &mut is_over, &mut record).await;
        record
    })
}

/// The reader of a reply.
pub(crate) fn reply(
    plan: ReplyPlan,
    reply: Reply,
    world: Arc<World>,
    number: usize,
    mut is_over: watch::Receiver<bool>,
) -> JoinHandle<ReadRecord> {
    tokio::spawn(async move {
        let mut record = ReadRecord { after: None, reads: Vec::new(), is_whole: false };
        let leaves_and_cancels = matches!(plan.fate, Fate::LeavesAndCancels(_));
        let mut reply = if leaves_and_cancels { reply.cancel_on_drop() } else { reply };
        let most = match plan.fate {
            Fate::Reads | Fate::CancelsNext => None,
            Fate::Cancels(events) | Fate::Leaves(events) | Fate::LeavesAndCancels(events) => Some(events),
        };
        read(&mut reply, plan.pace, most, &mut is_over, &mut record).await;
        if record.is_whole {
            if plan.fate == Fate::CancelsNext {
                world.stop(CancelHow::Now);
            }
            return record;
        }
        if matches!(plan.fate, Fate::Cancels(_) | Fate::LeavesAndCancels(_)) {
            world.note_cancel(Some(number), false, 0);
        }
        if let Fate::Cancels(_) = plan.fate {
            reply.cancel();
            read(&mut reply, plan.pace, None, &mut is_over, &mut record).await;
        }
        drop(reply);
        record
    })
}
