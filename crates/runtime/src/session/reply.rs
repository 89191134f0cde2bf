//! The stream of one reply.

use std::{
    fmt,
    future::Future as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_proto::{Artifact, EventKind, Scope, SessionId, ToolCallId};
use futures::{Stream, StreamExt, stream::FusedStream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    Read, Reader,
    driver::{Command, RunEnd, Started},
    handle::Core,
    window::Window,
};
use crate::{
    Prompt, RunResult, SessionError,
    question::{Answer, AnswerError},
};

/// Stream of one reply: every event of the session from the prompt to the run's terminal, then its end.
///
/// Holds producers back while it is behind by more than the session's window, for at most its stall limit.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the reply cancels nothing, unless it is told to by
/// [`cancel_on_drop`](Self::cancel_on_drop), as that of [`Agent::reply_stream`](crate::Agent::reply_stream) is.
#[must_use = "streams do nothing unless polled"]
pub struct Reply {
    core: Arc<Core>,
    cancel: CancellationToken,
    cancels_on_drop: bool,
    state: State,
    /// Why the reply ended before its run did.
    error: Option<SessionError>,
}

enum State {
    /// The run waits for its turn.
    Waiting {
        started: oneshot::Receiver<Started>,
        window: Arc<Window>,
    },
    Reading {
        reader: Reader,
        run: Arc<RunEnd>,
    },
    Ended,
}

impl Reply {
    pub(super) fn new(core: &Arc<Core>, prompt: Prompt, cancel: CancellationToken) -> (Self, Command) {
        let window = Window::new(core.limits.reader_window);
        let (started, receiver) = oneshot::channel();
        let command =
            Command { prompt, cancel: cancel.clone(), window: Arc::clone(&window), started, room: None };
        let state = State::Waiting { started: receiver, window };
        (Self { core: Arc::clone(core), cancel, cancels_on_drop: false, state, error: None }, command)
    }

    /// The session that replies.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.core.id
    }

    /// Stops the run, or will do so when its turn comes. Its events go on to its terminal.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Answers a question about a call of the session or of any below it, as [`Session::answer`](crate::Session::answer)
    /// does.
    ///
    /// # Errors
    /// When no such question is open, when it was answered before, or when the answer does not fit. Nothing changes then.
    pub fn answer(&self, session: &SessionId, call: &ToolCallId, answer: Answer) -> Result<(), AnswerError> {
        self.core.questions.answer(session, call, answer)
    }

    /// Stops the run when the reply is dropped.
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancels_on_drop = true;
        self
    }

    /// Reads to the end and says what the run came to.
    ///
    /// # Errors
    /// When the session ended before the run did, or the log cannot be read or was told to forget the run's end.
    ///
    /// # Cancel safety
    /// Dropping the future drops the reply.
    pub async fn finished(mut self) -> Result<RunResult, SessionError> {
        let mut files = Vec::new();
        while let Some(read) = self.next().await {
            let Read::Event(admitted) = read else { continue };
            if admitted.event.scope != Scope::Root {
                continue;
            }
            if let EventKind::ToolResultEnd(end) = &admitted.event.kind {
                let made = end.response.get("files").and_then(|files| files.to::<Vec<Artifact>>().ok());
                files.extend(made.unwrap_or_default());
            } else if let EventKind::StreamComplete(complete) = &admitted.event.kind {
                let mut run = RunResult::new(complete.outcome);
                run.error.clone_from(&complete.error);
                run.message.clone_from(&complete.message);
                run.files = files;
                return Ok(run);
            }
        }
        Err(self.error.take().unwrap_or(SessionError::Forgotten))
    }
}

impl Stream for Reply {
    type Item = Read;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        loop {
            match &mut self.state {
                State::Waiting { started, window } => {
                    let started = std::task::ready!(Pin::new(started).poll(cx));
                    let window = Arc::clone(window);
                    self.state = if let Ok(Started { after, run }) = started {
                        State::Reading { reader: Reader::new(&self.core, after).with_window(window), run }
                    } else {
                        // The session ended before the run's turn came.
                        self.error = Some(self.core.error());
                        State::Ended
                    };
                }
                State::Reading { reader, run } => {
                    if run.get().is_some_and(|end| reader.cursor() >= end) {
                        self.state = State::Ended;
                        continue;
                    }
                    let read = std::task::ready!(reader.poll_batch(cx));
                    if read.is_none() {
                        self.error = Some(reader.error().cloned().unwrap_or(SessionError::Ended));
                    }
                    if read.as_ref().is_none_or(is_terminal) {
                        self.state = State::Ended;
                    }
                    return Poll::Ready(read);
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.is_terminated().then_some(0))
    }
}

/// Whether it is the terminal of the root's run.
fn is_terminal(read: &Read) -> bool {
    match read {
        Read::Event(admitted) => {
            admitted.event.scope == Scope::Root && matches!(admitted.event.kind, EventKind::StreamComplete(_))
        }
        Read::Gap { .. } => false,
    }
}

impl FusedStream for Reply {
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Ended)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let State::Waiting { window, .. } = &self.state {
            window.open();
        }
        if self.cancels_on_drop {
            self.cancel.cancel();
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("session_id", &self.core.id).finish_non_exhaustive()
    }
}
