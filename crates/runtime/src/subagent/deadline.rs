//! Until when a child may run.

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

/// The time that a child has. It stands still while a person is asked.
pub(super) struct Deadline {
    /// The whole time, for the text that says that it is over.
    timeout: Duration,
    left: Left,
}

enum Left {
    Running(Pin<Box<Sleep>>),
    Paused(Duration),
}

impl Deadline {
    /// The time begins to run.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, left: Left::Running(Box::pin(tokio::time::sleep(timeout))) }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Ready when the time is over.
    pub(super) fn poll(&mut self, is_paused: bool, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.left {
            Left::Running(sleep) if is_paused => {
                self.left = Left::Paused(sleep.deadline().saturating_duration_since(Instant::now()));
                Poll::Pending
            }
            Left::Running(sleep) => sleep.as_mut().poll(cx),
            Left::Paused(_) if is_paused => Poll::Pending,
            Left::Paused(left) => {
                self.left = Left::Running(Box::pin(tokio::time::sleep(*left)));
                self.poll(is_paused, cx)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_stands_still_while_it_is_paused() {
        let start = Instant::now();
        let mut deadline = Deadline::new(Duration::from_secs(10));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(poll_fn(|cx| Poll::Ready(deadline.poll(true, cx))).await.is_pending());
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(poll_fn(|cx| Poll::Ready(deadline.poll(true, cx))).await.is_pending());
        poll_fn(|cx| deadline.poll(false, cx)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(110));
    }
}
