//! Connections: how many there are, and how long a client may take to say what it wants.

use std::{
    io::{self, Write as _},
    net::Shutdown,
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::patient::Patient;
use crate::Limits;

/// How long nobody is accepted after the system could not, as where it has no file descriptor left.
const BREATH: Duration = Duration::from_millis(200);

/// The most headers that a request has.
const HEADERS: usize = 100;

/// What a client reads that comes when there are as many connections as may be.
static FULL: LazyLock<String> = LazyLock::new(|| {
    let body = "{\"error\":{\"code\":\"too_many_connections\",\"message\":\"the server has as many connections as it may \
                have; connect again later\"}}";
    let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
                connection: close\r\ncontent-length: ";
    format!("{head}{}\r\n\r\n{body}", body.len())
});

/// The connections of a server.
pub(crate) struct Connections {
    router: Router,
    http: http1::Builder,
    /// How long a client may take nothing of what there is for it.
    unread: Duration,
    room: Arc<Semaphore>,
    /// Each takes no further request, and ends when its response has.
    stopping: CancellationToken,
    /// Each ends at once.
    gone: CancellationToken,
    tasks: TaskTracker,
}

impl Connections {
    pub(crate) fn new(router: Router, limits: &Limits, stopping: CancellationToken) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(limits.header_time);
        http.max_headers(HEADERS).max_header_size(limits.headers);
        Self {
            router,
            http,
            unread: limits.unread,
            room: Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS))),
            stopping,
            gone: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Takes connections, for ever.
    ///
    /// # Cancel safety
    /// Those that were taken go on.
    pub(crate) async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match Arc::clone(&self.room).try_acquire_owned() {
                    Ok(room) => self.take(stream, room),
                    Err(_) => refuse(stream),
                },
                // Theirs, and gone.
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no connection can be taken now");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }

    /// Waits until all have ended. They do so by themselves when the server is being stopped.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn take(&self, stream: TcpStream, room: OwnedSemaphorePermit) {
        // Frames are small, and somebody waits for each.
        stream.set_nodelay(true).ok();
        let service = TowerToHyperService::new(self.router.clone());
        let stream = Patient::new(stream, self.unread);
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        let (stopping, gone) = (self.stopping.clone(), self.gone.clone());
        self.tasks.spawn(async move {
            let _room = room;
            let mut connection = std::pin::pin!(connection);
            let served = tokio::select! {
                served = &mut connection => served,
                () = gone.cancelled() => return,
                () = stopping.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! { served = connection => served, () = gone.cancelled() => return }
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a connection broke off");
            }
        });
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// Says that there is no room, as far as that can be said without waiting.
fn refuse(stream: TcpStream) {
    let Ok(mut stream) = stream.into_std() else { return };
    if stream.write_all(FULL.as_bytes()).is_ok() {
        stream.shutdown(Shutdown::Write).ok();
    }
    tracing::debug!("a connection is refused: there are as many as may be");
}

/// Whether an error is that of one connection, and the next may well be taken.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
