//! What lines to other servers do.

use std::{sync::atomic::Ordering, time::Duration};

use anabranch_proto::{Metadata, Outcome};
use anabranch_remote::http::HttpRunner;
use anabranch_runtime::Prompt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::support::{Line, Other, all, busy, closed, ends, here, last_text, outline, within};

const SOON: Duration = Duration::from_millis(300);

fn runner(url: &str) -> HttpRunner {
    HttpRunner::new(url).unwrap()
}

#[tokio::test]
async fn a_child_on_another_server_is_a_child_of_the_session_here() {
    let other = Other::new(busy().build()).await;
    let session = here(runner(&other.url()));
    let prompt = Prompt::new("Go.").metadata(Metadata::default().with("tenant_id", "acme"));
    within(session.prompt(prompt).await.unwrap().finished()).await.unwrap();
    let events = closed(&session).await;
    assert!(last_text(&session).starts_with("one two three and more"), "{}", last_text(&session));
    assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())]);
    assert_eq!(ends(&events, "h1"), [(Outcome::Completed, String::new())]);
    let depth = |name: &str| {
        session.with_tree(|tree| tree.iter().find(|record| &*record.source_name == name).unwrap().depth)
    };
    assert_eq!((depth("n1"), depth("h1")), (1, 2));
    let children = events.iter().filter(|event| event.scope.child().is_some());
    for event in children {
        assert_eq!(event.metadata.get_str("tenant_id").as_deref(), Some("acme"), "{event:?}");
    }
    other.is_left().await;
}

#[tokio::test]
async fn a_line_that_breaks_again_and_again_loses_nothing_and_says_nothing_twice() {
    let other = Other::new(busy().build()).await;
    let whole = here(runner(&other.url()));
    let expected = outline(&all(&whole).await);
    for after in [3_000, 9_000] {
        let line = Line::to(other.address, after).await;
        let session = here(runner(&line.url));
        let events = all(&session).await;
        assert_eq!(outline(&events), expected, "broken after each {after} bytes");
        assert_eq!(last_text(&session), last_text(&whole));
        assert!(line.broken.load(Ordering::SeqCst) >= 2, "broken after each {after} bytes");
        // By the same line.
        other.is_left().await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_that_the_model_can_read() {
    // Nobody listens where somebody did.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let session = here(runner(&format!("http://{address}")).patience(SOON));
    let events = all(&session).await;
    let [(outcome, why)] = &*ends(&events, "n1") else { panic!("it ends once") };
    assert_eq!(*outcome, Outcome::Failed);
    assert!(why.starts_with(&format!("`http://{address}` cannot be reached: ")), "{why}");
    assert_eq!(last_text(&session), *why);
}

#[tokio::test]
async fn a_server_that_goes_away_in_mid_work_is_waited_for_and_then_given_up() {
    let other = Other::new(crate::support::busy().build()).await;
    let line = Line::to(other.address, 1_500).await;
    let session = here(runner(&line.url).patience(SOON));
    let reply = session.prompt("Go.").await.unwrap();
    // The line breaks for the first time, and for good.
    within(async {
        while line.broken.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(line);
    drop(other);
    within(reply.finished()).await.unwrap();
    let events = closed(&session).await;
    let [(outcome, why)] = &*ends(&events, "n1") else { panic!("it ends once") };
    // It may have said its last just before.
    assert!(*outcome == Outcome::Completed || why.contains("cannot be reached"), "{why}");
}

/// A server that answers every request with this.
async fn says(answers: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for answer in answers.iter().chain(std::iter::repeat(answers.last().unwrap())) {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut head = [0; 8_192];
            let _ = client.read(&mut head).await;
            client.write_all(answer.as_bytes()).await.ok();
        }
    });
    url
}

const CREATED: &str = "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 49\r\n\r\n\
                       {\"id\":\"theirs\",\"epoch\":\"e\",\"cursor\":\"e-0\"}       ";
const TAKEN: &str = "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";

macro_rules! stream {
    ($text:literal) => {
        concat!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n", $text)
    };
}

#[tokio::test]
async fn a_server_that_says_nonsense_fails_the_child_and_is_quoted() {
    let cases: [(&'static [&'static str], &str); 8] = [
        (
            &["HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"],
            "does not say which session",
        ),
        (&["nonsense\r\n\r\n"], "cannot be reached"),
        (&[CREATED, TAKEN, stream!("data: {}\n\n")], "sent what is no event"),
        (&[CREATED, TAKEN, stream!("data: \u{1}\n\n")], "sent what is no event"),
        (
            &[CREATED, TAKEN, stream!("event: resync\ndata: {\"reason\":\"ahead\"}\n\n")],
            "has lost the events",
        ),
        (&[CREATED, TAKEN, stream!("event: gap\ndata: {\"from\":1,\"to\":2}\n\n")], "has forgotten events"),
        (&[CREATED, TAKEN, stream!("event: end\ndata: {\"reason\":\"failed\"}\n\n")], "ended the session"),
        (
            &[
                CREATED,
                TAKEN,
                stream!(
                    "data: {\"seq\":1,\"id\":\"e\",\"created_at\":\"2026-01-01T00:00:00Z\",\"type\":\"REPLY_START\",\"session_id\":\"x\",\"reply_id\":\"r\",\"name\":\"n\",\"role\":\"assistant\"}\n\n"
                ),
            ],
            "break a rule of a stream",
        ),
    ];
    for (answers, expected) in cases {
        let session = here(runner(&says(answers).await).patience(SOON));
        let events = all(&session).await;
        let [(outcome, why)] = &*ends(&events, "n1") else { panic!("it ends once") };
        assert_eq!(*outcome, Outcome::Failed);
        assert!(why.contains(expected), "{expected}: {why}");
    }
}
