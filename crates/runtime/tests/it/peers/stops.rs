//! Stopping: a cancel reaches everything, counts as nothing else, and leaves nothing behind.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, mpsc},
};

use anabranch_pipeline::{FunctionTool, ToolContext};
use anabranch_proto::{EventKind, Outcome, SessionId, ToolResultState};
use anabranch_runtime::{Agent, Read, Reply, ScriptedModel, SessionError, Spawn, SpawnSubagent, Turn};
use futures::StreamExt;
use tokio::sync::{Notify, Semaphore};

use super::{announced, report, results_in, terminals};
use crate::support::{Nothing, echo, events, master, node, own, says};

/// An agent whose tool tells that it has begun and never ends.
fn hangs(begun: &Arc<Semaphore>) -> Agent {
    let begun = Arc::clone(begun);
    let hang = FunctionTool::new("hang", "", move |_: Nothing, _| {
        begun.add_permits(1);
        std::future::pending::<Result<String, String>>()
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().text("I begin. ").call("hang", serde_json::json!({})));
    Agent::builder("worker", model).tool(hang).build()
}

/// A master whose first reply spawns these, and whose later ones tell what the conversation has.
fn asks(worker: Agent, calls: usize) -> Agent {
    let model = ScriptedModel::from_fn("scripted", move |request| {
        if request.messages.len() == 1 {
            let call = |turn: Turn, number| turn.call("spawn_subagent", node("x", &format!("n{number}")));
            return (0..calls).fold(Turn::new(), call);
        }
        let told = results_in(&request.messages);
        Turn::new().text(told.iter().map(|(state, _)| state.as_str()).collect::<Vec<_>>().join(" "))
    });
    let spawn = SpawnSubagent::new(worker).named_by(|args| args.metadata_str("node_id"));
    Agent::builder("master", model).tool(spawn).build()
}

#[tokio::test]
async fn a_cancelled_spawn_is_no_success() {
    let begun = Arc::new(Semaphore::new(0));
    let session = asks(hangs(&begun), 2).session();
    let reply = session.prompt("Go.").await.unwrap();
    begun.acquire_many(2).await.unwrap().forget();
    session.cancel();
    let seen = events(reply).await;
    assert!(terminals(&seen).iter().all(|(_, outcome)| *outcome == Outcome::Interrupted));
    assert_eq!(terminals(&seen).len(), 3);
    let told = results_in(&session.messages());
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(state, text)| *state == ToolResultState::Interrupted && !text.is_empty()));
    let next = session.prompt("And?").await.unwrap().finished().await.unwrap();
    assert_eq!(
        next.text(),
        "interrupted interrupted",
        "the next turn has each result, and none is a success"
    );
}

/// An agent that hands its task on, `levels` deep, to two each time.
fn tree(levels: u32, begun: &Arc<Semaphore>) -> Agent {
    if levels == 0 {
        return hangs(begun);
    }
    asks(tree(levels - 1, begun), 2)
}

#[tokio::test]
async fn each_session_ends_after_all_below_it_and_once() {
    let begun = Arc::new(Semaphore::new(0));
    let session = tree(3, &begun).session();
    let reply = session.prompt("Go.").await.unwrap();
    begun.acquire_many(8).await.unwrap().forget();
    session.cancel();
    let seen = events(reply).await;
    let mut ended = HashMap::new();
    let mut parents = Vec::new();
    for (at, event) in seen.iter().enumerate() {
        if let EventKind::StreamComplete(_) = &event.kind {
            let session = event.scope.session(session.id()).clone();
            assert_eq!(ended.insert(session.clone(), at), None, "one terminal each");
            parents.extend(event.scope.child().map(|child| (session, child.parent_session_id.clone())));
        }
    }
    assert_eq!((ended.len(), parents.len()), (15, 14));
    let at = |session: &SessionId| ended[session];
    assert!(parents.iter().all(|(child, parent)| at(child) < at(parent)));
}

#[tokio::test]
async fn a_call_whose_turn_had_not_come_is_interrupted_and_announces_nobody() {
    let begun = Arc::new(Semaphore::new(0));
    let begins = Arc::clone(&begun);
    let alone = FunctionTool::new("alone", "", move |_: Nothing, _| {
        begins.add_permits(1);
        std::future::pending::<Result<String, String>>()
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("alone", serde_json::json!({})).call("spawn_subagent", node("x", "n1")));
    let agent = Agent::builder("master", model)
        .tool(alone.exclusive())
        .tool(SpawnSubagent::new(says("worker", "hi")))
        .build();
    let session = agent.session();
    let reply = session.prompt("Go.").await.unwrap();
    begun.acquire().await.unwrap().forget();
    session.cancel();
    let seen = events(reply).await;
    assert_eq!((announced(&seen), terminals(&seen)), (0, vec![(".", Outcome::Interrupted)]));
    let states: Vec<_> = results_in(&session.messages()).into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, [ToolResultState::Interrupted; 2]);
}

#[tokio::test]
async fn a_dropped_reply_leaves_no_task() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let begun = Arc::new(Semaphore::new(0));
    let before = alive();
    let mut reply: Reply = tree(2, &begun).reply_stream("Go.");
    begun.acquire_many(4).await.unwrap().forget();
    assert!(matches!(reply.next().await, Some(Read::Event(_))));
    assert_eq!(alive(), before + 1, "children have no tasks of their own");
    drop(reply);
    while alive() > before {
        tokio::task::yield_now().await;
    }
}

