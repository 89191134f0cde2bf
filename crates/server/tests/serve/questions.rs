//! Questions that end a run, and answers that come with the next.

use serde_json::{Value, json};

use crate::{
    agents::Seen,
    client::{Running, prompt, reader},
};

fn resume(entries: &[(&Value, &str, Value)]) -> Value {
    let entries = entries
        .iter()
        .map(|(id, status, payload)| json!({ "interruptId": id, "status": status, "payload": payload }));
    json!({
        "threadId": "thread", "runId": "answer", "messages": [{ "role": "user", "content": "write" }],
        "resume": entries.collect::<Vec<_>>(),
    })
}

#[tokio::test]
async fn an_answer_in_the_next_request_goes_on_with_the_call() {
    for (status, payload, written, result) in [
        ("resolved", json!({ "approved": true }), 1, "It was written."),
        ("resolved", json!({ "approved": false }), 0, "It was the user did not allow `write_file`."),
        ("cancelled", Value::Null, 0, "It was the user did not allow `write_file`."),
    ] {
        let (seen, _gone) = Seen::new();
        let server = Running::new(seen.server()).await;
        let mut reader = reader();
        let last = server.post(&prompt("thread", "question", "write")).await.run(&mut reader).await;
        assert_eq!(last["outcome"]["type"], "interrupt");
        let id = &last["outcome"]["interrupts"][0]["id"];
        assert_eq!(*seen.written.lock().unwrap(), 0);

        // What answers nothing, or not all, changes nothing.
        assert_eq!(server.refused(&prompt("thread", "run", "snow")).await, (409, "unanswered".to_owned()));
        for strange in [json!("confirm:a:b"), json!("execute:a:b"), json!("")] {
            let refused = server.refused(&resume(&[(&strange, "resolved", Value::Null)])).await;
            assert_eq!(refused, (409, "unanswered".to_owned()));
        }

        // What answers nothing is left aside where the rest answers all.
        let answer = resume(&[(&json!("confirm:a:b"), "resolved", Value::Null), (id, status, payload)]);
        let last = server.post(&answer).await.run(&mut reader).await;
        assert_eq!((&last["runId"], &last["outcome"]["type"]), (&json!("answer"), &json!("success")));
        assert_eq!(*seen.written.lock().unwrap(), written, "{status}");
        assert!(reader.texts().values().any(|text| text == result), "{:?}", reader.texts());

        // An answer is taken once.
        assert_eq!(server.refused(&answer).await, (409, "not_asked".to_owned()));
        server.stopped().await;
    }
}

#[tokio::test]
async fn questions_of_two_children_are_answered_one_after_another_or_together() {
    let (seen, _gone) = Seen::new();
    let server = Running::new(seen.server()).await;
    let mut reader = reader();
    let mut last =
        server.post(&prompt("thread", "question", "write write snow")).await.run(&mut reader).await;
    let mut answered = 0;
    while last["outcome"]["type"] == "interrupt" {
        let interrupts = last["outcome"]["interrupts"].as_array().unwrap().clone();
        answered += interrupts.len();
        let entries: Vec<_> = interrupts
            .iter()
            .map(|interrupt| (&interrupt["id"], "resolved", json!({ "approved": true })))
            .collect();
        last = server.post(&resume(&entries)).await.run(&mut reader).await;
    }
    assert_eq!(last["outcome"]["type"], "success");
    assert_eq!(answered, 2, "no question is asked twice");
    assert_eq!(*seen.written.lock().unwrap(), 2);
    server.stopped().await;
}

#[tokio::test]
async fn what_the_user_says_beside_an_answer_reaches_the_run() {
    let server = Running::new(Seen::new().0.server()).await;
    let mut reader = reader();
    let question = prompt("thread", "question", "write");
    let last = server.post(&question).await.run(&mut reader).await;
    let mut answer = resume(&[(&last["outcome"]["interrupts"][0]["id"], "cancelled", Value::Null)]);
    // What has prompted before is not said again.
    let said = |id| json!([{ "id": id, "role": "user", "content": "Take the other one." }]);
    answer["messages"] = said(question["messages"][0]["id"].clone());
    for (id, heard) in [(question["messages"][0]["id"].clone(), false), (json!("new"), true)] {
        answer["messages"] = said(id);
        let last = server.post(&answer).await.run(&mut reader).await;
        assert_eq!(last["outcome"]["type"], "success");
        let all = reader.texts();
        let said = all.values().any(|text| text == "All are done. You said: Take the other one.");
        assert_eq!(said, heard, "{all:?}");
        let last = server.post(&prompt("thread", "again", "write")).await.run(&mut reader).await;
        answer["resume"][0]["interruptId"] = last["outcome"]["interrupts"][0]["id"].clone();
    }
    server.stopped().await;
}

/// A client keeps the interrupts of a run until it has read the end of the next, and sends an entry for each with whatever it
/// sends.
#[tokio::test]
async fn whoever_leaves_behind_an_answer_can_prompt_again() {
    let (seen, _gone) = Seen::new();
    let server = Running::new(seen.server()).await;
    let mut seen_first = reader();
    let last = server.post(&prompt("thread", "question", "write wait")).await.run(&mut seen_first).await;
    let id = &last["outcome"]["interrupts"][0]["id"];
    let answer = resume(&[(id, "resolved", json!({ "approved": true }))]);
    let mut response = server.post(&answer).await;
    response.until("SUBAGENT_FINISHED", &mut seen_first).await;
    drop(response);

    let mut next = answer.clone();
    next["messages"] = json!([
        { "id": "1", "role": "user", "content": "write wait" },
        { "id": "2", "role": "assistant" },
        { "id": "3", "role": "user", "content": "snow" },
    ]);
    let last = server.post(&next).await.run(&mut reader()).await;
    assert_eq!((&last["runId"], &last["outcome"]["type"]), (&json!("answer"), &json!("success")));
    // The same again prompts nobody.
    assert_eq!(server.refused(&next).await, (409, "not_asked".to_owned()));
    assert_eq!(server.refused(&answer).await, (409, "not_asked".to_owned()));
    assert_eq!(*seen.written.lock().unwrap(), 1);
    server.stopped().await;
}

#[tokio::test]
async fn what_the_client_runs_itself_is_answered_with_what_it_came_to() {
    for (status, payload, result) in [
        ("resolved", json!("a fox"), "It was a fox."),
        ("resolved", json!({ "seen": 1 }), r#"It was {"seen":1}."#),
        ("cancelled", Value::Null, "It was the client gave the call up."),
    ] {
        let server = Running::new(Seen::new().0.server()).await;
        let mut reader = reader();
        let last = server.post(&prompt("thread", "question", "look")).await.run(&mut reader).await;
        let interrupt = &last["outcome"]["interrupts"][0];
        assert_eq!(interrupt["reason"], "external_execution");
        let last = server.post(&resume(&[(&interrupt["id"], status, payload)])).await.run(&mut reader).await;
        assert_eq!(last["outcome"]["type"], "success");
        assert!(reader.texts().values().any(|text| text == result), "{:?}", reader.texts());
        server.stopped().await;
    }
}
