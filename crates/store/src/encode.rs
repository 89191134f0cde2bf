//! Events as JSON, made while others are written.

use std::{
    fmt::Write as _,
    ops::Range,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use anabranch_proto::{Admitted, native};

use crate::StoreError;

/// How many events are encoded at once.
const BLOCK: usize = 512;

/// How many blocks are encoded ahead of the one that is written: one being made, one ready.
const AHEAD: usize = 2;

/// With fewer events than these another thread costs more than it saves.
const WORTH: usize = 256;

/// Some successive events of a batch, as the texts that are written of them.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    json: Vec<u8>,
    time: String,
    /// Where the JSON and the time of each event end.
    ends: Vec<(usize, usize)>,
}

impl Encoded {
    /// Encodes some events. What cannot be is an error with the event's number.
    pub(crate) fn of(events: &[Admitted]) -> Result<Self, (u64, String)> {
        let mut this = Self::default();
        for Admitted { seq, event, .. } in events {
            let failed = |error: &dyn std::error::Error| (*seq, error.to_string());
            native::write(Some(*seq), event, &mut this.json).map_err(|error| failed(&error))?;
            write!(this.time, "{}", event.created_at).map_err(|error| failed(&error))?;
            this.ends.push((this.json.len(), this.time.len()));
        }
        Ok(this)
    }

    /// The JSON and the time of each event.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&[u8], &str)> {
        let mut from = (0, 0);
        self.ends.iter().map(move |to| {
            let texts = (self.json.get(from.0..to.0), self.time.get(from.1..to.1));
            from = *to;
            (texts.0.unwrap_or_default(), texts.1.unwrap_or_default())
        })
    }
}

/// What becomes of a block.
type Made = Result<Encoded, (u64, String)>;

/// A thread that encodes the next events while these are written.
#[derive(Debug)]
pub(crate) struct Encoder {
    blocks: SyncSender<Vec<Admitted>>,
    made: Receiver<Made>,
}

impl Encoder {
    pub(crate) fn start() -> Result<Self, StoreError> {
        // As many as are on their way at once, so that neither side ever waits to send.
        let (blocks, jobs) = sync_channel::<Vec<Admitted>>(AHEAD);
        let (results, made) = sync_channel(AHEAD);
        let thread = thread::Builder::new().name("anabranch-encode".to_owned());
        let thread = thread.spawn(move || {
            for block in jobs {
                if results.send(Encoded::of(&block)).is_err() {
                    return;
                }
            }
        });
        thread.map_err(|error| StoreError::Thread(error.to_string()))?;
        Ok(Self { blocks, made })
    }

    /// Gives each block of some batches to `write`, in order: the batch's index, the events and their texts. Ends with the
    /// first error, which is of the batch with the index.
    pub(crate) fn each<'a>(
        &self,
        batches: impl Iterator<Item = &'a [Admitted]> + Clone,
        mut write: impl FnMut(usize, &'a [Admitted], Made) -> Result<(), StoreError>,
    ) -> Result<(), (usize, StoreError)> {
        let count: usize = batches.clone().map(<[Admitted]>::len).sum();
        let blocks = batches.enumerate().flat_map(|(index, batch)| {
            let range = |from: usize| from..(from + BLOCK).min(batch.len());
            let block = move |from| (index, slice(batch, range(from)));
            (0..batch.len()).step_by(BLOCK).map(block)
        });
        if count < WORTH {
            for (index, block) in blocks {
                write(index, block, Encoded::of(block)).map_err(|error| (index, error))?;
            }
            return Ok(());
        }
        let stopped = || StoreError::Thread("the encoding thread panicked".to_owned());
        let mut ahead = blocks.clone();
        let mut under_way = 0;
        let mut written = Ok(());
        for (index, block) in blocks {
            while under_way < AHEAD
                && let Some((_, next)) = ahead.next()
            {
                self.blocks.send(next.to_vec()).map_err(|_| (index, stopped()))?;
                under_way += 1;
            }
            let made = self.made.recv().map_err(|_| (index, stopped()))?;
            under_way -= 1;
            if let Err(error) = write(index, block, made) {
                written = Err((index, error));
                break;
            }
        }
        // What is under way is nobody's.
        for _ in 0..under_way {
            self.made.recv().map_err(|_| (0, stopped()))?.ok();
        }
        written
    }
}

fn slice(batch: &[Admitted], range: Range<usize>) -> &[Admitted] {
    batch.get(range).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use anabranch_session::conformance::conversation;

    use super::*;

    #[test]
    fn every_event_comes_once_in_order_with_its_texts() {
        let all = conversation(60);
        let encoder = Encoder::start().unwrap();
        for sizes in [vec![3, 0, 5], vec![600, 1, 0, 1_700, 511], vec![512, 513], vec![]] {
            let mut rest = &all[..];
            let batches: Vec<_> = sizes
                .iter()
                .map(|size| {
                    let (batch, behind) = rest.split_at(*size);
                    rest = behind;
                    batch
                })
                .collect();
            let mut seen = Vec::new();
            let each = encoder.each(batches.iter().copied(), |index, block, made| {
                let made = made.unwrap();
                assert_eq!(made.texts().count(), block.len());
                for (admitted, (json, time)) in block.iter().zip(made.texts()) {
                    let line = native::Reader::default().read(std::str::from_utf8(json).unwrap()).unwrap();
                    assert_eq!((line.seq, &line.event), (Some(admitted.seq), &*admitted.event));
                    assert_eq!(time, admitted.event.created_at.to_string());
                    seen.push((index, admitted.seq));
                }
                Ok(())
            });
            assert!(each.is_ok());
            let expected: Vec<_> = batches
                .iter()
                .enumerate()
                .flat_map(|(index, batch)| batch.iter().map(move |admitted| (index, admitted.seq)))
                .collect();
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn after_an_error_the_next_batches_are_encoded_as_ever() {
        let all = conversation(60);
        let encoder = Encoder::start().unwrap();
        for failing in [0, 1, 4] {
            let mut blocks = 0;
            let each = encoder.each([&all[..], &all[..]].into_iter(), |_, block, made| {
                assert_eq!(made.unwrap().texts().count(), block.len());
                blocks += 1;
                if blocks > failing { Err(StoreError::Closed) } else { Ok(()) }
            });
            assert!(matches!(each, Err((_, StoreError::Closed))));
            assert_eq!(blocks, failing + 1);
        }
    }
}