/// Tries to spawn when it is dropped.
struct Clings(ToolContext, Arc<Mutex<Vec<String>>>);

impl Drop for Clings {
    fn drop(&mut self) {
        let told = match Spawn::new(&self.0, "late", "Go on without me.") {
            Ok(_) => "spawned".to_owned(),
            Err(error) => error.to_string(),
        };
        self.1.lock().unwrap().push(told);
    }
}

#[tokio::test]
async fn nothing_is_spawned_while_a_run_is_being_stopped() {
    let begun = Arc::new(Semaphore::new(0));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (begins, keep) = (Arc::clone(&begun), Arc::clone(&told));
    let cling = FunctionTool::new("cling", "", move |_: Nothing, context| {
        let clings = Clings(context, Arc::clone(&keep));
        let begins = Arc::clone(&begins);
        async move {
            begins.add_permits(1);
            std::future::pending::<()>().await;
            drop(clings);
            Ok::<_, String>("")
        }
    });
    let model = ScriptedModel::new("scripted").turn(|_| Turn::new().call("cling", serde_json::json!({})));
    let session =
        master(Agent::builder("worker", model).tool(cling).build(), vec![node("x", "n1")]).session();
    let reply = session.prompt("Go.").await.unwrap();
    begun.acquire().await.unwrap().forget();
    session.cancel();
    let seen = events(reply).await;
    assert_eq!(*told.lock().unwrap(), ["the session is being stopped"]);
    assert_eq!((announced(&seen), session.children_running()), (1, 0));
}

#[tokio::test]
async fn a_blocking_closure_holds_up_neither_its_siblings_nor_a_cancel() {
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(Some(blocked)));
    let returned = Arc::new(Notify::new());
    let tell = Arc::clone(&returned);
    let block = FunctionTool::new("block", "", move |_: Nothing, _| {
        let (blocked, tell) = (blocked.lock().unwrap().take().unwrap(), Arc::clone(&tell));
        async move {
            let closure = move || {
                blocked.recv().ok();
                tell.notify_one();
            };
            tokio::task::spawn_blocking(closure).await.map(|()| "released").map_err(|error| error.to_string())
        }
    });
    let model = ScriptedModel::new("scripted").turn(|_| {
        let echo = serde_json::json!({ "text": "meanwhile" });
        Turn::new().call("block", serde_json::json!({})).call("echo", echo)
    });
    let session = Agent::builder("agent", model).tool(block).tool(echo()).build().session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let mut seen = Vec::new();
    loop {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("the sibling ends") };
        seen.push(admitted.event);
        if matches!(seen.last().unwrap().kind, EventKind::ToolResultEnd(_)) {
            break;
        }
    }
    session.cancel();
    seen.extend(events(reply).await);
    assert_eq!(terminals(&seen), [(".", Outcome::Interrupted)]);
    let states: Vec<_> = results_in(&session.messages()).into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, [ToolResultState::Interrupted, ToolResultState::Success]);
    // Nobody waits for the closure, and what it comes to in the end is nobody's.
    let before = session.messages();
    drop(release);
    returned.notified().await;
    session.close().await;
    assert_eq!(session.messages(), before);
}

#[tokio::test]
async fn whoever_waits_is_told_however_the_run_before_ends() {
    let first: [(&str, Turn); 4] = [
        ("completed", Turn::new().text("hi")),
        ("failed", Turn::new().panic("at sea")),
        ("cancelled", Turn::new().hang()),
        ("closed", Turn::new().hang()),
    ];
    for (how, turn) in first {
        let model = ScriptedModel::from_fn("scripted", move |request| match request.prompt_text() {
            text if text == "first" => turn.clone(),
            _ => report(request).text("after it"),
        });
        let session = Agent::builder("agent", model).build().session();
        let (reader, mut running) = (session.subscribe(0), session.prompt("first").await.unwrap());
        let waits = session.prompt("second").await.unwrap();
        assert!(running.next().await.is_some(), "it has begun");
        match how {
            "cancelled" => session.cancel(),
            "closed" => session.close().await,
            _ => {}
        }
        assert!(running.finished().await.is_ok(), "{how}");
        match waits.finished().await {
            Ok(finished) => assert_eq!((finished.text(), how == "closed"), ("after it".to_owned(), false)),
            Err(error) => assert!(how == "closed" && matches!(error, SessionError::Ended), "{error}"),
        }
        session.close().await;
        assert!(!events(reader).await.is_empty(), "{how}");
    }
}

#[tokio::test]
async fn a_second_prompt_waits_until_the_children_of_the_first_are_gone() {
    let begun = Arc::new(Semaphore::new(0));
    let session = asks(hangs(&begun), 1).session();
    let first = session.prompt("Go.").await.unwrap();
    begun.acquire().await.unwrap().forget();
    let second = session.prompt("And?").await.unwrap();
    let reader = session.subscribe(0);
    first.cancel();
    assert_eq!(second.finished().await.unwrap().text(), "interrupted");
    drop(first);
    session.close().await;
    let seen = events(reader).await;
    let prompts: Vec<_> = (0..seen.len())
        .filter(|at| matches!(seen[*at].kind, EventKind::UserMessage(_)) && seen[*at].scope.child().is_none())
        .collect();
    assert_eq!(prompts.len(), 2);
    assert_eq!(
        terminals(&seen[..prompts[1]]),
        [("n0", Outcome::Interrupted), (".", Outcome::Interrupted)],
        "before the second prompt"
    );
    assert_eq!(own(&seen[prompts[1]..]).count(), seen.len() - prompts[1]);
}
