//! Bodies that their clients do not read.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::Stream;
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep_until},
};

/// A body that ends when its client takes nothing of it for too long: it is dropped then, and what comes of it is an error.
#[must_use]
pub(super) struct Attended<S> {
    body: Arc<Mutex<Body<S>>>,
    watch: AbortHandle,
}

/// A client took nothing for too long.
#[derive(Debug, thiserror::Error)]
#[error("the client took nothing of its response for too long")]
pub(super) struct Unattended;

struct Body<S> {
    /// Gone when its client is.
    stream: Option<Pin<Box<S>>>,
    /// When a piece was given, where no other was asked for since.
    given: Option<Instant>,
}

impl<S: Stream + Send + 'static> Attended<S> {
    /// Gives a client this time to take each piece.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn new(stream: S, time: Duration) -> Self {
        let body = Arc::new(Mutex::new(Body { stream: Some(Box::pin(stream)), given: None }));
        // Whoever does not take a piece does not poll either, so somebody else has to look.
        let watch = tokio::spawn(watch(Arc::downgrade(&body), time)).abort_handle();
        Self { body, watch }
    }
}

async fn watch<S>(body: Weak<Mutex<Body<S>>>, time: Duration) {
    let mut next = Instant::now() + time;
    loop {
        sleep_until(next).await;
        let Some(body) = body.upgrade() else { return };
        let mut body = lock(&body);
        let now = Instant::now();
        next = body.given.unwrap_or(now) + time;
        if next <= now {
            let gone = body.stream.take();
            drop(body);
            tracing::warn!("a client that does not read is taken to have left");
            return drop(gone);
        }
    }
}

fn lock<S>(body: &Mutex<Body<S>>) -> MutexGuard<'_, Body<S>> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Stream> Stream for Attended<S> {
    type Item = Result<S::Item, Unattended>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut body = lock(&self.body);
        body.given = None;
        let Some(stream) = body.stream.as_mut() else { return Poll::Ready(Some(Err(Unattended))) };
        let item = ready!(stream.as_mut().poll_next(cx));
        body.given = item.is_some().then(Instant::now);
        Poll::Ready(item.map(Ok))
    }
}

impl<S> Drop for Attended<S> {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl<S> fmt::Debug for Attended<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attended").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _, stream};

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    /// Says when it is dropped.
    fn numbers() -> (Attended<impl Stream<Item = u32> + Send + 'static>, Weak<()>) {
        let alive = Arc::new(());
        let dropped = Arc::downgrade(&alive);
        let numbers = stream::iter([1, 2, 3]).chain(stream::pending()).inspect(move |_| _ = &alive);
        (Attended::new(numbers, TIME), dropped)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_a_piece_in_time_gets_the_next() {
        let (mut body, alive) = numbers();
        for number in 1..=3 {
            tokio::time::sleep(TIME / 2).await;
            assert!(matches!(body.next().await, Some(Ok(got)) if got == number));
        }
        // That nothing comes is not the client's fault, for however long.
        assert!(body.next().now_or_never().is_none());
        tokio::time::sleep(10 * TIME).await;
        assert!(body.next().now_or_never().is_none());
        assert!(alive.upgrade().is_some());
        drop(body);
        assert!(alive.upgrade().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_no_piece_loses_the_rest() {
        let (mut body, alive) = numbers();
        assert!(matches!(body.next().await, Some(Ok(1))));
        tokio::time::sleep(2 * TIME).await;
        assert!(alive.upgrade().is_none(), "it is let go while nobody polls");
        assert!(matches!(body.next().await, Some(Err(Unattended))));
    }
}
