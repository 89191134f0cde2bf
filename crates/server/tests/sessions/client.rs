//! A server that runs, and a client of it that speaks HTTP/1.1 and server-sent events by hand.

use std::{collections::VecDeque, future::Future, net::SocketAddr, time::Duration};

use anabranch_server::{Limits, ServeError, Server};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// Fails a test that would wait for ever.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("it takes far too long")
}

/// Bounds that let no test wait for long, nor be refused for its haste.
pub(crate) fn limits() -> Limits {
    Limits::default().drain(Duration::from_secs(60)).rate(0, 0)
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    /// What each request shows.
    token: Option<String>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    pub(crate) async fn new(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(listener, async { stopped.await.unwrap_or(()) }));
        Self { address, token: None, stop, serving }
    }

    /// Shows a token from now on.
    pub(crate) fn showing(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Asks it to stop, and gives what waits for its end.
    pub(crate) fn stop(self) -> JoinHandle<Result<(), ServeError>> {
        self.stop.send(()).unwrap();
        self.serving
    }

    /// Stops it and waits for its end.
    pub(crate) async fn stopped(self) {
        within(self.stop()).await.unwrap().unwrap();
    }

    pub(crate) fn request(&self, method: &'static str, path: &str) -> Request {
        let request = Request::new(self.address, method, path);
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path).send().await.json().await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.request("POST", path).json(body).send().await.json().await
    }

    pub(crate) async fn delete(&self, path: &str) -> u16 {
        self.request("DELETE", path).send().await.status
    }

    /// A new session's path.
    pub(crate) async fn session(&self) -> String {
        let (status, created) = self.post("/sessions", &json!({})).await;
        assert_eq!(status, 201, "{created}");
        format!("/sessions/{}", created["id"].as_str().unwrap())
    }

    /// Prompts a session and gives the cursor.
    pub(crate) async fn prompt(&self, session: &str, text: &str) -> String {
        let (status, accepted) = self.post(&format!("{session}/prompt"), &json!({ "content": text })).await;
        assert_eq!(status, 202, "{accepted}");
        accepted["cursor"].as_str().unwrap().to_owned()
    }

    /// A session's events.
    pub(crate) async fn events(&self, session: &str, query: &str) -> Response {
        let response = self.request("GET", &format!("{session}/events{query}")).send().await;
        assert_eq!((response.status, response.header("content-type")), (200, Some("text/event-stream")));
        response
    }

    /// All of a session's events that there are, in a spelling.
    pub(crate) async fn all(&self, session: &str, spelling: &str, after: Option<&str>) -> Vec<Frame> {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        self.events(session, &format!("?follow=false&as={spelling}{after}")).await.frames_to_end().await
    }
}

/// A request.
#[derive(Clone)]
pub(crate) struct Request {
    address: SocketAddr,
    line: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(address: SocketAddr, method: &'static str, path: &str) -> Self {
        let headers = vec![("host", "localhost".to_owned())];
        Self { address, line: format!("{method} {path} HTTP/1.1"), headers, body: Vec::new() }
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    /// A body of JSON, or of what should be.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        let length = self.body.len().to_string();
        self.header("content-type", "application/json").header("content-length", length)
    }

    /// With a header, in place of one of this name.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Sends it and reads the head of the response.
    pub(crate) async fn send(self) -> Response {
        within(async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let mut head = self.line + "\r\nconnection: close\r\n";
            head.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
            stream.write_all((head + "\r\n").as_bytes()).await.unwrap();
            // A server that refuses by the head need not read the body.
            stream.write_all(&self.body).await.ok();
            Response::read_head(BufReader::new(stream)).await
        })
        .await
    }
}

/// A server-sent event, as a client dispatches it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// `message` where it has no name.
    pub(crate) name: String,
    pub(crate) data: String,
    /// The id that it has itself; a client keeps the last.
    pub(crate) id: Option<String>,
}

impl Frame {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A response whose head was read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: String,
    stream: BufReader<TcpStream>,
    /// What came of the body and was not given yet.
    text: Vec<u8>,
    frames: VecDeque<Frame>,
    /// Comments that came.
    pub(crate) comments: usize,
    has_ended: bool,
}

