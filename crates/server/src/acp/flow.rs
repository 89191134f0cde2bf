//! How many updates the SDK has taken and not written.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// How many updates wait in the SDK's queue, which has no bound of its own.
const MOST: usize = 64;

/// How a line begins that takes room.
const UPDATE: &str = r#""method":"session/update""#;

/// How far from a line's beginning its method can be.
const HEAD: usize = 64;

/// Counts updates on their way from the writer to the transport.
#[derive(Clone, Debug)]
pub(super) struct Flow(Option<Arc<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    waiting: AtomicUsize,
    written: Notify,
}

impl Flow {
    /// For a transport that tells what it writes.
    pub(super) fn counted() -> Self {
        Self(Some(Arc::default()))
    }

    /// For one that does not.
    pub(super) fn uncounted() -> Self {
        Self(None)
    }

    /// Waits until there is room for an update, and takes it. For one writer alone.
    pub(super) async fn take(&self) {
        let Some(counted) = &self.0 else { return };
        loop {
            // `notify_one` keeps one permit, so what is written between the look and the wait is not missed.
            if counted.waiting.load(Ordering::Acquire) < MOST {
                counted.waiting.fetch_add(1, Ordering::AcqRel);
                return;
            }
            counted.written.notified().await;
        }
    }

    /// A line is written now.
    pub(super) fn line(&self, line: &str) {
        let Some(counted) = &self.0 else { return };
        let head = line.as_bytes().get(..HEAD).unwrap_or(line.as_bytes());
        if !head.windows(UPDATE.len()).any(|part| part == UPDATE.as_bytes()) {
            return;
        }
        let less = |waiting: usize| Some(waiting.saturating_sub(1));
        counted.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).ok();
        counted.written.notify_one();
    }
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

    #[test]
    fn an_update_waits_until_another_is_written() {
        let flow = Flow::counted();
        for _ in 0..MOST {
            flow.take().now_or_never().expect("there is room");
        }
        let mut next = Box::pin(flow.take());
        assert!(next.as_mut().now_or_never().is_none());
        flow.line(&line("session/request_permission"));
        flow.line(&format!("{{{}{UPDATE}}}", " ".repeat(HEAD)));
        assert!(next.as_mut().now_or_never().is_none(), "nothing of the writer's was written");
        flow.line(&line("session/update"));
        next.now_or_never().expect("there is room again");
    }

    #[test]
    fn what_is_not_counted_never_waits() {
        let flow = Flow::uncounted();
        for _ in 0..=MOST {
            flow.take().now_or_never().expect("there is room");
        }
    }
}
