//! Connections whose clients take nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A connection that breaks off when its client takes nothing of what is written for too long.
///
/// What is written waits in the system's buffers first; nothing is known of these.
#[derive(Debug)]
pub(super) struct Patient<S> {
    connection: S,
    patience: Duration,
    /// Where something waits to be written: until when.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(connection: S, patience: Duration) -> Self {
        Self { connection, patience, until: None }
    }

    /// Gives on what became of writing, and waits no longer than that may take.
    fn bounded<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let patience = self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(until.as_mut().poll(cx));
        tracing::info!("a client that takes nothing is taken to have left");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing of its response")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.connection).poll_write(cx, bytes);
        this.bounded(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.connection).poll_write_vectored(cx, pieces);
        this.bounded(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.connection).poll_flush(cx);
        this.bounded(flushed, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.connection).poll_shutdown(cx);
        this.bounded(shut, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_something_in_time_is_waited_for() {
        let (client, mut other) = duplex(4);
        let mut connection = Patient::new(client, PATIENCE);
        let writing = tokio::spawn(async move { connection.write_all(b"0123456789abcdef").await });
        for _ in 0..4 {
            tokio::time::sleep(PATIENCE / 2).await;
            let mut piece = [0; 4];
            other.read_exact(&mut piece).await.unwrap();
        }
        assert!(writing.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_nothing_is_not() {
        let (client, _other) = duplex(4);
        let mut connection = Patient::new(client, PATIENCE);
        connection.write_all(b"0123").await.unwrap();
        // That there is nothing to take is nobody's fault.
        tokio::time::sleep(10 * PATIENCE).await;
        let error = connection.write_all(b"4").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
