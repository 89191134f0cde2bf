//! Tokens are seen nowhere but where they are shown: not in what the program says, answers or keeps.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Command, Stdio},
};

use serde_json::json;

use crate::client::{Request, Response};

const GOOD: &str = "good-token-0123456789abcdef";
const OTHER: &str = "other-token-0123456789abcdef";
const WRONG: &str = "wrong-token-0123456789abcdef";

#[tokio::test]
async fn no_token_is_said_logged_or_kept() {
    let folder = env::temp_dir().join(format!("anabranch-server-secrets-{}", std::process::id()));
    let (tokens, logs) = (folder.join("tokens"), folder.join("logs"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(&tokens, format!("# who may come in\nacme {GOOD}\nglobex\t{OTHER}\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["serve", "--quick", "--log", "trace", "--addr", "127.0.0.1:0"]);
    command.arg("--token-file").arg(&tokens).arg("--log-events").arg(&logs);
    command.arg("--store").arg(folder.join("sessions.db"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, said) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut said = BufReader::new(said);
    let mut text = String::new();
    while !text.contains("address=") {
        assert_ne!(said.read_line(&mut text).unwrap(), 0, "it listens");
    }
    let address = text.trim().rsplit_once("address=").unwrap().1.parse().unwrap();
    // Read, so that it can go on to write.
    let saying = std::thread::spawn(move || {
        said.read_to_string(&mut text).unwrap();
        out.read_to_string(&mut text).unwrap();
        text
    });

    let showing = |token: &str, method: &'static str, path: &str| {
        Request::new(address, method, path).header("authorization", format!("Bearer {token}"))
    };
    let (_, created) = showing(GOOD, "POST", "/sessions").json(&json!({})).send().await.json().await;
    let session = format!("/sessions/{}", created["id"].as_str().unwrap());
    let prompt = json!({ "content": "Compare them.", "metadata": { "tenant": "acme" } });
    let mut requests = vec![
        showing(GOOD, "POST", &format!("{session}/prompt")).json(&prompt),
        showing(GOOD, "POST", &format!("{session}/prompt")).body("{\"content\":"),
        showing(GOOD, "POST", "/sessions").json(&json!({ "options": { "unknown": 1 } })),
        showing(GOOD, "GET", "/sessions"),
        showing(GOOD, "GET", &session),
        showing(GOOD, "GET", "/nowhere"),
        showing(GOOD, "PUT", "/sessions"),
        showing(GOOD, "GET", "/openapi.json"),
        showing(OTHER, "GET", &session),
        showing(OTHER, "DELETE", &session),
        showing(GOOD, "GET", "/sessions").header("x-long", "x".repeat(100_000)),
    ];
    for path in ["/sessions", &session, "/ag-ui", "/health", "/nowhere"] {
        requests.push(showing(WRONG, "GET", path));
        requests.push(Request::new(address, "GET", path).header("authorization", GOOD));
        requests.push(Request::new(address, "GET", path).header("authorization", format!("Basic {GOOD}")));
        requests.push(
            Request::new(address, "GET", path).header("authorization", format!("Bearer {GOOD} {OTHER}")),
        );
    }
    let mut bodies = Vec::new();
    for request in requests {
        let response: Response = request.send().await;
        bodies.push(response.headers.clone() + &response.body().await);
    }
    let mut events = showing(GOOD, "GET", &format!("{session}/events")).send().await;
    bodies.extend(events.until(r#""type":"REPLY_END""#).await.into_iter().map(|frame| frame.data));
    assert_eq!(showing(GOOD, "DELETE", &session).send().await.status, 204);
    bodies.extend(events.frames_to_end().await.into_iter().map(|frame| frame.data));
    assert!(bodies.len() > 100, "{} bodies and frames", bodies.len());

    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut texts = bodies;
    let said = saying.join().unwrap();
    assert!(said.contains("a session begins") && said.contains("refused"), "{said}");
    texts.push(said);
    let kept = fs::read_dir(&logs).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let kept: Vec<_> = kept.collect();
    assert_eq!(kept.len(), 1);
    texts.extend(kept);
    // As bytes, whatever they are.
    let file = fs::read(folder.join("sessions.db")).unwrap();
    assert!(file.len() > 10_000);
    texts.push(String::from_utf8_lossy(&file).into_owned());
    for text in &texts {
        for token in [GOOD, OTHER, WRONG] {
            assert!(!text.contains(token), "{token} is in {text}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}
