//! Sessions that go on after the program that ran them has ended.

use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering};

use anabranch_proto::{Admitted, ErrorInfo, SessionId, Stamp, Timestamp};

use crate::{
    AppendError, Batch, Ending, EventLog, EventProcessor, Forgotten, Limits, LogError, MessageAccumulator,
    processor::Io,
};

/// How many events are read at once.
const BATCH: usize = 1_024;

/// A session as its log has it, with nothing left open.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// What the session's events lead to. It goes on with the number behind the log's last.
    pub processor: EventProcessor,
    /// What was appended to the log because something had been left open; nothing where nothing was.
    pub closed: Vec<Admitted>,
    /// The number of the last event that the log has forgotten; 0 where it has all. What was known of the children of that
    /// time is gone, and the conversation is whole.
    pub forgotten: u64,
}

/// A session cannot go on from its log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The ends of what was left open cannot be appended.
    #[error("what was left open in the log cannot be closed")]
    Append(#[from] AppendError),
    /// The log has other events than a processor admits.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The log has forgotten events, and not kept what they came to.
    #[error("the log has forgotten the events up to {upto} and what they came to; begin a new session")]
    Forgotten {
        /// The last number that is missing.
        upto: u64,
    },
}

/// An event that a processor does not admit behind those that it was given before: they are not what one admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "event {seq} cannot follow those before it; the log has something missing or something of another session"
)]
#[non_exhaustive]
pub struct ReplayError {
    /// The event's number.
    pub seq: u64,
}

/// Brings a session back from its log: replays it, and closes what was left open as interrupted.
///
/// Each open run ends once, the deepest first, with `why` as its error; so do the calls, blocks and replies in it. A call
/// that waited for a person's answer is denied with a text that says that nobody refused it. Where the log was left in
/// order nothing is appended, so a second recovery changes nothing; one that was cut short is completed by the next.
///
/// `look` is shown every event that the log has and every one that is appended, in order. Nobody else may append to the log
/// meanwhile.
///
/// ```
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// use anabranch_proto::{ErrorInfo, ErrorType, Event, EventKind, Metadata, Outcome, Scope, Stamp, event};
/// use anabranch_session::{EventLog, EventProcessor, Limits, MemoryLog, Status, recover};
/// # #[derive(Default)]
/// # struct Counter(AtomicU64);
/// # impl Stamp for Counter {
/// #     fn unique(&self) -> [u8; 16] {
/// #         u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
/// #     }
/// #     fn ascending(&self) -> [u8; 16] {
/// #         self.unique()
/// #     }
/// #     fn now(&self) -> anabranch_proto::Timestamp {
/// #         anabranch_proto::Timestamp::from_unix(0, 0)
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // What a program had appended before it ended in mid-sentence.
/// let (log, stamp) = (MemoryLog::new(), Counter::default());
/// let kinds: [EventKind; 4] = [
///     event::UserMessage::new("message", vec![], event::MessageOrigin::User).into(),
///     event::ReplyStart::new("ses_root", "reply", "agent").into(),
///     event::TextBlockStart::new("reply", "block").into(),
///     event::TextBlockDelta::new("reply", "block", "half a sent").into(),
/// ];
/// let mut processor = EventProcessor::new("ses_root".into(), Limits::default());
/// let mut admitted = Vec::new();
/// for kind in kinds {
///     let event = Event::stamped(&stamp, Scope::Root, Metadata::default(), kind);
///     processor.process(event.into(), &stamp, &mut admitted);
/// }
/// log.append(&admitted)?;
///
/// // The next program.
/// let why = ErrorInfo::new(ErrorType::other("restart"), "the program ended while this ran");
/// let recovered = recover(&log, "ses_root".into(), Limits::default(), &stamp, &why, &mut |_| {}).await?;
/// let kinds: Vec<_> = recovered.closed.iter().map(|closed| closed.event.kind.tag()).collect();
/// assert_eq!(kinds, ["TEXT_BLOCK_END", "REPLY_END", "STREAM_COMPLETE"]);
/// assert_eq!(recovered.processor.tree().root().status, Status::Ended(Outcome::Interrupted));
/// assert_eq!(recovered.processor.messages()[1].text(), "half a sent");
/// let again = recover(&log, "ses_root".into(), Limits::default(), &stamp, &why, &mut |_| {}).await?;
/// assert!(again.closed.is_empty());
/// # Ok(()) }
/// ```
///
/// # Errors
/// When the log cannot be read or written, is not what a processor admitted, or has forgotten what a session needs to go
/// on.
///
/// # Cancel safety
/// Where the future is dropped nothing was appended, or all that was to be.
pub async fn recover(
    log: &dyn EventLog,
    root: SessionId,
    limits: Limits,
    stamp: &dyn Stamp,
    why: &ErrorInfo,
    look: &mut (dyn FnMut(&Admitted) + Send),
) -> Result<Recovered, RecoverError> {
    let mut processor = EventProcessor::new(root, limits);
    let mut forgotten = 0;
    let mut readable = log.appended();
    loop {
        readable.mark_unchanged();
        match log.read(processor.last_seq(), BATCH).await? {
            Batch::Events(events) if events.is_empty() => {
                // Another run of this program may have been the last to write, and its end not be durable yet.
                if processor.last_seq() >= log.last() || readable.changed().await.is_err() {
                    break;
                }
            }
            Batch::Events(events) => {
                for admitted in &events {
                    processor.replay(admitted)?;
                    look(admitted);
                }
            }
            Batch::Gap { to, .. } => {
                let before =
                    log.forgotten().await?.filter(|before| before.upto >= to && before.upto > forgotten);
                let before = before.ok_or(RecoverError::Forgotten { upto: to })?;
                forgotten = before.upto;
                processor.begin_behind(before);
            }
        }
    }
    let mut closed = Vec::new();
    processor.interrupt(why, stamp, &mut closed);
    if !closed.is_empty() {
        log.append(&closed)?;
        closed.iter().for_each(look);
    }
    Ok(Recovered { processor, closed, forgotten })
}

