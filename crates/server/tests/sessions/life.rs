//! A session's life.

use serde_json::json;

use crate::{
    agents::Seen,
    client::{Running, within},
};

#[tokio::test]
async fn a_session_is_created_prompted_read_looked_at_and_deleted() {
    let server = Running::new(Seen::new().server()).await;
    let created = server.request("POST", "/sessions").json(&json!({})).send().await;
    let location = created.header("location").unwrap().to_owned();
    let (status, created) = created.json().await;
    assert_eq!(status, 201);
    assert_eq!(location, format!("/sessions/{}", created["id"].as_str().unwrap()));
    let start = format!("{}-0", created["epoch"].as_str().unwrap());
    assert_eq!(created["cursor"], start);

    // Read before it is asked for anything: the stream is there at once.
    let mut live = server.events(&location, "").await;
    assert_eq!(server.prompt(&location, "sleet rain").await, start);
    let frames = live.until("All are done.").await;

    let (status, look) = server.get(&location).await;
    assert_eq!((status, &look["state"], &look["prompts"]), (200, &json!("idle"), &json!(0)));
    let tree = look["tree"].as_array().unwrap();
    let names: Vec<_> = tree.iter().map(|node| (node["name"].as_str().unwrap(), &node["parent"])).collect();
    assert_eq!(names, [("master", &json!(null)), ("sleet", &look["id"]), ("rain", &look["id"])]);
    assert!(tree.iter().all(|node| node["status"] == "ended" && node["outcome"] == "completed"), "{look}");
    assert_eq!(look["cursor"].as_str(), frames.last().unwrap().id.as_deref());

    let (_, list) = server.get("/sessions").await;
    assert_eq!((&list["sessions"][0]["id"], &list["sessions"][0]["state"]), (&look["id"], &json!("idle")));
    assert_eq!(list["next"], json!(null));

    assert_eq!(server.delete(&location).await, 204);
    let end = live.frame().await.unwrap();
    assert_eq!((&*end.name, end.json()), ("end", json!({ "type": "end", "reason": "ended" })));
    assert_eq!(live.frame().await, None);
    assert_eq!(server.delete(&location).await, 404);
    assert_eq!(server.get(&location).await.0, 404);
    assert_eq!(server.get("/sessions").await.1["sessions"], json!([]));
    server.stopped().await;
}

#[tokio::test]
async fn each_event_is_told_once_in_order_with_its_number_and_the_sessions_epoch() {
    let server = Running::new(Seen::new().server()).await;
    let session = server.session().await;
    let cursor = server.prompt(&session, "snow").await;
    let epoch = cursor.strip_suffix("-0").unwrap().to_owned();
    let mut live = server.events(&session, &format!("?after={cursor}")).await;
    let frames = live.until("All are done.").await;
    for (seq, frame) in (1..).zip(&frames) {
        assert_eq!((&*frame.name, frame.id.as_deref()), ("message", Some(&*format!("{epoch}-{seq}"))));
        assert_eq!(frame.json()["seq"], json!(seq));
    }
    // Whoever reads later reads the same.
    let mut later = server.all(&session, "native", None).await;
    assert_eq!(later.pop().unwrap().json(), json!({ "type": "end", "reason": "caught_up" }));
    assert_eq!(later, frames);
    server.stopped().await;
}

#[tokio::test]
async fn prompts_are_answered_one_after_another_and_no_more_than_may_wait() {
    let seen = Seen::new();
    let server = Running::new(seen.server().limits(crate::client::limits().prompts(2))).await;
    let session = server.session().await;
    server.prompt(&session, "wait").await;
    within(seen.began.notified()).await;
    let second = server.prompt(&session, "snow").await;
    let refused =
        server.request("POST", &format!("{session}/prompt")).json(&json!({ "content": "more" })).send().await;
    assert_eq!(refused.refusal().await, (409, "too_many_prompts".to_owned()));
    let (_, look) = server.get(&session).await;
    assert_eq!((&look["state"], &look["prompts"]), (&json!("running"), &json!(2)));
    seen.go_on.notify_one();
    let mut events = server.events(&session, &format!("?after={second}")).await;
    events.until("It was waited.").await;
    events.until("snow is done.").await;
    events.until("All are done.").await;
    server.stopped().await;
}
