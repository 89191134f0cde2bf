//! One session at another server.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{Admitted, ErrorInfo, ErrorType, EventKind, Scope, SessionId, native};
use anabranch_runtime::{Heard, Instruction, Order};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::{
    body::{Answers, Created, Refused, prompt},
    frames::{Frame, Frames},
    runner::Server,
};

/// How long a request that is answered at once may take.
const ANSWER: Duration = Duration::from_secs(30);

/// For how long a stream of events may say nothing, when its keep-alive comments come every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// The first pause before something is tried again, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How much of what a server says is told.
const TOLD: usize = 500;

/// A session at another server that runs a child.
pub(super) struct Talk<'a> {
    server: &'a Server,
    /// The child's session, as it is called here.
    ours: SessionId,
    /// As it is called there.
    theirs: SessionId,
    /// Behind the last event that was read.
    cursor: String,
    reader: native::Reader,
    frames: Frames,
    /// Bytes that were read and are not yet taken.
    rest: Bytes,
    events: Option<BoxStream<'static, reqwest::Result<Bytes>>>,
    heard: Instant,
    pause: Duration,
}

/// What is tried again, and what is not.
enum Failure {
    /// The connection broke, or the server says that it cannot just now.
    Passing(String),
    Final(ErrorInfo),
    /// What was said came too late, and changes nothing.
    Late,
}

