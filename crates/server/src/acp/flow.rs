//! How much is on its way to the client.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many updates wait in the SDK's queue, which has no bound of its own.
const MOST: usize = 64;

/// How many bytes of updates wait in all, from the pumps to the pipe. One that is larger passes alone.
pub(super) const BYTES: u32 = 2 * 1024 * 1024;

/// How a line begins that takes room.
const UPDATE: &str = r#""method":"session/update""#;

/// How far from a line's beginning its method can be.
const HEAD: usize = 64;

/// The room that an update takes until it is written.
pub(super) type Room = OwnedSemaphorePermit;

/// Counts updates on their way from the pumps to the transport.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    bytes: Arc<Semaphore>,
    /// What the SDK has; nothing is known of that where the transport does not tell what it writes.
    sent: Option<Arc<Sent>>,
}

#[derive(Debug, Default)]
struct Sent {
    /// In the order in which they will be written.
    waiting: Mutex<VecDeque<Room>>,
    has_room: Notify,
    lines: AtomicU64,
}

impl Flow {
    /// For a transport that tells what it writes.
    pub(super) fn counted() -> Self {
        Self { sent: Some(Arc::default()), ..Self::uncounted() }
    }

    /// For one that does not.
    pub(super) fn uncounted() -> Self {
        Self { bytes: Arc::new(Semaphore::new(BYTES as usize)), sent: None }
    }

    /// Waits until there is room for an update; first come, first served.
    pub(super) async fn room(&self, update: &impl Serialize) -> Room {
        let bytes = u32::try_from(written(update)).unwrap_or(BYTES).min(BYTES);
        loop {
            // Nobody closes it.
            if let Ok(room) = Arc::clone(&self.bytes).acquire_many_owned(bytes).await {
                return room;
            }
        }
    }

    /// Waits until the SDK has room for an update, and gives it that of the update. For one writer alone.
    pub(super) async fn send(&self, room: Room) {
        let Some(sent) = &self.sent else { return };
        loop {
            // `notify_one` keeps one permit, so what is written between the look and the wait is not missed.
            if sent.waiting().len() < MOST {
                return sent.waiting().push_back(room);
            }
            sent.has_room.notified().await;
        }
    }

    /// A line is written now.
    pub(super) fn line(&self, line: &str) {
        let Some(sent) = &self.sent else { return };
        sent.lines.fetch_add(1, Ordering::AcqRel);
        let head = line.as_bytes().get(..HEAD).unwrap_or(line.as_bytes());
        if head.windows(UPDATE.len()).any(|part| part == UPDATE.as_bytes()) {
            sent.waiting().pop_front();
            sent.has_room.notify_one();
        }
    }

    /// How many lines were written, as far as that is told.
    pub(super) fn lines(&self) -> u64 {
        self.sent.as_ref().map_or(0, |sent| sent.lines.load(Ordering::Acquire))
    }
}

impl Sent {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Room>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long something is as JSON.
fn written(what: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What has no spelling is not sent either.
    serde_json::to_writer(&mut count, what).ok();
    count.0
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::RawJsonRpcMessage;
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    /// A line as the SDK writes it.
    fn line(method: &str) -> String {
        let message =
            RawJsonRpcMessage::notification(method.to_owned(), json!({ "sessionId": "s" })).unwrap();
        serde_json::to_string(&message).unwrap()
    }

    fn room(flow: &Flow, bytes: usize) -> Option<Room> {
        // With its quotation marks.
        flow.room(&"x".repeat(bytes - 2)).now_or_never()
    }

    #[test]
    fn an_update_waits_until_another_is_written() {
        let flow = Flow::counted();
        for _ in 0..MOST {
            flow.send(room(&flow, 2).unwrap()).now_or_never().expect("there is room");
        }
        let mut next = Box::pin(flow.send(room(&flow, 2).unwrap()));
        assert!(next.as_mut().now_or_never().is_none());
        flow.line(&line("session/request_permission"));
        flow.line(&format!("{{{}{UPDATE}}}", " ".repeat(HEAD)));
        assert!(next.as_mut().now_or_never().is_none(), "nothing of the writer's was written");
        flow.line(&line("session/update"));
        next.now_or_never().expect("there is room again");
        assert_eq!(flow.lines(), 3);
    }

    #[test]
    fn bytes_wait_until_others_are_written_and_what_is_larger_than_all_room_passes_alone() {
        let flow = Flow::counted();
        let half = BYTES as usize / 2;
        for _ in 0..2 {
            flow.send(room(&flow, half).unwrap()).now_or_never().expect("few are there");
        }
        assert!(room(&flow, 2).is_none());
        flow.line(&line("session/update"));
        assert!(room(&flow, 8 * half).is_none(), "something is on its way");
        flow.line(&line("session/update"));
        let alone = room(&flow, 8 * half).expect("nothing else is on its way");
        assert!(room(&flow, 2).is_none());
        drop(alone);
        assert!(room(&flow, 2).is_some());
    }

    #[test]
    fn what_is_not_counted_waits_for_the_sdk_alone() {
        let flow = Flow::uncounted();
        for _ in 0..=MOST {
            flow.send(room(&flow, BYTES as usize).unwrap()).now_or_never().expect("there is room");
        }
    }
}
