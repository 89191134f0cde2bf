//! What somebody may try who means no good, and that it does no harm.

use std::time::Duration;

use anabranch_server::{Tenant, Token, Tokens};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    agents::Seen,
    client::{Request, Running, limits, within},
};

const ALICE: &str = "alices-token-0123456789";
const MALLORY: &str = "mallorys-token-0123456789";

async fn two_tenants(seen: &Seen) -> Running {
    let tokens = [("alice", ALICE), ("mallory", MALLORY)]
        .map(|(tenant, token)| (Tenant::new(tenant).unwrap(), Token::new(token).unwrap()));
    Running::new(seen.server().tokens(Tokens::new(tokens).unwrap())).await.showing(ALICE)
}

fn as_mallory(request: Request) -> Request {
    request.header("authorization", format!("Bearer {MALLORY}"))
}

#[tokio::test]
async fn somebody_elses_session_is_as_one_that_never_was() {
    let seen = Seen::new();
    let server = two_tenants(&seen).await;
    let session = server.session().await;
    server.prompt(&session, "write").await;
    server.events(&session, "").await.until("REQUIRE_USER_CONFIRM").await;
    let (_, before) = server.get(&session).await;
    let question = &before["questions"][0];
    let allow =
        json!({ "answers": [{ "session": question["session"], "call": question["call"], "allow": {} }] });
    let unknown = "/sessions/ses_01JDXA0000000000000000000A";
    for (method, rest, body) in [
        ("GET", "", None),
        ("GET", "/events", None),
        ("GET", "/events?follow=false&after=a-1", None),
        ("GET", "/events?as=nonsense", None),
        ("POST", "/prompt", Some(json!({ "content": "Tell me." }))),
        ("POST", "/prompt", Some(json!({ "nonsense": 1 }))),
        ("POST", "/answer", Some(allow)),
        ("POST", "/cancel", Some(json!({}))),
        ("POST", "/cancel", None),
        ("DELETE", "", None),
    ] {
        let mut answers = Vec::new();
        for session in [&*session, unknown] {
            let request = as_mallory(server.request(method, &format!("{session}{rest}")));
            let request = body.as_ref().map_or(request.clone(), |body| request.json(body));
            let response = request.send().await;
            let headers = response.headers.clone();
            answers.push((headers, response.json().await));
        }
        let [theirs, nobodys] = &answers[..] else { panic!("two answers") };
        assert_eq!(
            (theirs.1.0, &theirs.1.1["error"]["code"]),
            (404, &json!("no_such_session")),
            "{method} {rest}"
        );
        // Byte for byte, but for the date.
        assert_eq!(theirs.1, nobodys.1, "{method} {rest}");
        let plain = |headers: &str| {
            headers.lines().filter(|line| !line.starts_with("date:")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(plain(&theirs.0), plain(&nobodys.0), "{method} {rest}");
    }
    let listed = as_mallory(server.request("GET", "/sessions")).send().await.json().await;
    assert_eq!(listed, (200, json!({ "sessions": [], "next": null })));
    // Nor as a place in a list.
    let id = before["id"].as_str().unwrap();
    let listed =
        as_mallory(server.request("GET", &format!("/sessions?after={id}"))).send().await.json().await;
    assert_eq!(listed, (200, json!({ "sessions": [], "next": null })));
    assert_eq!(server.get(&session).await.1, before, "nothing has changed");
    assert_eq!(*seen.written.lock().unwrap(), 0);
    assert_eq!(server.delete(&session).await, 204);
    server.stopped().await;
}

#[tokio::test]
async fn threads_of_the_same_name_are_each_tenants_own() {
    let seen = Seen::new();
    let server = two_tenants(&seen).await;
    let input = |resume: &Value| {
        let said = json!([{ "id": "message", "role": "user", "content": "write" }]);
        let messages = if resume.is_null() { said } else { json!([]) };
        json!({ "threadId": "thread", "runId": "run", "resume": resume, "messages": messages })
    };
    let asked = server.request("POST", "/ag-ui").json(&input(&json!(null))).send().await;
    let asked = asked.frames_to_end().await.last().unwrap().json();
    let interrupt = &asked["outcome"]["interrupts"][0]["id"];
    assert!(interrupt.is_string(), "{asked}");
    let resume = json!([{ "interruptId": interrupt, "status": "resolved", "payload": { "approved": true } }]);
    let stolen = as_mallory(server.request("POST", "/ag-ui").json(&input(&resume))).send().await;
    assert_eq!(stolen.refusal().await, (409, "not_asked".to_owned()));
    assert_eq!(*seen.written.lock().unwrap(), 0);
    let answered = server.request("POST", "/ag-ui").json(&input(&resume)).send().await;
    answered.frames_to_end().await;
    assert_eq!(*seen.written.lock().unwrap(), 1);
    server.stopped().await;
}

#[tokio::test]
async fn tricks_in_ids_lead_nowhere() {
    let server = Running::new(Seen::new().server()).await;
    let session = server.session().await;
    let id = session.strip_prefix("/sessions/").unwrap();
    let long = "a".repeat(5_000);
    for trick in [
        "..",
        "%2e%2e",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "..%5c..%5cwindows",
        "%00",
        "%0a",
        "%0d%0aset-cookie:%20a=b",
        "%ff%fe",
        "%",
        "%zz",
        "%20",
        "*",
        "null",
        "-1",
        "0",
        "%c3%a4",
        "ses_%2a",
        "';drop%20table%20sessions;--",
        "%3cscript%3e",
        &format!("{id}%00"),
        &format!("{id}%2f"),
        &format!("{id}%20"),
        &format!("%20{id}"),
        &format!(".%2f{id}"),
        &id.to_lowercase(),
        &long,
    ] {
        for (method, rest) in
            [("GET", ""), ("GET", "/events"), ("DELETE", ""), ("POST", "/prompt"), ("POST", "/cancel")]
        {
            let request = server.request(method, &format!("/sessions/{trick}{rest}"));
            let request = if method == "POST" { request.json(&json!({ "content": "a" })) } else { request };
            let response = request.send().await;
            assert!(!response.headers.contains("set-cookie"));
            let (status, body) = response.json().await;
            assert_eq!((status, &body["error"]["code"]), (404, &json!("no_such_session")), "{trick} {rest}");
            let text = body.to_string();
            assert!(!text.contains("passwd") && !text.contains("script"), "nothing is repeated: {text}");
        }
    }
    // What no path may have is refused before anything looks at it.
    for path in ["/sessions/<script>", "/sessions/\u{1b}[2J", "/sessions/a b"] {
        let response = server.request("GET", path).send().await;
        assert_eq!((response.status, response.header("content-length")), (400, Some("0")), "{path}");
    }
    // The session itself is where it was.
    assert_eq!(server.get(&session).await.0, 200);
    server.stopped().await;
}

#[tokio::test]
async fn a_gibibyte_is_not_read() {
    const GIBIBYTE: usize = 1 << 30;
    let server = Running::new(Seen::new().server()).await;
    let session = server.session().await;
    // Announced, it is refused before any of it.
    let request = server.request("POST", &format!("{session}/prompt")).body("{");
    let refused = request.header("content-length", GIBIBYTE.to_string()).send().await;
    assert_eq!(refused.refusal().await, (413, "too_large".to_owned()));

    // Unannounced, it is read up to the bound.
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (read, mut write) = stream.into_split();
    let head = format!(
        "POST {session}/prompt HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: \
         chunked\r\n\r\n"
    );
    write.write_all(head.as_bytes()).await.unwrap();
    let chunk =
        [format!("{:x}\r\n", 64 * 1024).into_bytes(), vec![b' '; 64 * 1024], b"\r\n".to_vec()].concat();
    let mut written = 0;
    let writing = async {
        while written < GIBIBYTE && write.write_all(&chunk).await.is_ok() {
            written += 64 * 1024;
        }
    };
    let mut answer = Vec::new();
    let reading = async {
        // Closed with the rest unread, which may reset it.
        let mut piece = vec![0; 4096];
        let mut read = read;
        while let Ok(count @ 1..) = read.read(&mut piece).await {
            answer.extend_from_slice(&piece[..count]);
        }
    };
    within(async { tokio::join!(writing, reading) }).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
    assert!(written < 64 << 20, "{written} bytes were taken, most of them by the sockets");
    assert_eq!(server.get(&session).await.1["prompts"], 0);
    server.stopped().await;
}

/// Reads what comes to the end, however that comes.
async fn to_end(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    within(async {
        let mut piece = vec![0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut piece).await {
            text.extend_from_slice(&piece[..count]);
        }
    })
    .await;
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn who_says_what_it_wants_byte_by_byte_is_not_waited_for() {
    let quick = limits().header_time(Duration::from_millis(300)).body_time(Duration::from_millis(300));
    let server = Running::new(Seen::new().server().limits(quick)).await;
    let session = server.session().await;
    // Heads that are never whole, and one that never begins: those who hold them are gone, and only they.
    let reader = server.events(&session, "").await;
    let mut held = Vec::new();
    for head in ["", "G", "GET /sessions HTTP/1.1\r\n", "GET /sessions HTTP/1.1\r\nhost: localhost\r\nx: "] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let drip = tokio::spawn({
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        async move {
            let mut bytes = 0;
            for byte in
                b"GET /sessions HTTP/1.1\r\nhost: localhost\r\nx: ".iter().chain(std::iter::repeat(&b'a'))
            {
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
                bytes += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            bytes
        }
    });
    for stream in held {
        let said = to_end(stream).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    }
    assert!(within(drip).await.unwrap() > 1);
    // A connection that was of use is not kept for ever either.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(to_end(stream).await.starts_with("HTTP/1.1 200"));
    // Bodies too.
    let request =
        server.request("POST", &format!("{session}/prompt")).body("{").header("content-length", "100");
    assert_eq!(request.send().await.refusal().await, (408, "too_slow".to_owned()));
    // A reader is served for longer than any head may take.
    server.prompt(&session, "snow").await;
    { reader }.until("All are done.").await;
    server.stopped().await;
}

#[tokio::test]
async fn who_reads_nothing_of_what_there_is_loses_its_place() {
    let impatient = limits().readers(1).unread(Duration::from_millis(300));
    let server = Running::new(Seen::new().server().limits(impatient)).await;
    let session = server.session().await;
    let events = format!("{session}/events");
    let reader = server.events(&session, "").await;
    let second = server.request("GET", &events);
    assert_eq!(second.clone().send().await.refusal().await, (429, "too_many_readers".to_owned()));
    // More than the system's buffers take.
    for _ in 0..8 {
        server.prompt(&session, &format!("say {}", "x".repeat(1_000_000))).await;
    }
    within(async { while second.clone().send().await.status != 200 {} }).await;
    drop(reader);
    server.stopped().await;
}

#[tokio::test]
async fn heads_have_a_bound() {
    let server = Running::new(Seen::new().server().limits(limits().headers(8 * 1024))).await;
    for (path, header) in [
        ("/sessions".to_owned(), "x".repeat(9 * 1024)),
        (format!("/sessions?after={}", "x".repeat(9 * 1024)), String::new()),
        (format!("/sessions/{}", "x".repeat(100 * 1024)), String::new()),
    ] {
        let response = server.request("GET", &path).header("x-long", header).send().await;
        assert!([414, 431].contains(&response.status), "{}", response.status);
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let many = "a: b\r\n".repeat(101);
    stream.write_all(format!("GET /health HTTP/1.1\r\n{many}\r\n").as_bytes()).await.unwrap();
    assert!(to_end(stream).await.starts_with("HTTP/1.1 431"));
    // Two bodies in one request, and other requests that proxies and servers may read differently.
    for head in [
        "POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        "POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        "GET /sessions HTTP/1.1\r\nhost : localhost\r\n\r\n",
        "GET /sessions HTTP/9.9\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(to_end(stream).await.starts_with("HTTP/1.1 400"), "{head:?}");
    }
    assert_eq!(server.get("/health").await.0, 200);
    server.stopped().await;
}

#[tokio::test]
async fn there_are_no_more_connections_sessions_readers_and_requests_than_may_be() {
    let bounded = limits().connections(8).sessions(3, 5).readers(2).rate(1, 20);
    let seen = Seen::new();
    let tokens = [("alice", ALICE), ("mallory", MALLORY)]
        .map(|(tenant, token)| (Tenant::new(tenant).unwrap(), Token::new(token).unwrap()));
    let server = seen.server().tokens(Tokens::new(tokens).unwrap()).limits(bounded);
    let server = Running::new(server).await.showing(ALICE);
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(server.session().await);
    }
    let one_more = server.request("POST", "/sessions").json(&json!({}));
    assert_eq!(one_more.clone().send().await.refusal().await, (409, "too_many_sessions".to_owned()));
    for status in [201, 201, 503] {
        assert_eq!(as_mallory(one_more.clone()).send().await.status, status);
    }
    // What is deleted makes room, for its tenant and for all.
    assert_eq!(server.delete(&sessions.pop().unwrap()).await, 204);
    assert_eq!(one_more.clone().send().await.status, 201);

    let events = format!("{}/events", sessions[0]);
    let readers = [server.events(&sessions[0], "").await, server.events(&sessions[1], "").await];
    let refused = server.request("GET", &events).send().await;
    assert_eq!(refused.refusal().await, (429, "too_many_readers".to_owned()));
    drop(readers);
    // Their seats are free as soon as the server notices.
    within(async { while server.request("GET", &events).send().await.status != 200 {} }).await;

    // Somebody asks until it is too much; others are served all the same.
    let mut refused = None;
    for _ in 0..25 {
        let response = as_mallory(server.request("GET", "/sessions")).send().await;
        if response.status == 429 {
            refused = Some((response.header("retry-after").unwrap().to_owned(), response.refusal().await));
            break;
        }
    }
    let (wait, refused) = refused.expect("25 requests are too many");
    assert_eq!(refused, (429, "too_many_requests".to_owned()));
    assert!((1..=2).contains(&wait.parse::<u64>().unwrap()), "{wait}");
    assert_eq!(server.get("/health").await.0, 200);

    // As many connections as may be: another is told so, and there is room when one is closed.
    let mut kept = Vec::new();
    for _ in 0..8 {
        kept.push(TcpStream::connect(server.address).await.unwrap());
    }
    let refused = within(async {
        loop {
            // It is accepted behind the others.
            let stream = TcpStream::connect(server.address).await.unwrap();
            let said = to_end(stream).await;
            if !said.is_empty() {
                break said;
            }
        }
    })
    .await;
    let (head, body) = refused.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503") && head.ends_with(&body.len().to_string()), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["code"], "too_many_connections");
    drop(kept);
    within(async {
        loop {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(b"GET /health HTTP/1.1\r\nconnection: close\r\n\r\n").await.ok();
            if to_end(stream).await.starts_with("HTTP/1.1 200") {
                break;
            }
        }
    })
    .await;
    server.stopped().await;
}

#[tokio::test]
async fn nothing_that_is_said_begins_a_line_of_its_own() {
    const EVIL: &str =
        "\n\nevent:\u{20}end\ndata:\u{20}{\"type\":\"end\"}\nid:\u{20}forged-1\r\n\r\u{2028}\u{85}:x";
    let server = Running::new(Seen::new().server()).await;
    let session = server.session().await;
    let name = EVIL.replace(' ', "");
    // White space between tokens, too.
    let body = format!(
        "{{\"content\": {}, \"metadata\": {{\n\n\"a\"\r\n:\r{{\n\"{}\":\n\n1e2\n}}\n,\"data\": \r\n\r\n[\n]}}}}",
        json!(name),
        json!(EVIL).as_str().map(|evil| json!(evil).to_string()).unwrap().trim_matches('"'),
    );
    let prompted = server.request("POST", &format!("{session}/prompt")).body(body).send().await;
    assert_eq!(prompted.json().await.0, 202);
    server.events(&session, "").await.until("All are done.").await;
    for spelling in ["native", "flat", "ag-ui"] {
        // The client panics at a line that is none of its own, and each `data` is one line of JSON.
        let frames = server.all(&session, spelling, None).await;
        let (end, frames) = frames.split_last().unwrap();
        assert_eq!(end.json(), json!({ "type": "end", "reason": "caught_up" }));
        for frame in frames {
            assert_eq!(frame.name, "message");
            assert!(frame.id.as_deref().is_none_or(|id| !id.contains("forged")));
            frame.json();
        }
        assert!(frames.iter().any(|frame| frame.data.contains("forged-1")), "it is told, as what it is");
    }
    let cancelled = server.post(&format!("{session}/cancel"), &json!({ "session": EVIL })).await;
    assert_eq!(cancelled.0, 409);
    server.stopped().await;
}

#[tokio::test]
async fn pages_of_others_cannot_make_a_browser_ask() {
    let server = Running::new(Seen::new().server()).await;
    let session = server.session().await;
    for path in ["/sessions".to_owned(), format!("{session}/cancel"), format!("{session}/prompt")] {
        // What a page may send elsewhere without being asked: no body, a form, plain text.
        for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
            let request = server.request("POST", &path).header("origin", "https://example.org");
            let request = kind.map_or(request.clone(), |kind| {
                request.body(r#"{"content":"Delete all."}"#).header("content-type", kind)
            });
            assert_eq!(request.send().await.refusal().await, (415, "not_json".to_owned()), "{path} {kind:?}");
        }
        // A name that points here.
        let request = server.request("POST", &path).json(&json!({})).header("host", "example.org");
        assert_eq!(request.send().await.refusal().await, (403, "foreign_host".to_owned()));
    }
    let response = server.request("GET", &session).header("origin", "https://example.org").send().await;
    assert_eq!(response.header("access-control-allow-origin"), None);
    assert_eq!(server.get("/sessions").await.1["sessions"].as_array().unwrap().len(), 1);
    server.stopped().await;
}

#[tokio::test]
async fn a_connection_that_is_shared_keeps_its_requests_apart() {
    // Two requests at once on one connection, the first of which is refused with its body unread.
    let server = Seen::new().server().limits(limits().header_time(Duration::from_millis(300)));
    let server = Running::new(server.token(Token::new(ALICE).unwrap())).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let smuggled = format!("GET /sessions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {ALICE}\r\n\r\n");
    let head = format!(
        "POST /sessions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer wrong-token-0123456789\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n{smuggled}",
        smuggled.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let said = to_end(stream).await;
    assert!(said.starts_with("HTTP/1.1 401"), "{said}");
    assert!(!said.contains("HTTP/1.1 200") && !said.contains("\"sessions\""), "{said}");
    server.stopped().await;
}