impl Response {
    pub(crate) async fn read_head(mut stream: BufReader<TcpStream>) -> Self {
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut headers).await.unwrap(), 0, "a whole head: {headers:?}");
        }
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            headers,
            stream,
            text: Vec::new(),
            frames: VecDeque::new(),
            comments: 0,
            has_ended: false,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Reads a chunk; gives whether there was one.
    async fn chunk(&mut self) -> bool {
        self.chunk_or_cut().await.expect("the stream ends with a last chunk")
    }

    /// Reads a chunk; gives whether there was one, or nothing where the connection is cut.
    async fn chunk_or_cut(&mut self) -> Option<bool> {
        assert_eq!(self.header("transfer-encoding"), Some("chunked"));
        let mut length = String::new();
        self.stream.read_line(&mut length).await.ok()?;
        let length = usize::from_str_radix(length.strip_suffix("\r\n")?, 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(length);
        self.text.extend_from_slice(&chunk);
        Some(length > 0)
    }

    /// All that arrived before the connection was cut.
    #[cfg(unix)]
    pub(crate) async fn frames_to_cut(mut self) -> Vec<Frame> {
        within(async { while self.chunk_or_cut().await == Some(true) {} }).await;
        self.parse();
        self.frames.into()
    }

    /// The next frame; none at the end of the body.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        within(async {
            loop {
                if let Some(frame) = self.frames.pop_front() {
                    return Some(frame);
                }
                if self.has_ended {
                    assert!(self.text.is_empty(), "a whole frame");
                    return None;
                }
                self.has_ended = !self.chunk().await;
                self.parse();
            }
        })
        .await
    }

    /// Reads on to the next comment.
    pub(crate) async fn comment(&mut self) {
        within(async {
            let before = self.comments;
            while self.comments == before {
                assert!(self.chunk().await, "the stream goes on");
                self.parse();
            }
        })
        .await;
    }

    /// Takes the frames that are whole, as the standard has it.
    fn parse(&mut self) {
        let mut at = 0;
        while let Some(length) = self.text[at..].windows(2).position(|two| two == b"\n\n") {
            let text = std::str::from_utf8(&self.text[at..at + length]).unwrap();
            let mut frame = Frame { name: "message".to_owned(), data: String::new(), id: None };
            let mut lines = 0;
            for line in text.split('\n') {
                let (field, value) = line.split_once(": ").unwrap_or((line, ""));
                match field {
                    "" => self.comments += 1,
                    "event" => value.clone_into(&mut frame.name),
                    "data" => {
                        lines += 1;
                        value.clone_into(&mut frame.data);
                    }
                    "id" => frame.id = Some(value.to_owned()),
                    other => panic!("a line of another kind: {other:?} in {text:?}"),
                }
            }
            if lines > 0 {
                assert_eq!(lines, 1, "one line of data: {text:?}");
                self.frames.push_back(frame);
            }
            at += length + 2;
        }
        self.text.drain(..at);
    }

    /// All frames to the end of the body.
    pub(crate) async fn frames_to_end(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame().await {
            frames.push(frame);
        }
        frames
    }

    /// Frames up to the first whose data has this text.
    pub(crate) async fn until(&mut self, text: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame = self.frame().await.unwrap_or_else(|| panic!("no {text} in {frames:?}"));
            let is_last = frame.data.contains(text);
            frames.push(frame);
            if is_last {
                return frames;
            }
        }
    }

    /// The body to its end.
    pub(crate) async fn body(mut self) -> String {
        let mut body = String::new();
        if self.header("transfer-encoding").is_some() {
            while self.chunk().await {}
            return String::from_utf8(self.text).unwrap();
        }
        within(self.stream.read_to_string(&mut body)).await.unwrap();
        body
    }

    /// The status and the body, which is JSON.
    pub(crate) async fn json(self) -> (u16, Value) {
        let status = self.status;
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        (status, serde_json::from_str(&self.body().await).unwrap())
    }

    /// The status and the error's code of a refusal.
    pub(crate) async fn refusal(self) -> (u16, String) {
        let (status, body) = self.json().await;
        assert!(!body["error"]["message"].as_str().unwrap().is_empty(), "{body}");
        (status, body["error"]["code"].as_str().unwrap().to_owned())
    }
}
