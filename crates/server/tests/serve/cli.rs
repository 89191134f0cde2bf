//! The program.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
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

#[cfg(unix)]
#[tokio::test]
async fn the_demos_agents_are_served_until_sigterm() {
    let mut child =
        anabranch().args(["serve", "--addr", "127.0.0.1:0", "--ask", "write_result"]).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it listens");
    }
    let address = line.trim().rsplit_once("address=").unwrap().1.parse().unwrap();
    let mut reader = reader();
    for run in ["one", "two"] {
        let mut input = prompt("thread", run, "Compare them.");
        let mut questions = 0;
        let last = loop {
            let last = Request::post(input.to_string()).send(address).await.run(&mut reader).await;
            let Some(interrupts) = last["outcome"]["interrupts"].as_array() else { break last };
            questions += interrupts.len();
            let entry = |interrupt: &Value| json!({ "interruptId": interrupt["id"], "status": "resolved", "payload": { "approved": true } });
            input["resume"] = interrupts.iter().map(entry).collect();
        };
        assert_eq!(last["outcome"]["type"], "success", "{last}");
        assert_eq!(questions, 2);
    }
    assert!(reader.texts().keys().any(|(owner, _)| !owner.is_empty()));
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
