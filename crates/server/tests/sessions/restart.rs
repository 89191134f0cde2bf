//! Servers that are killed, and the next ones on their files.

use std::{
    collections::HashMap,
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use anabranch_proto::{
    Event, EventKind, Outcome, ToolResultState,
    grammar::{Profile, Verifier},
    native,
};
use anabranch_store::{SessionQuery, StoreReader};
use serde_json::{Value, json};

use crate::{
    client::{Frame, within},
    process::{Place, Process},
};

/// What a session's frames say, which are all from the first on.
fn events(frames: &[Frame]) -> Vec<Event> {
    let (mut reader, mut verifier) = (native::Reader::default(), Verifier::new(Profile::Native));
    let mut events = Vec::new();
    for (number, frame) in (1..).zip(frames) {
        let line = reader.read(&frame.data).unwrap();
        assert_eq!(line.seq, Some(number), "no event is missing");
        verifier.check_numbered(number, &line.event).unwrap();
        events.push(line.event);
    }
    verifier.finish().unwrap();
    events
}

/// How runs ended, by the kind of their error.
fn ends(events: &[Event]) -> HashMap<(Outcome, Option<String>), usize> {
    let mut ends = HashMap::new();
    for event in events {
        if let EventKind::StreamComplete(end) = &event.kind {
            let error = end.error.as_ref().map(|error| error.error_type.as_str().to_owned());
            *ends.entry((end.outcome, error)).or_default() += 1;
        }
    }
    ends
}

fn interrupted() -> (Outcome, Option<String>) {
    (Outcome::Interrupted, Some("restart".to_owned()))
}

/// Waits until both of the demo's first sub-agents ask.
async fn questions(server: &Process, session: &str) -> Vec<Value> {
    within(async {
        loop {
            let (_, look) = server.get(session).await;
            if let Some(questions) = look["questions"].as_array().filter(|asked| asked.len() == 2) {
                break questions.clone();
            }
        }
    })
    .await
}

#[tokio::test]
async fn what_ran_when_the_server_was_killed_is_closed_once_and_goes_on() {
    let place = Place::new("killed");
    let server = place.serve(&[]);
    // One is in the middle of its sub-agents' texts, one waits for a person, one has had nothing to do.
    let [runs, asks, idle] = [
        server.session(&json!({ "nested": true })).await,
        server.session(&json!({ "quick": true, "ask": ["write_result"] })).await,
        server.session(&json!({})).await,
    ];
    server.prompt(&asks).await;
    let questions = questions(&server, &asks).await;
    server.prompt(&runs).await;
    let mut reading = server.events(&runs, "").await;
    let mut seen = reading.until("SPAWN_SESSION_START").await;
    seen.extend(reading.until("TEXT_BLOCK_DELTA").await);
    let (_, listed) = server.get("/sessions").await;
    server.kill();
    // What was on its way reached its reader.
    seen.extend(reading.frames_to_cut().await);

    // The next ones are killed while they start, wherever they are with what was left open.
    for after in [5, 10, 15, 20, 25, 30, 40, 60] {
        let mut child = place.command(&[]).stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(after)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    let server = place.serve(&[]);
    let (_, again) = server.get("/sessions").await;
    let names = |listed: &Value| {
        let of = |entry: &Value| (entry["id"].clone(), entry["created_at"].clone());
        listed["sessions"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(names(&again), names(&listed));
    assert!(again["sessions"].as_array().unwrap().iter().all(|entry| entry["state"] == "idle"), "{again}");
    for (method, path) in [("GET", runs.clone()), ("DELETE", asks.clone()), ("GET", format!("{runs}/events"))]
    {
        assert_eq!(server.others(method, &path).await.status, 404, "{method} {path}");
    }
    assert_eq!(server.others("GET", "/sessions").await.json().await.1["sessions"], json!([]));

    // Whoever was cut off goes on where it was, without a gap or a repeat.
    let cursor = seen.last().unwrap().id.clone().unwrap();
    let mut whole = seen.clone();
    whole.extend(server.all(&runs, Some(&cursor)).await);
    assert_eq!(whole, server.all(&runs, None).await);
    let closed = events(&whole);
    let running = ends(&closed);
    assert!(running.keys().all(|end| *end == interrupted()) && running[&interrupted()] > 1, "{running:?}");
    let (_, look) = server.get(&runs).await;
    let tree = look["tree"].as_array().unwrap();
    assert_eq!(tree.len(), running[&interrupted()]);
    assert!(tree.iter().all(|node| node["outcome"] == "interrupted"), "{tree:#?}");

    // The questions are denied, and each denial says that nobody did.
    let (_, look) = server.get(&asks).await;
    assert_eq!((&look["questions"], &look["state"]), (&json!([]), &json!("idle")));
    let (child, call) = (&questions[0]["session"], &questions[0]["call"]);
    let answers = json!({ "answers": [{ "session": child, "call": call, "allow": {} }] });
    let (status, refused) = server.post(&format!("{asks}/answer"), &answers).await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("not_open")), "{refused}");
    let frames = server.all(&asks, None).await;
    assert_eq!(ends(&events(&frames))[&interrupted()], 3);
    let told = frames.iter().filter(|frame| frame.data.contains("the user has not refused it"));
    assert!(
        told.clone().count() > 0 && told.clone().all(|frame| frame.data.contains("server was restarted"))
    );
    let denied = |event: &Event| matches!(&event.kind, EventKind::ToolResultEnd(end) if end.state == ToolResultState::Denied);
    assert_eq!(events(&frames).into_iter().filter(denied).count(), 2);

    // Nothing is closed a second time.
    server.kill();
    let server = place.serve(&["--quick"]);
    assert_eq!(server.all(&runs, None).await, whole);

    // The conversations go on.
    for session in [&runs, &idle] {
        let cursor = server.prompt(session).await;
        let mut reading = server.events(session, &format!("?after={cursor}")).await;
        let end = loop {
            let line = reading.frame().await.unwrap().json();
            // A child's is within another object.
            if line["type"] == "STREAM_COMPLETE" {
                break line;
            }
        };
        assert_eq!(end["outcome"], "completed", "{end}");
    }
    let after = events(&server.all(&runs, None).await);
    assert_eq!(ends(&after)[&interrupted()], running[&interrupted()]);
    assert!(ends(&after)[&(Outcome::Completed, None)] > 1);
    let (status, _) = server.terminate();
    assert!(status.success());
}

#[tokio::test]
async fn what_a_server_was_asked_for_when_it_was_stopped_is_there_with_the_next() {
    let place = Place::new("stopped");
    let server = place.serve(&["--drain", "0"]);
    let session = server.session(&json!({})).await;
    server.prompt(&session).await;
    let mut reading = server.events(&session, "").await;
    let mut seen = reading.until("SPAWN_SESSION_START").await;
    let (status, said) = server.terminate();
    assert!(status.success(), "{said}");
    seen.extend(reading.frames_to_end().await);
    assert!(seen.pop().unwrap().data.contains("stopping"));
    assert!(ends(&events(&seen)).keys().all(|(outcome, _)| *outcome == Outcome::Interrupted));
    let server = place.serve(&[]);
    assert_eq!(server.all(&session, None).await, seen);
    // A session that is deleted does not come back.
    assert_eq!(server.request("DELETE", &session).send().await.status, 204);
    let (_, said) = server.terminate();
    assert!(!said.contains("left running"), "{said}");
    let server = place.serve(&[]);
    assert_eq!(server.get(&session).await.0, 404);
    assert_eq!(server.get("/sessions").await.1["sessions"], json!([]));
}

#[tokio::test]
async fn a_thread_of_ag_ui_is_found_again() {
    let place = Place::new("thread");
    let run = async |server: &Process, run: &str, message: &str, resume: Value| {
        let input = json!({
            "threadId": "thread", "runId": run, "messages": [{ "id": message, "role": "user", "content": "Compare them." }],
            "resume": resume,
        });
        server.request("POST", "/ag-ui").json(&input).send().await
    };
    let server = place.serve(&["--quick", "--ask", "write_result"]);
    let frames = run(&server, "one", "1", Value::Null).await.frames_to_end().await;
    let asked = frames.last().unwrap().json()["outcome"]["interrupts"][0]["id"].clone();
    assert!(asked.is_string(), "{frames:?}");
    server.kill();

    // What it asked is asked no more, and it goes on with a new message.
    let server = place.serve(&["--quick"]);
    let answer = json!([{ "interruptId": asked, "status": "resolved", "payload": { "approved": true } }]);
    let (status, code) = run(&server, "two", "1", answer).await.refusal().await;
    assert_eq!((status, &*code), (409, "not_asked"));
    let frames = run(&server, "three", "2", Value::Null).await.frames_to_end().await;
    let last = frames.last().unwrap().json();
    assert_eq!((&last["runId"], &last["outcome"]["type"]), (&json!("three"), &json!("success")));
    assert!(frames.iter().all(|frame| !frame.data.contains(r#""runId":"one""#)));
    let (_, said) = server.terminate();
    assert!(said.contains("a thread goes on that was kept"), "{said}");
    let kept = StoreReader::open(place.file()).await.unwrap().roots(SessionQuery::new()).await.unwrap();
    assert_eq!(kept.len(), 1, "one session, whichever server has it: {kept:?}");
}

#[test]
fn a_file_that_cannot_be_used_is_said_before_anything_is_served() {
    let place = Place::new("unusable");
    let refused = |place: &Place, options: &[&str]| {
        let output = place.command(options).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("--store") && !said.contains("listening"), "{said}");
        said
    };
    let server = place.serve(&[]);
    let said = refused(&place, &[]);
    assert!(said.contains("another store"), "{said}");
    server.kill();
    // The lock went with the process.
    place.serve(&[]).kill();
    fs::write(place.file(), "not a database, but long enough to be looked at as one".repeat(20)).unwrap();
    for ending in ["-wal", "-shm"] {
        fs::remove_file(format!("{}{ending}", place.file().display())).ok();
    }
    refused(&place, &[]);
    fs::remove_file(place.file()).unwrap();
    fs::create_dir(place.file()).unwrap();
    refused(&place, &[]);
    fs::remove_dir(place.file()).unwrap();
    let nowhere = Place(place.0.join("nowhere"));
    let mut command = place.command(&[]);
    // The last counts.
    let output = command.arg("--store").arg(nowhere.file()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !said.contains("listening"), "{said}");
}

#[tokio::test]
async fn a_full_disk_ends_sessions_and_not_the_server_and_with_room_they_go_on() {
    let place = Place::new("full");
    let server = place.serve(&["--quick", "--max-store", "160000"]);
    let session = server.session(&json!({})).await;
    let ended = within(async {
        loop {
            let (status, body) =
                server.post(&format!("{session}/prompt"), &json!({ "content": "Compare them." })).await;
            if status != 202 && body["error"]["code"] != "too_many_prompts" {
                break (status, body["error"]["code"].clone());
            }
        }
    })
    .await;
    assert_eq!(ended, (409, json!("session_ended")));
    assert_eq!(server.get(&session).await.1["state"], "ended");
    assert_eq!(server.get("/health").await.0, 200);
    server.kill();
    let server = place.serve(&["--quick"]);
    let cursor = server.prompt(&session).await;
    let mut reading = server.events(&session, &format!("?after={cursor}")).await;
    reading.until(r#""outcome":"completed""#).await;
    drop(reading);
    assert_eq!(server.request("DELETE", &session).send().await.status, 204);
}

#[tokio::test]
async fn it_keeps_sessions_in_its_folder_or_in_memory_and_as_much_as_it_is_told() {
    let place = Place::new("folder");
    let serve = |options: &[&str]| {
        let mut command = place.program();
        command.args(options).current_dir(&place.0);
        Process::of(command)
    };
    let keep = ["--quick", "--memory", "--keep-events", "20"];
    let server = serve(&keep);
    let session = server.session(&json!({})).await;
    server.prompt(&session).await;
    let mut reading = server.events(&session, "").await;
    while reading.frame().await.unwrap().json()["type"] != "STREAM_COMPLETE" {}
    let frames = server.events(&session, "?follow=false").await.frames_to_end().await;
    assert_eq!((&*frames[0].name, frames.len()), ("gap", 22));
    server.terminate();
    assert!(!place.0.join("anabranch.db").exists());

    let server = serve(&["--quick", "--keep-bytes", "1", "--keep-for", "3600"]);
    let session = server.session(&json!({})).await;
    for _ in 0..2 {
        let cursor = server.prompt(&session).await;
        let mut reading = server.events(&session, &format!("?after={cursor}")).await;
        while reading.frame().await.unwrap().json()["type"] != "STREAM_COMPLETE" {}
    }
    within(async {
        while server.events(&session, "?follow=false").await.frames_to_end().await[0].name != "gap" {}
    })
    .await;
    server.kill();
    assert!(place.0.join("anabranch.db").exists());
    let server = serve(&[]);
    assert_eq!(server.get(&session).await.0, 200);
}

#[tokio::test]
async fn as_many_sessions_are_at_work_as_the_command_line_says() {
    let place = Place::new("open");
    // One of several tenants has a quarter.
    let several = place.command(&["--max-open", "8"]);
    let mut one = Command::new(several.get_program());
    one.args(["serve", "--addr", "127.0.0.1:0", "--max-open", "2", "--store"]).arg(place.0.join("one.db"));
    one.stdout(Stdio::null()).stderr(Stdio::piped());
    for command in [several, one] {
        let server = Process::of(command);
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(server.session(&json!({})).await);
        }
        // The demo's agents take seconds.
        server.prompt(&sessions[0]).await;
        server.prompt(&sessions[1]).await;
        let prompt = json!({ "content": "Compare them." });
        let (status, refused) = server.post(&format!("{}/prompt", sessions[2]), &prompt).await;
        assert_eq!((status, &refused["error"]["code"]), (503, &json!("full")), "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("no more than 2 sessions"), "{refused}");
    }
}
