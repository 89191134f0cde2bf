//! Whoever ends a child here ends it there.

use anabranch_proto::{EventKind, Outcome};
use anabranch_remote::http::HttpRunner;
use anabranch_runtime::{Agent, Permissions, Read, ScriptedModel, Session, SpawnSubagent, Turn};
use futures::StreamExt;
use serde_json::json;

use crate::support::{Other, closed, ends, here, here_with, last_text, within};

/// An agent whose helper says something and then nothing.
fn hangs() -> Agent {
    let helper = ScriptedModel::new("scripted").turn(|_| Turn::new().text("helping").hang());
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().text("begun").call("spawn_subagent", json!({ "task": "help" })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = SpawnSubagent::new(Agent::builder("helper", helper).build());
    Agent::builder("busy", model).tool(spawn).build()
}

/// Reads until the helper has said something.
async fn until_it_helps(session: &Session) -> anabranch_runtime::Reply {
    let mut reply = session.prompt("Go.").await.unwrap();
    loop {
        let Some(Read::Event(admitted)) = within(reply.next()).await else { panic!("it ended") };
        if matches!(admitted.event.kind, EventKind::TextBlockDelta(_)) && admitted.event.scope.depth() == 2 {
            return reply;
        }
    }
}

#[tokio::test]
async fn a_stop_of_the_child_or_of_all_deletes_the_session_there() {
    let other = Other::new(hangs()).await;
    for how in ["child", "reply", "close"] {
        let session = here(HttpRunner::new(other.url()).unwrap());
        let reply = until_it_helps(&session).await;
        assert_eq!(other.sessions().await, 1);
        match how {
            "child" => {
                let child = session.with_tree(|tree| tree.children(session.id()).next().unwrap().id.clone());
                session.cancel_session(&child).unwrap();
                within(reply.finished()).await.unwrap();
            }
            "reply" => {
                session.cancel();
                within(reply.finished()).await.unwrap();
            }
            _ => drop(reply),
        }
        let events = closed(&session).await;
        for name in ["n1", "helper"] {
            assert_eq!(ends(&events, name), [(Outcome::Interrupted, String::new())], "{name} by {how}");
        }
        other.is_left().await;
    }
}

#[tokio::test]
async fn a_session_below_the_child_can_be_stopped_alone() {
    let other = Other::new(hangs()).await;
    let session = here(HttpRunner::new(other.url()).unwrap());
    let reply = until_it_helps(&session).await;
    let find = |tree: &anabranch_session::SessionTree| {
        tree.iter().find(|record| &*record.source_name == "helper").unwrap().id.clone()
    };
    let helper = session.with_tree(find);
    session.cancel_session(&helper).unwrap();
    within(reply.finished()).await.unwrap();
    let events = closed(&session).await;
    assert_eq!(ends(&events, "helper"), [(Outcome::Interrupted, String::new())]);
    assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())]);
    other.is_left().await;
}

#[tokio::test]
async fn a_child_whose_time_is_over_is_stopped_there() {
    let other = Other::new(hangs()).await;
    let task = json!({ "task": "Do it.", "timeout": 1, "metadata": { "node_id": "n1" } });
    let session = here_with(HttpRunner::new(other.url()).unwrap(), Permissions::new(), task);
    let reply = session.prompt("Go.").await.unwrap();
    within(reply.finished()).await.unwrap();
    assert!(last_text(&session).starts_with("timed out after 1 s"), "{}", last_text(&session));
    closed(&session).await;
    other.is_left().await;
}