impl EventProcessor {
    /// Takes an event that a processor admitted, as part of all that it admitted, in order: what is known of the session
    /// is then what that processor knew. The limits hold for what comes later.
    ///
    /// # Errors
    /// When it is not the next one, or would not be admitted as it is. The processor is then of no use any more.
    pub fn replay(&mut self, admitted: &Admitted) -> Result<(), ReplayError> {
        let limits = std::mem::replace(
            &mut self.limits,
            Limits::default().max_depth(u32::MAX).max_spawned(usize::MAX),
        );
        let mut out = Vec::with_capacity(1);
        self.process(Arc::clone(&admitted.event), &Nothing::default(), &mut out);
        self.limits = limits;
        match out.as_slice() {
            [again] if again.seq == admitted.seq && Arc::ptr_eq(&again.event, &admitted.event) => Ok(()),
            _ => Err(ReplayError { seq: admitted.seq }),
        }
    }

    /// Closes all that runs as interrupted by the end of the program that ran it, background children too, and goes on: the
    /// next prompt begins a run. `why` is the error of each run and the text of each call's result.
    pub fn interrupt(&mut self, why: &ErrorInfo, stamp: &dyn Stamp, out: &mut Vec<Admitted>) {
        self.close_all(&Ending::of_all(why.clone()), &mut Io { stamp, at: stamp.now(), out });
    }

    /// Begins anew behind what was forgotten.
    fn begin_behind(&mut self, before: Forgotten) {
        *self = Self::new(self.tree.root().id.clone(), self.limits);
        self.seq = before.upto;
        self.conversation = MessageAccumulator::from(before.conversation);
    }
}

/// Ids and times for what is never made: a replay makes nothing.
#[derive(Default)]
struct Nothing(AtomicU64);

impl Stamp for Nothing {
    fn unique(&self) -> [u8; 16] {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }

    fn ascending(&self) -> [u8; 16] {
        self.unique()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(0, 0)
    }
}
