//! Questions cross, and so do their answers; what cannot be held there is refused.

use std::time::Duration;

use anabranch_pipeline::ToolDefinition;
use anabranch_proto::{EventKind, Outcome};
use anabranch_remote::http::{HttpError, HttpRunner};
use anabranch_runtime::{
    Agent, Answer, ExternalTool, Permissions, Read, ScriptedModel, Session, SteerError, Turn,
};
use anabranch_server::Token;
use futures::StreamExt;
use serde_json::json;

use crate::support::{Other, TOKEN, Text, all, busy, closed, echo, ends, here, here_with, last_text, within};

fn asks() -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("echo", json!({ "text": "a" })).call("browse", json!({ "text": "b" })))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join(" | "))
        });
    let browse = ExternalTool::new(ToolDefinition::typed::<Text>("browse", "Opens a page."));
    Agent::builder("busy", model)
        .tool(echo())
        .tool(browse)
        .permissions(Permissions::new().ask("echo"))
        .build()
}

async fn answered(session: &Session, confirm: Answer) -> String {
    let mut reply = session.prompt("Go.").await.unwrap();
    let mut left = 2;
    while left > 0 {
        let Some(Read::Event(admitted)) = within(reply.next()).await else { panic!("it ended") };
        let asks = admitted.event.scope.session(session.id());
        if let EventKind::RequireUserConfirm(ask) = &admitted.event.kind {
            session.answer(asks, &ask.tool_calls[0].id, confirm.clone()).unwrap();
            left -= 1;
        } else if let EventKind::RequireExternalExecution(ask) = &admitted.event.kind {
            session.answer(asks, &ask.tool_calls[0].id, Answer::output("a page")).unwrap();
            left -= 1;
        }
    }
    within(reply.finished()).await.unwrap();
    closed(session).await;
    last_text(session)
}

#[tokio::test]
async fn what_is_asked_there_is_answered_here() {
    let other = Other::new(asks()).await;
    let runner = || HttpRunner::new(other.url()).unwrap();
    let allowed = answered(&here(runner()), Answer::allow_with(r#"{"text":"c"}"#)).await;
    assert_eq!(allowed, "c | a page");
    let denied = answered(&here(runner()), Answer::deny_because("not now")).await;
    assert_eq!(denied, "the user did not allow `echo`: not now | a page");
    other.is_left().await;
}

#[tokio::test]
async fn what_cannot_be_held_there_is_refused_unless_the_application_says_that_it_need_not_be() {
    let other = Other::new(busy().build()).await;
    let task = json!({ "task": "Do it.", "metadata": { "node_id": "n1" } });
    let guarded = || Permissions::new().deny("delete", "never");
    let runner = || HttpRunner::new(other.url()).unwrap();
    let session = here_with(runner(), guarded(), task.clone());
    all(&session).await;
    assert!(last_text(&session).contains("HttpRunner::own_permissions"), "{}", last_text(&session));
    let session = here_with(runner().own_permissions(), guarded(), task);
    all(&session).await;
    assert!(last_text(&session).starts_with("one two three"));
    let forked = json!({ "task": "Do it.", "fork": true, "metadata": { "node_id": "n1" } });
    let session = here_with(runner(), Permissions::new(), forked);
    all(&session).await;
    assert!(last_text(&session).contains("leave `fork` out"), "{}", last_text(&session));
    assert_eq!(other.sessions().await, 0);
}

#[tokio::test]
async fn a_message_to_a_child_on_another_server_is_refused() {
    let waits = ScriptedModel::new("scripted").turn(|_| Turn::new().text("so far").hang());
    let other = Other::new(Agent::builder("busy", waits).build()).await;
    let session = here(HttpRunner::new(other.url()).unwrap());
    let mut reply = session.prompt("Go.").await.unwrap();
    let child = loop {
        let Some(Read::Event(admitted)) = within(reply.next()).await else { panic!("it ended") };
        if let (EventKind::TextBlockDelta(_), Some(child)) =
            (&admitted.event.kind, admitted.event.scope.child())
        {
            break child.child_session_id.clone();
        }
    };
    assert_eq!(session.steer(&child, "left"), Err(SteerError::Deaf));
    session.cancel();
    within(reply.finished()).await.unwrap();
    closed(&session).await;
    other.is_left().await;
}

#[tokio::test]
async fn a_token_is_shown_and_never_told() {
    let other = Other::with(busy().build(), Some(Token::new(TOKEN).unwrap())).await;
    let session = here(HttpRunner::new(other.url()).unwrap().token(TOKEN).unwrap());
    all(&session).await;
    assert!(last_text(&session).starts_with("one two three"));
    let wrong = HttpRunner::new(other.url()).unwrap().token("another-token-that-nobody-has").unwrap();
    assert!(!format!("{wrong:?}").contains("another-token"));
    let session = here(wrong.patience(Duration::from_millis(100)));
    let events = all(&session).await;
    let [(outcome, why)] = &*ends(&events, "n1") else { panic!("it ends once") };
    assert_eq!(*outcome, Outcome::Failed);
    assert!(why.contains("refused (401") && !why.contains("another-token"), "{why}");
    for url in ["", "ftp://x", "localhost:8080", "http://user:secret@host/"] {
        assert!(matches!(HttpRunner::new(url), Err(HttpError::Address { .. })), "{url}");
    }
    assert!(matches!(HttpRunner::new("http://x").unwrap().token("a\nb"), Err(HttpError::Token)));
}

#[tokio::test]
async fn options_are_the_other_applications_to_understand() {
    let other = Other::new(busy().build()).await;
    let runner = HttpRunner::new(other.url()).unwrap().options(|_| Some(json!({ "agent": "unknown" })));
    let session = here(runner);
    all(&session).await;
    assert!(last_text(&session).contains("there is no such agent"), "{}", last_text(&session));
}