impl<'a> Talk<'a> {
    /// Begins a session for an order.
    pub(super) async fn begin(server: &'a Server, order: &Order) -> Result<Self, ErrorInfo> {
        let body = match server.options(order) {
            Some(options) => json!({ "options": options }),
            None => json!({}),
        };
        let begun = Instant::now();
        let mut pause = PAUSE;
        let created: Created = loop {
            match post(server, "sessions", &body).await {
                Ok(created) => {
                    break serde_json::from_slice(&created).map_err(|error| {
                        unusable(format!("`{server}` does not say which session it has begun: {error}"))
                    })?;
                }
                Err(Failure::Passing(_)) if begun.elapsed() + pause <= server.patience => {
                    tokio::time::sleep(pause).await;
                }
                Err(failure) => return Err(failure.told(server)),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        Ok(Self {
            server,
            ours: order.session_id.clone(),
            theirs: created.id,
            cursor: created.cursor,
            reader: native::Reader::default(),
            frames: Frames::default(),
            rest: Bytes::new(),
            events: None,
            heard: Instant::now(),
            pause: PAUSE,
        })
    }

    /// Says the prompt: once, for whether it was taken cannot be known where the connection breaks.
    pub(super) async fn prompt(&mut self, order: &Order) -> Result<(), ErrorInfo> {
        let said = post(self.server, &self.path("prompt"), &prompt(order)?).await;
        said.map(drop).map_err(|failure| failure.told(self.server))
    }

    /// Deletes the session, with all that runs in it.
    pub(super) async fn end(&mut self) -> Result<(), ErrorInfo> {
        let mut pause = PAUSE;
        loop {
            let request = self.server.request(Method::DELETE, &format!("sessions/{}", self.theirs));
            match answer(request).await {
                Ok(_) => return Ok(()),
                Err(Failure::Passing(_)) if pause < LONGEST_PAUSE => tokio::time::sleep(pause).await,
                Err(failure) => return Err(failure.told(self.server)),
            }
            pause *= 2;
        }
    }

    /// Carries an instruction.
    pub(super) async fn instruct(&mut self, instruction: &Instruction) -> Result<(), ErrorInfo> {
        let there = |session: &SessionId| {
            if *session == self.ours { self.theirs.clone() } else { session.clone() }
        };
        let mut pause = PAUSE;
        loop {
            let carried = match instruction {
                Instruction::Answer { session_id, call_id, answer } => {
                    let session = there(session_id);
                    let body = Answers::new(&session, call_id, answer)?;
                    post(self.server, &self.path("answer"), &body).await
                }
                Instruction::Stop { session_id } => {
                    let body = json!({ "session": there(session_id).as_str() });
                    post(self.server, &self.path("cancel"), &body).await
                }
                // The runner says that it carries none.
                Instruction::Message { .. } => return Ok(()),
                _ => {
                    let text = "an instruction that a server over HTTP does not know";
                    return Err(ErrorInfo::new(ErrorType::INVALID_REQUEST, text));
                }
            };
            match carried {
                Ok(_) | Err(Failure::Late) => return Ok(()),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(why)) if pause >= LONGEST_PAUSE => {
                    return Err(unreachable(self.server, &why));
                }
                Err(Failure::Passing(_)) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
    }

    /// The session's next event, and whether it is the last of its run. A connection that is lost is made anew, and the
    /// events go on behind the last that was read.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(super) async fn next(&mut self) -> Result<(Heard, bool), ErrorInfo> {
        loop {
            match self.frame().await {
                Ok(frame) => {
                    if let Some(heard) = self.take(frame)? {
                        return Ok(heard);
                    }
                }
                Err(failure @ (Failure::Final(_) | Failure::Late)) => return Err(failure.told(self.server)),
                Err(Failure::Passing(why)) => {
                    self.events = None;
                    if self.heard.elapsed() + self.pause > self.server.patience {
                        return Err(unreachable(self.server, &why));
                    }
                    tracing::debug!(server = %self.server, why, "the connection is lost; making another");
                    tokio::time::sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn frame(&mut self) -> Result<Frame, Failure> {
        loop {
            let events = if let Some(events) = &mut self.events {
                events
            } else {
                let path = format!("{}?as=native&after={}", self.path("events"), self.cursor);
                let request = self.server.request(Method::GET, &path).header("accept", "text/event-stream");
                let response = sent(request).await?;
                (self.frames, self.rest) = (Frames::default(), Bytes::new());
                self.events.insert(response.bytes_stream().boxed())
            };
            if self.rest.is_empty() {
                let silent = |_| Failure::Passing("it says nothing any more".to_owned());
                let more = tokio::time::timeout(SILENCE, events.next()).await.map_err(silent)?;
                let more = more.ok_or_else(|| Failure::Passing("it closed the connection".to_owned()))?;
                self.rest = more.map_err(|error| Failure::Passing(shown(&error)))?;
                self.heard = Instant::now();
            }
            let (frame, taken) = self
                .frames
                .next(&self.rest)
                .map_err(|error| Failure::Final(unusable(format!("`{}` sent {error}", self.server))))?;
            self.rest = self.rest.slice(taken..);
            if let Some(frame) = frame {
                return Ok(frame);
            }
        }
    }

    fn take(&mut self, frame: Frame) -> Result<Option<(Heard, bool)>, ErrorInfo> {
        let Frame { name, data, id } = frame;
        let server = self.server;
        if let Some(name) = name {
            return match &*name {
                "resync" => {
                    Err(unusable(format!("`{server}` has lost the events of the sub-agent: {}", cut(&data))))
                }
                "gap" => {
                    Err(unusable(format!("`{server}` has forgotten events of the sub-agent: {}", cut(&data))))
                }
                // A server that is being stopped may be there again soon, with the session's end.
                "end" if data.contains("\"stopping\"") => {
                    self.events = None;
                    Ok(None)
                }
                "end" => {
                    Err(unusable(format!("`{server}` ended the session of the sub-agent: {}", cut(&data))))
                }
                _ => Ok(None),
            };
        }
        let line = self.reader.read(&data);
        let line = line.map_err(|error| unusable(format!("`{server}` sent what is no event: {error}")))?;
        let seq = line.seq.ok_or_else(|| unusable(format!("`{server}` sent an event without its number")))?;
        if let Some(id) = id {
            self.cursor = id;
        }
        self.pause = PAUSE;
        let is_last =
            line.event.scope == Scope::Root && matches!(line.event.kind, EventKind::StreamComplete(_));
        Ok(Some((Admitted::new(seq, Arc::new(line.event)).into(), is_last)))
    }

    fn path(&self, what: &str) -> String {
        format!("sessions/{}/{what}", self.theirs)
    }
}

async fn post(server: &Server, path: &str, body: &impl Serialize) -> Result<Bytes, Failure> {
    answer(server.request(Method::POST, path).json(body)).await
}

/// Sends a request and reads what is answered.
async fn answer(request: RequestBuilder) -> Result<Bytes, Failure> {
    let answered = async {
        let response = sent(request).await?;
        response.bytes().await.map_err(|error| Failure::Passing(shown(&error)))
    };
    let late = |_| Failure::Passing("it does not answer".to_owned());
    tokio::time::timeout(ANSWER, answered).await.map_err(late)?
}

/// Sends a request; gives the response where it is one of success.
async fn sent(request: RequestBuilder) -> Result<Response, Failure> {
    let sent = tokio::time::timeout(ANSWER, request.send()).await;
    let response = match sent {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if error.is_builder() => {
            return Err(Failure::Final(ErrorInfo::new(ErrorType::SETUP, shown(&error))));
        }
        Ok(Err(error)) => return Err(Failure::Passing(shown(&error))),
        Err(_) => return Err(Failure::Passing("it does not answer".to_owned())),
    };
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let server = response.url().host_str().unwrap_or_default().to_owned();
    let body = response.bytes().await.unwrap_or_default();
    let (code, message) = Refused::read(&body).unwrap_or_else(|| (String::new(), status.to_string()));
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(Failure::Passing(cut(&message)));
    }
    if matches!(&*code, "not_open" | "answered" | "not_running") {
        return Err(Failure::Late);
    }
    let kind = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorType::AUTHENTICATION,
        _ => ErrorType::INVALID_REQUEST,
    };
    Err(Failure::Final(ErrorInfo::new(kind, format!("`{server}` refused ({status}): {}", cut(&message)))))
}

impl Failure {
    fn told(self, server: &Server) -> ErrorInfo {
        match self {
            Self::Passing(why) => unreachable(server, &why),
            Self::Final(error) => error,
            Self::Late => unreachable(server, "it does not know the session any more"),
        }
    }
}

fn unreachable(server: &Server, why: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorType::CONNECTION, format!("`{server}` cannot be reached: {why}"))
}

fn unusable(text: String) -> ErrorInfo {
    ErrorInfo::new(ErrorType::UPSTREAM, text)
}

/// An error with its causes, and without the address, which may have what is nobody's to read.
fn shown(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let text = causes.last().map_or_else(|| "no connection".to_owned(), ToString::to_string);
    cut(&text)
}

fn cut(text: &str) -> String {
    text.chars().take(TOLD).collect()
}
