//! A server that runs, and a client of it that speaks HTTP/1.1 by hand.

use std::{future::Future, net::SocketAddr, time::Duration};

use anabranch_server::{Limits, ServeError, Server};
use anabranch_testkit::ag_ui::{Dialect, Reader};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// Fails a test that would wait for ever.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it takes far too long")
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    pub(crate) async fn new(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(listener, async { stopped.await.unwrap_or(()) }));
        Self { address, stop, serving }
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

    /// Begins a run.
    pub(crate) async fn post(&self, input: &Value) -> Response {
        Request::post(input.to_string()).send(self.address).await
    }

    /// Begins a run that is refused, and gives the status and the error's code.
    pub(crate) async fn refused(&self, input: &Value) -> (u16, String) {
        self.post(input).await.refusal().await
    }
}

/// Bounds that let no test wait for long.
pub(crate) fn limits() -> Limits {
    Limits::default().drain(Duration::from_secs(60))
}

/// An input that prompts a thread.
pub(crate) fn prompt(thread: &str, run: &str, text: &str) -> Value {
    json!({
        "threadId": thread, "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{ "id": "message", "role": "user", "content": text }],
    })
}

/// A request.
pub(crate) struct Request {
    method: &'static str,
    path: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Request {
    /// One that begins a run.
    pub(crate) fn post(body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let length = body.len().to_string();
        let headers = vec![("host", "localhost".to_owned()), ("content-length", length)];
        Self { method: "POST", path: "/ag-ui", headers, body }.header("content-type", "application/json")
    }

    /// Another method and path.
    pub(crate) fn to(mut self, method: &'static str, path: &'static str) -> Self {
        (self.method, self.path) = (method, path);
        self
    }

    /// With a header, in place of one of this name.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self = self.without(name);
        self.headers.push((name, value.into()));
        self
    }

    /// Without a header.
    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    /// Sends it and reads the head of the response.
    pub(crate) async fn send(self, address: SocketAddr) -> Response {
        within(async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
            head.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
            stream.write_all((head + "\r\n").as_bytes()).await.unwrap();
            // A server that refuses by the head need not read the body.
            stream.write_all(&self.body).await.ok();
            Response::read_head(BufReader::new(stream)).await
        })
        .await
    }
}

/// A response whose head was read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: String,
    stream: BufReader<TcpStream>,
    /// What came of the body and was not given yet.
    text: String,
}

impl Response {
    async fn read_head(mut stream: BufReader<TcpStream>) -> Self {
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut headers).await.unwrap(), 0, "a whole head: {headers:?}");
        }
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, headers: headers.to_lowercase(), stream, text: String::new() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// Reads a chunk; gives whether there was one.
    async fn chunk(&mut self) -> bool {
        assert_eq!(self.header("transfer-encoding"), Some("chunked"));
        let mut length = String::new();
        self.stream.read_line(&mut length).await.unwrap();
        let length = usize::from_str_radix(length.trim(), 16).expect("the stream ends with a last chunk");
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).await.unwrap();
        self.text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        length > 0
    }

    /// The next frame; none at the end of the body.
    pub(crate) async fn frame(&mut self) -> Option<String> {
        assert_eq!((self.status, self.header("content-type")), (200, Some("text/event-stream")));
        within(async {
            loop {
                if let Some(end) = self.text.find("\n\n") {
                    let frame: String = self.text.drain(..end + 2).collect();
                    if frame.starts_with(':') {
                        continue;
                    }
                    return Some(
                        frame.trim_end().strip_prefix("data: ").expect("an event is data").to_owned(),
                    );
                }
                if !self.chunk().await {
                    assert_eq!(self.text, "");
                    return None;
                }
            }
        })
        .await
    }

    /// The next comment or frame, as it came.
    pub(crate) async fn raw(&mut self) -> String {
        within(async {
            while !self.text.contains("\n\n") {
                assert!(self.chunk().await, "the body goes on");
            }
            let end = self.text.find("\n\n").unwrap();
            self.text.drain(..end + 2).collect()
        })
        .await
    }

    /// Reads frames up to the first of this type.
    pub(crate) async fn until(&mut self, kind: &str, reader: &mut Reader) -> Value {
        loop {
            let frame = self.frame().await.expect("more frames");
            reader.line(&frame).unwrap();
            let frame: Value = serde_json::from_str(&frame).unwrap();
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Reads the whole run, strictly, and gives its last frame.
    pub(crate) async fn run(mut self, reader: &mut Reader) -> Value {
        let mut last = None;
        while let Some(frame) = self.frame().await {
            reader.line(&frame).unwrap();
            last = Some(frame);
        }
        reader.finish().unwrap();
        serde_json::from_str(&last.expect("at least one frame")).unwrap()
    }

    /// The status and the error's code of a refusal.
    pub(crate) async fn refusal(mut self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let mut body = String::new();
        within(self.stream.read_to_string(&mut body)).await.unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(!body["error"]["message"].as_str().unwrap().is_empty(), "{body}");
        (self.status, body["error"]["code"].as_str().unwrap().to_owned())
    }
}

/// A reader of all that a client is told of children.
pub(crate) fn reader() -> Reader {
    Reader::new(Dialect::Attributed)
}
