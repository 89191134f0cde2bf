//! Questions, answers, and runs that are stopped.

use serde_json::{Value, json};

use crate::{
    agents::Seen,
    client::{Running, within},
};

/// Waits until so many questions are open.
async fn questions(server: &Running, session: &str, count: usize) -> Vec<Value> {
    let mut events = server.events(session, "").await;
    for _ in 0..count {
        while !matches!(
            events.frame().await.unwrap().data,
            data if data.contains("REQUIRE_USER_CONFIRM") || data.contains("REQUIRE_EXTERNAL_EXECUTION")
        ) {}
    }
    let (_, look) = server.get(session).await;
    let questions = look["questions"].as_array().unwrap().clone();
    assert_eq!(questions.len(), count, "{look}");
    questions
}

fn answer(question: &Value, how: &str, what: &Value) -> Value {
    json!({ "session": question["session"], "call": question["call"], how: what })
}

async fn given(server: &Running, session: &str, answers: &[Value]) -> (u16, Value) {
    server.post(&format!("{session}/answer"), &json!({ "answers": answers })).await
}

async fn refused(server: &Running, session: &str, answers: &[Value]) -> (u16, String) {
    let (status, body) = given(server, session, answers).await;
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn answers_are_taken_all_or_none_and_once() {
    let seen = Seen::new();
    let server = Running::new(seen.server()).await;
    let session = server.session().await;
    server.prompt(&session, "write look write").await;
    let asked = questions(&server, &session, 3).await;
    assert_eq!(asked.iter().filter(|asked| asked["kind"] == "external").count(), 1);
    let right = |asked: &Value| match asked["kind"].as_str() {
        Some("external") => answer(asked, "output", &json!({ "content": "a fox" })),
        _ => answer(asked, "allow", &json!({})),
    };
    let mut all: Vec<_> = asked.iter().map(right).collect();
    let good = all.clone();

    // Each spoils all of them.
    all.push(json!({ "session": "nobody", "call": "none", "deny": {} }));
    assert_eq!(refused(&server, &session, &all).await, (409, "not_open".to_owned()));
    *all.last_mut().unwrap() = good[0].clone();
    assert_eq!(refused(&server, &session, &all).await, (409, "answered".to_owned()));
    all.pop();
    let external = asked.iter().position(|asked| asked["kind"] == "external").unwrap();
    all[external] = answer(&asked[external], "allow", &json!({}));
    assert_eq!(refused(&server, &session, &all).await, (422, "misfit".to_owned()));
    assert_eq!(questions(&server, &session, 3).await, asked);
    assert_eq!(*seen.written.lock().unwrap(), 0);

    assert_eq!(given(&server, &session, &good).await, (200, json!({ "answered": 3 })));
    assert_eq!(refused(&server, &session, &good[..1]).await, (409, "answered".to_owned()));
    let told = server.events(&session, "").await.until("All are done.").await;
    assert!(told.iter().any(|frame| frame.data.contains("It was a fox.")));
    assert_eq!(*seen.written.lock().unwrap(), 2);
    server.stopped().await;
}

#[tokio::test]
async fn an_answer_can_deny_with_a_reason_change_arguments_and_give_rules() {
    let seen = Seen::new();
    let server = Running::new(seen.server()).await;
    let session = server.session().await;
    server.prompt(&session, "write").await;
    let asked = questions(&server, &session, 1).await;
    let deny = answer(&asked[0], "deny", &json!({ "reason": "not on Sundays" }));
    assert_eq!(given(&server, &session, &[deny]).await.0, 200);
    let told = server.events(&session, "").await.until("All are done.").await;
    assert!(told.iter().any(|frame| frame.data.contains("not on Sundays")), "{told:?}");

    let cursor = server.prompt(&session, "write").await;
    let mut events = server.events(&session, &format!("?after={cursor}")).await;
    events.until("REQUIRE_USER_CONFIRM").await;
    let (_, look) = server.get(&session).await;
    let rule = json!({ "tool": "write_file", "behavior": "allow" });
    let allow = json!({ "arguments": { "changed": true }, "remember": [rule] });
    assert_eq!(given(&server, &session, &[answer(&look["questions"][0], "allow", &allow)]).await.0, 200);
    let told = events.until("All are done.").await;
    assert!(told.iter().any(|frame| frame.data.contains(r#"{\"changed\":true}"#)), "{told:?}");
    // Nobody is asked any more.
    let cursor = server.prompt(&session, "write").await;
    server.events(&session, &format!("?after={cursor}")).await.until("All are done.").await;
    assert_eq!(*seen.written.lock().unwrap(), 2);
    server.stopped().await;
}

#[tokio::test]
async fn a_child_is_stopped_alone_and_the_root_with_all_below_it() {
    let seen = Seen::new();
    let server = Running::new(seen.server()).await;
    let session = server.session().await;
    let cancel = format!("{session}/cancel");
    let code = |(status, body): (u16, Value)| (status, body["error"]["code"].clone());
    assert_eq!(code(server.post(&cancel, &json!({})).await), (409, json!("not_running")));

    server.prompt(&session, "wait wait").await;
    within(seen.began.notified()).await;
    let (_, look) = server.get(&session).await;
    let child = look["tree"][1]["id"].clone();
    assert_eq!(
        code(server.post(&cancel, &json!({ "session": "nobody" })).await),
        (409, json!("not_running"))
    );
    let (status, cancelled) = server.post(&cancel, &json!({ "session": child })).await;
    assert_eq!(status, 202);
    let mut events =
        server.events(&session, &format!("?after={}", cancelled["cursor"].as_str().unwrap())).await;
    let told = events.until(r#""outcome":"interrupted""#).await;
    assert!(told.last().unwrap().data.contains(child.as_str().unwrap()));
    let (_, look) = server.get(&session).await;
    assert_eq!(look["state"], "running");
    assert_eq!(
        (&look["tree"][1]["outcome"], &look["tree"][2]["outcome"]),
        (&json!("interrupted"), &json!(null))
    );

    // By its own id or by none.
    let root = json!({ "session": look["id"] });
    assert_eq!(server.post(&cancel, &root).await.0, 202);
    while {
        let frame = events.frame().await.unwrap();
        !(frame.data.contains("STREAM_COMPLETE") && frame.json()["type"] == "STREAM_COMPLETE")
    } {}
    let (_, look) = server.get(&session).await;
    assert!(look["tree"].as_array().unwrap().iter().all(|node| node["outcome"] == "interrupted"), "{look}");
    assert_eq!(code(server.post(&cancel, &json!({})).await), (409, json!("not_running")));
    server.stopped().await;
}
