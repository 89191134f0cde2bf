//! Ten thousand who read and do nothing else. This process is the client: each side has file descriptors of its own.

#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// How many read, where the system lets both sides have the file descriptors.
const READERS: usize = 10_000;

/// How many come at once.
const WARM: usize = 100;

/// What each side needs beside them.
const BESIDE: u64 = 200;

/// How much a reader may take, in bytes: the buffers of its connection and what it reads ahead.
const MOST_BYTES: usize = 32 * 1024;

/// No test waits for ever.
const LONG: Duration = Duration::from_secs(120);

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn new() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(["serve", "--addr", "127.0.0.1:0", "--quick", "--max-rate", "0", "--memory"]);
        command.args(["--max-readers", "20000", "--max-connections", "20000"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it listens");
        }
        let address = line.trim().rsplit_once("address=").unwrap().1.to_owned();
        // So that it can go on to write.
        std::thread::spawn(move || log.lines().for_each(drop));
        Self { child, address }
    }

    /// How many bytes of memory it has.
    fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// A new session's path.
    async fn session(&self) -> String {
        let (_, created) = self.send("POST", "/sessions", "{}").await;
        let created = String::from_utf8(created).unwrap();
        let created: Value = serde_json::from_str(created.split_once("\r\n\r\n").unwrap().1).unwrap();
        format!("/sessions/{}", created["id"].as_str().unwrap())
    }

    /// A request's connection, behind the head of its response.
    async fn send(&self, method: &str, path: &str, body: &str) -> (TcpStream, Vec<u8>) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut said = vec![0; 1024];
        let length = timeout(LONG, stream.read(&mut said)).await.expect("it answers").unwrap();
        said.truncate(length);
        assert!(said.starts_with(b"HTTP/1.1 20"), "{}", String::from_utf8_lossy(&said));
        (stream, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test]
async fn ten_thousand_idle_readers_take_little_and_harm_nobody() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(BESIDE);
    let count = READERS.min(usize::try_from(most).unwrap_or(usize::MAX));
    if count < READERS {
        println!("the system lets a process have file descriptors for {count} readers, not for {READERS}");
    }
    assert!(count >= 500, "so few readers prove nothing; raise the limit of file descriptors (ulimit -n)");

    let server = Server::new();
    let session = server.session().await;
    let events = format!("{session}/events");
    // What the first few take is not each reader's.
    let mut readers = join_all((0..WARM).map(|_| server.send("GET", &events, ""))).await;
    let before = server.memory();
    while readers.len() < count {
        let some = (0..WARM.min(count - readers.len())).map(|_| server.send("GET", &events, ""));
        readers.extend(join_all(some).await);
    }
    let each = server.memory().saturating_sub(before) / (count - WARM);
    println!("{count} idle readers: {each} bytes each, {} MiB in all", (each * count) >> 20);
    assert!(each < MOST_BYTES, "{each} bytes for each reader");

    // Another session is served as ever.
    let path = server.session().await;
    server.send("POST", &format!("{path}/prompt"), r#"{"content":"Compare them."}"#).await;
    let mut reading = server.send("GET", &format!("{path}/events"), "").await;
    read_to(&mut reading, r#""type":"REPLY_END""#).await;

    // The readers are still there, and each is told of the end; then nothing is left of them.
    server.send("DELETE", &session, "").await;
    for reader in &mut readers {
        read_to(reader, r#"{"type":"end","reason":"ended"}"#).await;
    }
    drop(readers);
    server.send("GET", "/health", "").await;
    println!("they have left: {} MiB", server.memory() >> 20);
}

/// Reads on until something is said.
async fn read_to((stream, said): &mut (TcpStream, Vec<u8>), text: &str) {
    while !said.windows(text.len()).any(|some| some == text.as_bytes()) {
        let mut piece = [0; 4 * 1024];
        let length = timeout(LONG, stream.read(&mut piece)).await.expect("it is said").unwrap();
        assert_ne!(length, 0, "it goes on: {}", String::from_utf8_lossy(said));
        said.extend_from_slice(&piece[..length]);
    }
}
