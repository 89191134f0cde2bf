//! The program.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
};

use anabranch_proto::{
    EventKind, Outcome,
    grammar::{Profile, Verifier},
    native,
};
use serde_json::{Value, json};

use crate::client::{Request, prompt, reader};

fn anabranch() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let short = env::temp_dir().join(format!("anabranch-server-token-{}", std::process::id()));
    fs::write(&short, "short\n").unwrap();
    for (options, expected) in [
        (vec!["--addr", "0.0.0.0:0"], "--token-file"),
        (vec!["--addr", "[::]:0"], "--token-file"),
        (vec!["--token-file", "/does/not/exist"], "cannot read the token file /does/not/exist"),
        (vec!["--token-file", short.to_str().unwrap()], "openssl rand -hex 32"),
    ] {
        let output = anabranch().arg("serve").args(&options).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{options:?}: {said}");
        assert!(said.contains(expected), "{options:?}: {said}");
    }
    fs::remove_file(short).unwrap();
}

/// A server that is a process of its own.
#[cfg(unix)]
struct Process {
    child: Child,
    address: SocketAddr,
    /// Read, so that it can write.
    _log: BufReader<ChildStderr>,
}

#[cfg(unix)]
impl Process {
    fn serve(options: &[&str]) -> Self {
        let mut child =
            anabranch().args(["serve", "--memory", "--addr", "127.0.0.1:0"]).args(options).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it listens");
        }
        let address = line.trim().rsplit_once("address=").unwrap().1.parse().unwrap();
        Self { child, address, _log: log }
    }

    fn terminate(&self) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_demos_agents_are_served_until_sigterm() {
    let server = Process::serve(&["--quick", "--ask", "write_result"]);
    let mut reader = reader();
    for run in ["one", "two"] {
        let mut input = prompt("thread", run, "Compare them.");
        let mut questions = 0;
        let last = loop {
            let request = Request::post(input.to_string());
            let last = request.send(server.address).await.run(&mut reader).await;
            let Some(interrupts) = last["outcome"]["interrupts"].as_array() else { break last };
            questions += interrupts.len();
            let entry = |interrupt: &Value| json!({ "interruptId": interrupt["id"], "status": "resolved", "payload": { "approved": true } });
            input["resume"] = interrupts.iter().map(entry).collect();
        };
        assert_eq!(last["outcome"]["type"], "success", "{last}");
        assert_eq!(questions, 2);
    }
    assert!(reader.texts().keys().any(|(owner, _)| !owner.is_empty()));
    server.terminate();
    assert_eq!(server.ended(), Some(0));
}

#[cfg(unix)]
#[tokio::test]
async fn sigterm_lets_runs_end_for_as_long_as_it_was_told() {
    for (drain, outcome) in [("60", "success"), ("0", "cancelled")] {
        let server = Process::serve(&["--drain", drain]);
        let mut reader = reader();
        let input = prompt("thread", "run", "Compare them.").to_string();
        let mut response = Request::post(input).send(server.address).await;
        response.until("SUBAGENT_STARTED", &mut reader).await;
        server.terminate();
        assert_eq!(response.run(&mut reader).await["outcome"]["type"], outcome);
        assert_eq!(server.ended(), Some(0));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn whoever_sends_sigterm_twice_does_not_wait() {
    let server = Process::serve(&["--drain", "600"]);
    // A run whose input is waited for, so that there is something that the drain waits for.
    let mut slow = TcpStream::connect(server.address).unwrap();
    let head = "POST /ag-ui HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n";
    slow.write_all(format!("{head}expect: 100-continue\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(&slow).read_line(&mut answer).unwrap();
    assert_eq!(answer, "HTTP/1.1 100 Continue\r\n");
    server.terminate();
    let health = || Request::post("").to("GET", "/health").send(server.address);
    while health().await.status == 200 {}
    server.terminate();
    assert_eq!(server.ended(), Some(130));
}

#[cfg(unix)]
#[tokio::test]
async fn it_writes_all_events_of_a_thread_where_it_is_told() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-logs");
    fs::remove_dir_all(&folder).ok();
    let logs = folder.join("below").join("logs");
    let options = ["--quick", "--nested", "--fail", "n2", "--log-events", logs.to_str().unwrap()];
    let server = Process::serve(&options);
    for (thread, run) in [("one", "1"), ("one", "2"), ("two", "1")] {
        let input = prompt(thread, run, "Compare them.").to_string();
        let last = Request::post(input).send(server.address).await.run(&mut reader()).await;
        assert_eq!(last["outcome"]["type"], "success", "{last}");
    }
    server.terminate();
    assert_eq!(server.ended(), Some(0));

    let mut ends = Vec::new();
    for file in fs::read_dir(&logs).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let (mut reader, mut verifier) = (native::Reader::default(), Verifier::new(Profile::Native));
        let mut outcomes = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = reader.read(line).unwrap();
            assert_eq!(line.seq, Some(number), "no event is missing");
            verifier.check_numbered(number, &line.event).unwrap();
            if let EventKind::StreamComplete(complete) = &line.event.kind {
                outcomes.push(complete.outcome);
            }
        }
        verifier.finish().unwrap();
        let of = |outcome| outcomes.iter().filter(|other| **other == outcome).count();
        ends.push((of(Outcome::Completed), of(Outcome::Failed), outcomes.len()));
    }
    ends.sort_unstable();
    // The root, n1 and its child complete, n2 fails; without it there is nothing for n3 to compare.
    assert_eq!(ends, [(3, 1, 4), (6, 2, 8)]);
}

#[test]
fn a_folder_for_events_that_cannot_be_made_is_said_before_anything_is_served() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-no-folder");
    fs::write(&file, "").unwrap();
    let output = anabranch()
        .args(["serve", "--memory", "--addr", "127.0.0.1:0", "--log-events"])
        .arg(file.join("below"))
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the events cannot be written to") && !said.contains("listening"), "{said}");
}
