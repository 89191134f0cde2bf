//! Messages to a run that is under way.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{Prompt, SteerError};

/// How many messages wait for the run's next model call.
const MESSAGES: usize = 32;

/// How many bytes they may have together.
const BYTES: usize = 1024 * 1024;

/// What was said to a run and its model has not read.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Prompt>,
    bytes: usize,
    access: Access,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Access {
    #[default]
    Open,
    /// The run is none of an agent of ours, so there is no model call before which it could be read.
    Deaf,
    Ended,
}

impl Inbox {
    /// Adds a message for the run's next model call.
    pub(crate) fn push(&self, message: Prompt) -> Result<(), SteerError> {
        let mut state = self.lock();
        match state.access {
            Access::Deaf => return Err(SteerError::Deaf),
            Access::Ended => return Err(SteerError::Ended),
            Access::Open => {}
        }
        let bytes = state.bytes.saturating_add(message.bytes());
        if state.messages.len() >= MESSAGES || bytes > BYTES {
            return Err(SteerError::Full { messages: MESSAGES, bytes: BYTES });
        }
        state.bytes = bytes;
        state.messages.push_back(message);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Waits until a message has come; may be done earlier.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes what waits, in order.
    pub(crate) fn take(&self) -> VecDeque<Prompt> {
        let mut state = self.lock();
        state.bytes = 0;
        std::mem::take(&mut state.messages)
    }

    /// Takes the message that has waited longest.
    pub(crate) fn take_one(&self) -> Option<Prompt> {
        let mut state = self.lock();
        let message = state.messages.pop_front()?;
        state.bytes = state.bytes.saturating_sub(message.bytes());
        Some(message)
    }

    /// Takes no more where nothing waits; says whether nothing did. So no message comes between the last look and the end.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut state = self.lock();
        let is_empty = state.messages.is_empty();
        if is_empty {
            state.access = Access::Ended;
        }
        is_empty
    }

    /// Takes no more.
    pub(crate) fn close(&self) {
        self.lock().access = Access::Ended;
    }

    /// Takes nothing, for nobody reads it.
    pub(crate) fn deafen(&self) {
        self.lock().access = Access::Deaf;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_order_and_none_after_the_end() {
        let inbox = Inbox::default();
        inbox.push("a".into()).unwrap();
        inbox.push("b".into()).unwrap();
        assert!(!inbox.close_if_empty());
        assert_eq!(inbox.take().iter().map(Prompt::text).collect::<String>(), "ab");
        assert!(inbox.close_if_empty());
        assert_eq!(inbox.push("c".into()), Err(SteerError::Ended));
        inbox.deafen();
        assert_eq!(inbox.push("c".into()), Err(SteerError::Deaf));
    }

    #[test]
    fn the_number_and_the_bytes_of_messages_are_bounded() {
        let inbox = Inbox::default();
        for _ in 0..MESSAGES {
            inbox.push("a".into()).unwrap();
        }
        let full = Err(SteerError::Full { messages: MESSAGES, bytes: BYTES });
        assert_eq!(inbox.push("a".into()), full);
        inbox.take();
        assert_eq!(inbox.push("x".repeat(BYTES + 1).into()), full);
        inbox.push("x".repeat(BYTES / 2).into()).unwrap();
        assert_eq!(inbox.push("x".repeat(BYTES / 2).into()), full);
    }
}
