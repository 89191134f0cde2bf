//! A server that is a process of its own, and can be killed.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
};

use serde_json::{Value, json};

use crate::client::{Frame, Request, Response};

const ACME: &str = "acme-token-0123456789abcdef";
const GLOBEX: &str = "globex-token-0123456789abcdef";

/// A folder for a file of sessions, which goes with the test.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sessions-{name}"));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tokens"), format!("acme {ACME}\nglobex {GLOBEX}\n")).unwrap();
        Self(folder)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("sessions.db")
    }

    /// The program, which is not told where to keep sessions.
    pub(crate) fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(["serve", "--addr", "127.0.0.1:0", "--max-rate", "0", "--token-file"]);
        command.arg(self.0.join("tokens")).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = self.program();
        command.arg("--store").arg(self.file()).args(options);
        command
    }

    /// A server on the file, which listens.
    pub(crate) fn serve(&self, options: &[&str]) -> Process {
        Process::of(self.command(options))
    }
}

impl Process {
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("address=") {
            assert_ne!(log.read_line(&mut said).unwrap(), 0, "it listens: {said}");
        }
        let address = said.trim().rsplit_once("address=").unwrap().1.parse().unwrap();
        // Read, so that it can go on to write.
        let saying = std::thread::spawn(move || {
            log.read_to_string(&mut said).unwrap();
            said
        });
        Self { child, address, saying: Some(saying) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).ok();
        }
    }
}

/// A server that runs, or ran.
pub(crate) struct Process {
    child: Child,
    address: SocketAddr,
    saying: Option<JoinHandle<String>>,
}

impl Process {
    /// Ends it at once, as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and gives how it did and what it said.
    pub(crate) fn terminate(mut self) -> (ExitStatus, String) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        (self.child.wait().unwrap(), self.saying.take().unwrap().join().unwrap())
    }

    pub(crate) fn request(&self, method: &'static str, path: &str) -> Request {
        Request::new(self.address, method, path).header("authorization", format!("Bearer {ACME}"))
    }

    /// What another tenant is told.
    pub(crate) async fn others(&self, method: &'static str, path: &str) -> Response {
        let request = Request::new(self.address, method, path);
        request.header("authorization", format!("Bearer {GLOBEX}")).send().await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path).send().await.json().await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.request("POST", path).json(body).send().await.json().await
    }

    /// A new session's path.
    pub(crate) async fn session(&self, options: &Value) -> String {
        let (status, created) = self.post("/sessions", &json!({ "options": options })).await;
        assert_eq!(status, 201, "{created}");
        format!("/sessions/{}", created["id"].as_str().unwrap())
    }

    /// Prompts a session and gives the cursor.
    pub(crate) async fn prompt(&self, session: &str) -> String {
        let (status, accepted) =
            self.post(&format!("{session}/prompt"), &json!({ "content": "Compare them." })).await;
        assert_eq!(status, 202, "{accepted}");
        accepted["cursor"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn events(&self, session: &str, query: &str) -> Response {
        let response = self.request("GET", &format!("{session}/events{query}")).send().await;
        assert_eq!(response.status, 200, "{response:?}");
        response
    }

    /// All of a session's events that there are behind a cursor.
    pub(crate) async fn all(&self, session: &str, after: Option<&str>) -> Vec<Frame> {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        let frames = self.events(session, &format!("?follow=false{after}")).await.frames_to_end().await;
        let (last, events) = frames.split_last().unwrap();
        assert!(last.name == "end" && last.data.contains("caught_up"), "{last:?}");
        assert!(events.iter().all(|frame| frame.name == "message"), "{events:?}");
        events.to_vec()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
