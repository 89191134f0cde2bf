//! How a child on a task of its own runs, and hands over what it says.

use std::{collections::VecDeque, future::Future, panic::AssertUnwindSafe, pin::pin};

use anabranch_pipeline::ToolStream;
use anabranch_proto::ToolChunk;
use futures::FutureExt as _;

use super::{Batch, next_batch};
use crate::run::{Patience, drop_quietly, panic_message};

/// How many batches a child may have ready behind the one for which there is no room. Its time is looked at with each.
const HELD: usize = 4;

/// Runs a child to its end. `send` hands a batch over once there is room, and says whether anybody takes it; the child is
/// gone before a batch that has its end is sent.
///
/// A child whose reader has no room waits, but its time does not: when `patience` is over it looks at the time and is asked
/// for more all the same, so that what is due by then happens, and what that says waits behind the rest.
///
/// # Cancel safety
/// Dropping the future stops the child; what waits is lost.
pub(crate) async fn hand_over<F>(child: ToolStream, patience: &Patience, send: impl Fn(Batch) -> F)
where
    F: Future<Output = bool>,
{
    let mut child = Some(child);
    let mut held = VecDeque::new();
    loop {
        let batch = match held.pop_front() {
            Some(batch) => batch,
            None => match next(&mut child).await {
                Some(batch) => batch,
                None => return,
            },
        };
        let mut sending = pin!(send(batch));
        loop {
            tokio::select! {
                biased;
                is_taken = &mut sending => {
                    if !is_taken {
                        return;
                    }
                    break;
                }
                Some(batch) = later(&mut child, patience), if child.is_some() && held.len() < HELD => {
                    held.push_back(batch);
                }
            }
        }
        tokio::task::yield_now().await;
    }
}

/// What the child has ready next when the patience is over. It looks at the time first.
async fn later(child: &mut Option<ToolStream>, patience: &Patience) -> Option<Batch> {
    tokio::time::sleep(patience.stall()).await;
    patience.held_up();
    next(child).await
}

/// What the child has ready next; none when it has ended. It is gone when that is its end.
///
/// # Cancel safety
/// Nothing is lost when dropped.
async fn next(child: &mut Option<ToolStream>) -> Option<Batch> {
    let stream = child.as_mut()?;
    // A child catches what is not ours; a panic here is a fault of our own, and still no lost end.
    let next = AssertUnwindSafe(next_batch(stream)).catch_unwind().await;
    let batch = next.unwrap_or_else(|panic| {
        let text = format!("the sub-agent's task panicked: {}", panic_message(&*panic));
        Some(Batch::end(ToolChunk::error(text)))
    });
    if batch.as_ref().is_none_or(|batch| batch.end.is_some())
        && let Some(child) = child.take()
    {
        drop_quietly(child);
    }
    batch
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use anabranch_pipeline::ToolYield;
    use anabranch_proto::{Event, EventKind, Metadata, Scope, event::Custom};
    use futures::{StreamExt as _, stream};
    use tokio::{sync::Semaphore, time::Instant};

    use super::*;
    use crate::SystemStamp;

    const STALL: Duration = Duration::from_secs(30);

    fn event(number: u32) -> Arc<Event> {
        let kind = Custom::new(number.to_string(), serde_json::Value::Null);
        Arc::new(Event::stamped(&SystemStamp::new(), Scope::Root, Metadata::default(), kind))
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_for_which_there_is_no_room_is_asked_for_more_once_per_patience_and_not_for_ever() {
        let start = Instant::now();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&asked);
        // One at a time.
        let events = stream::iter(0..20).then(move |number| {
            times.lock().unwrap().push(start.elapsed());
            async move {
                tokio::task::yield_now().await;
                ToolYield::Event(event(number))
            }
        });
        let end = stream::iter([ToolYield::Chunk(ToolChunk::text("done").last())]);
        let (room, taken) = (Semaphore::new(0), Mutex::new((Vec::new(), Vec::new())));
        let send = async |batch: Batch| {
            room.acquire().await.unwrap().forget();
            let mut taken = taken.lock().unwrap();
            taken.0.extend(batch.events);
            taken.1.extend(batch.end);
            true
        };
        let patience = Patience::new(STALL);
        let mut run = pin!(hand_over(events.chain(end).boxed(), &patience, send));
        assert!(tokio::time::timeout(STALL * 100, &mut run).await.is_err());
        // With each item the next one is looked at.
        assert_eq!(*asked.lock().unwrap(), [0, 0, 1, 2, 3, 4].map(|times| STALL * times));
        room.add_permits(100);
        run.await;
        let taken = taken.lock().unwrap();
        let name = |event: &Arc<Event>| {
            if let EventKind::Custom(custom) = &event.kind { custom.name.to_string() } else { String::new() }
        };
        let names: Vec<_> = taken.0.iter().map(name).collect();
        assert_eq!(names, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!(taken.1.len(), 1);
    }

    #[tokio::test]
    async fn a_panic_is_an_end_and_the_child_is_gone_before_it_is_sent() {
        struct Gone(Arc<Mutex<bool>>);

        impl Drop for Gone {
            fn drop(&mut self) {
                *self.0.lock().unwrap() = true;
            }
        }

        let is_over = Arc::new(Mutex::new(false));
        let guard = Gone(Arc::clone(&is_over));
        let child = stream::poll_fn(move |_| -> std::task::Poll<Option<ToolYield>> {
            let _guard = &guard;
            panic!("on purpose")
        });
        let ends = Mutex::new(Vec::new());
        let send = async |batch: Batch| {
            assert!(*is_over.lock().unwrap());
            ends.lock().unwrap().extend(batch.end);
            true
        };
        hand_over(child.boxed(), &Patience::new(STALL), send).await;
        let ends = ends.into_inner().unwrap();
        assert_eq!(ends.len(), 1);
        assert!(ends[0].content[0].as_text().unwrap().contains("panicked: on purpose"), "{ends:?}");
    }
}
