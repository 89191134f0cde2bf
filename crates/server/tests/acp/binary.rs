//! The binary, over a pipe.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use agent_client_protocol::{AcpAgent, AcpAgentConfig, v1::schema as s};
use anabranch_proto::{
    EventKind, Outcome, Scope, ToolResultState,
    grammar::{Profile, Verifier},
    native,
};
use serde_json::json;

use crate::{Person, TEMPORARY, new_session, prompt, talk};

/// An agent with these options, and the files that it leaves in a folder of its own.
fn binary(folder: &Path, options: &[&str]) -> AcpAgent {
    let config = AcpAgentConfig::new(env!("CARGO_BIN_EXE_anabranch")).args(["acp", "--quick"]);
    AcpAgent::new(config.args(options.iter().copied()).env("TMPDIR", folder.to_str().unwrap()))
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(TEMPORARY).join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The events in the only file of a folder, which are a well-formed stream with every number from 1; and the file's name.
fn logged(folder: &Path) -> (String, Vec<native::Line>) {
    let [path] = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect::<Vec<_>>()
        .try_into()
        .expect("one file for one session");
    let mut reader = native::Reader::default();
    let mut verifier = Verifier::new(Profile::Native);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = reader.read(line).unwrap();
        assert_eq!(line.seq, Some(number), "no event is missing");
        verifier.check_numbered(number, &line.event).unwrap();
        lines.push(line);
    }
    verifier.finish().unwrap();
    (path.file_name().unwrap().to_string_lossy().into_owned(), lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_speaks_the_protocol() {
    let folder = folder("acp-binary");
    talk(binary(&folder, &[]), true, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        for _ in 0..2 {
            let answer = cx.send_request(prompt(&session)).block_task().await?;
            assert_eq!(answer.stop_reason, s::StopReason::EndTurn);
        }
        let names: Vec<_> = seen.children().into_keys().collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_writes_all_events_of_a_session_where_it_is_told() {
    let folder = folder("acp-log");
    // Made where it is not there.
    let logs = folder.join("below").join("logs");
    let options = ["--log-events", logs.to_str().unwrap(), "--nested", "--ask", "aggregate", "--fail", "n2"];
    let id = talk(binary(&folder, &options), true, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        cx.send_request(prompt(&session)).block_task().await?;
        let [question] = &seen.questions()[..] else { panic!("n2 fails before it could ask") };
        assert_eq!(question.session_id.to_string(), seen.children()["aggregate"]);
        Ok(session)
    })
    .await;

    let (name, lines) = logged(&logs);
    assert_eq!(name, format!("{id}.jsonl"));
    let depth = |scope: &Scope| scope.child().map_or(0, |child| child.depth);
    let ends = lines.iter().filter_map(|line| match &line.event.kind {
        EventKind::StreamComplete(complete) => Some((depth(&line.event.scope), complete.outcome)),
        _ => None,
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_by_key(|(depth, outcome)| (*depth, *outcome != Outcome::Completed));
    let completed = Outcome::Completed;
    assert_eq!(ends, [(0, completed), (1, completed), (1, Outcome::Failed), (2, completed)]);
    let asked = lines.iter().find_map(|line| match &line.event.kind {
        EventKind::RequireUserConfirm(_) => Some(depth(&line.event.scope)),
        _ => None,
    });
    assert_eq!(asked, Some(2), "the grandchild asks");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_denies_a_grandchild_does_not_do() {
    let folder = folder("acp-denied");
    let logs = folder.join("logs");
    let options = ["--log-events", logs.to_str().unwrap(), "--nested", "--ask", "aggregate"];
    talk(binary(&folder, &options), false, Person::Denies, async |cx, seen| {
        let session = new_session(&cx).await?;
        cx.send_request(prompt(&session)).block_task().await?;
        assert!(
            seen.questions().iter().all(|question| question.session_id == session),
            "cards ask in the root"
        );
        Ok(())
    })
    .await;
    let denied = logged(&logs).1.into_iter().filter_map(|line| match line.event.kind {
        EventKind::ToolResultEnd(end) if end.state == ToolResultState::Denied => {
            line.event.scope.child().map(|child| child.depth)
        }
        _ => None,
    });
    let mut denied: Vec<_> = denied.collect();
    denied.sort_unstable();
    assert_eq!(denied, [1, 2]);
}

#[test]
fn a_folder_that_cannot_be_made_is_said_before_anything_is_served() {
    let file = folder("acp-no-folder").join("file");
    fs::write(&file, "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["acp", "--log-events"]).arg(file.join("below")).stdin(Stdio::null());
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("the events cannot be written to") && said.contains("below"), "{said}");
}

#[test]
fn bytes_that_are_no_text_are_answered_and_those_behind_them_served() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.arg("acp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut agent = command.spawn().unwrap();
    let mut stdin = agent.stdin.take().unwrap();
    let initialize = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    for line in [b"\xff\xfe", b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\"}".as_slice(), initialize] {
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
    }
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    let mut answer = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(answer()["error"]["code"], -32700);
    assert_eq!(answer()["error"]["code"], -32700);
    assert_eq!(answer()["result"]["protocolVersion"], 1);
    drop(stdin);
    assert!(agent.wait().unwrap().success());
}

/// SIGTERM in mid-run is as an end of stdin: what runs is stopped, the log has its ends, and nothing temporary stays.
#[cfg(unix)]
#[test]
fn a_signal_stops_what_runs_and_leaves_whole_logs() {
    let folder = folder("acp-signal");
    let logs = folder.join("logs");
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["acp", "--log-events"]).arg(&logs).env("TMPDIR", &folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = command.spawn().unwrap();
    let mut stdin = agent.stdin.take().unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    let mut line = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    let mut send = |line: serde_json::Value| writeln!(stdin, "{line}").unwrap();
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}));
    line();
    send(
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "here", "mcpServers": []}}),
    );
    let refused = line();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    send(
        json!({"jsonrpc": "2.0", "id": 3, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}),
    );
    let session = line()["result"]["sessionId"].clone();
    let prompt = json!([{"type": "text", "text": "Compare them."}]);
    send(
        json!({"jsonrpc": "2.0", "id": 4, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}}),
    );
    while line()["params"]["update"]["sessionUpdate"] != "tool_call" {}
    assert!(Command::new("kill").arg(agent.id().to_string()).status().unwrap().success());
    assert!(agent.wait().unwrap().success());
    drop(stdin);
    let (_, events) = logged(&logs);
    let EventKind::StreamComplete(end) = &events.last().unwrap().event.kind else {
        panic!("the last is the end")
    };
    assert_eq!(end.outcome, Outcome::Interrupted);
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["logs"]);
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let file = folder("acp-options").join("file");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for (options, says) in [
        (["acp", "--ask", "rm"], "possible values"),
        (["serve", "--max-body", "0"], "zero"),
        (["serve", "--max-threads", "0"], "zero"),
        (["serve", "--out", file], "choose another folder"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(options).stdin(Stdio::null());
        if options[0] == "serve" {
            command.args(["--addr", "127.0.0.1:0", "--memory"]);
        }
        let ended = command.output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && said.contains(says), "{options:?}: {said}");
    }
}
