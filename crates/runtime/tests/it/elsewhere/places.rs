//! A child elsewhere is a child like any other.

use std::sync::Arc;

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{Artifact, Event, EventKind, Message, Metadata, Outcome, event::MessageOrigin};
use anabranch_runtime::{Agent, Limits, Prompt, ScriptedModel, SpawnSubagent, TaskStatus, Turn};
use anabranch_session::SessionTree;
use serde_json::json;

use super::support::{Here, SECOND, all, ends, last_text, task, waits_for, waits_within};
use crate::support::{Text, echo, kind, master_with, node, of_child, outline, own, says};

/// An agent that thinks, calls a tool and has two helpers, one of which has one of its own.
fn busy() -> Agent {
    let helper = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", node("deep", "deepest")))
        .turn(|request| Turn::new().text(format!("helped by {}", request.last_result_text())));
    let helper = Agent::builder("helper", helper)
        .tool(named(SpawnSubagent::new(says("deepest", "the deepest"))))
        .build();
    let slow = ScriptedModel::new("scripted").turn(|_| Turn::new().wait(SECOND * 5).text("slept"));
    let slow = Agent::builder("slow", slow).build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            let turn = Turn::new().thinking("How?").call("echo", json!({ "text": "mine" }));
            turn.call("spawn_subagent", node("help", "h1")).call(
                "spawn_subagent",
                json!({ "task": "sleep", "background": true, "metadata": { "node_id": "h2" } }),
            )
        })
        .turn(|_| Turn::new().text("Done by myself."))
        .turn(|_| Turn::new().text("Done."));
    let spawn = named(SpawnSubagent::choosing(move |args| match &*args.task {
        "sleep" => slow.clone(),
        _ => helper.clone(),
    }));
    Agent::builder("worker", model).tool(echo()).tool(spawn).task_tools().build()
}

fn named(spawn: SpawnSubagent) -> SpawnSubagent {
    spawn.named_by(|args| args.metadata_str("node_id"))
}

/// What each session said, in its order, without how they lie beside each other.
fn by_session(events: &[Arc<Event>]) -> Vec<Vec<String>> {
    ["n1", "h1", "h2", "deepest"]
        .map(|name| {
            let of_it: Vec<_> = of_child(events, name).cloned().collect();
            outline(&of_it)
                .into_iter()
                .zip(&of_it)
                .map(|(line, event)| format!("{line} {}", event.scope.depth()))
                .collect()
        })
        .to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_child_elsewhere_says_what_it_would_say_here_and_so_do_all_below_it() {
    let here = waits_for(SpawnSubagent::new(busy()), task()).session();
    let runner = Here::new(busy());
    let there = waits_for(SpawnSubagent::on(runner.clone(), "worker"), task()).session();
    let (near, far) = (all(&here).await, all(&there).await);
    assert_eq!(by_session(&far), by_session(&near));
    assert_eq!(
        outline(&own(&far).cloned().collect::<Vec<_>>()),
        outline(&own(&near).cloned().collect::<Vec<_>>())
    );
    assert_eq!(last_text(&there), last_text(&here));
    assert!(last_text(&there).ends_with("(n1) has ended: completed.\n\nDone by myself.Done."));
    assert_eq!(runner.open(), 0);
    // Whose they are: the child's session was given here, and the tree holds together.
    let root = there.id().clone();
    there.with_tree(|tree| {
        let parent = |name: &str| {
            let record = tree.iter().find(|record| &*record.source_name == name).unwrap();
            tree.get(record.parent.as_ref().unwrap()).unwrap().source_name.to_string()
        };
        assert_eq!([parent("h1"), parent("h2")], ["n1", "n1"]);
        assert_eq!(tree.children(&root).next().unwrap().id, runner.orders.lock().unwrap()[0].session_id);
    });
}

#[tokio::test(start_paused = true)]
async fn a_call_can_wait_for_a_child_elsewhere_as_for_any_other() {
    let runner = Here::new(busy());
    let spawn = named(SpawnSubagent::on(runner.clone(), "worker"));
    let session = master_with(spawn, vec![node("a", "n1"), node("b", "n2")]).session();
    let events = all(&session).await;
    assert_eq!(last_text(&session), "Done by myself.Done.\nDone by myself.Done.");
    assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())]);
    assert_eq!(ends(&events, "n2"), [(Outcome::Completed, String::new())]);
    assert_eq!(runner.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_background_children_go_elsewhere_where_it_is_for_them() {
    let runner = Here::new(says("worker", "from there"));
    let spawn = SpawnSubagent::new(says("worker", "from here")).background_on(runner.clone());
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "a" })))
        .turn(|request| {
            let text = request.last_result_text();
            Turn::new().text(text).call("spawn_subagent", json!({ "task": "b", "background": true }))
        })
        .turn(|_| Turn::new().call("check_task", json!({ "task_id": "task_1", "wait": 60 })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let session = Agent::builder("master", model).tool(spawn).task_tools().build().session();
    all(&session).await;
    let text = last_text(&session);
    assert!(text.starts_with("from here") && text.ends_with("from there"), "{text}");
    let orders = runner.orders.lock().unwrap();
    assert_eq!(orders.iter().map(|order| &*order.agent).collect::<Vec<_>>(), ["worker"]);
}

#[tokio::test(start_paused = true)]
async fn the_prompt_the_conversation_and_the_keys_go_with_the_order() {
    let model = ScriptedModel::from_fn("scripted", |request| {
        Turn::new().text(request.messages.iter().map(Message::text).collect::<Vec<_>>().join("|"))
    });
    let worker = Agent::builder("worker", model).metadata(Metadata::default().with("of_worker", 1)).build();
    let arguments = json!({
        "task": "Do it.", "context": "With care.", "fork": true, "background": true, "timeout": 7,
        "metadata": { "node_id": "n1" },
    });
    let runner = Here::new(worker);
    let session = waits_for(SpawnSubagent::on(runner.clone(), "worker"), arguments).session();
    let prompt = Prompt::new("Go.").metadata(Metadata::default().with("tenant_id", "acme"));
    crate::support::reply_events(session.prompt(prompt).await.unwrap()).await;
    let text = last_text(&session);
    assert!(text.ends_with("Go.|Do it.Context:\nWith care.") || text.contains("Go.|Do it."), "{text}");
    let events = super::support::closed(&session).await;
    let order = runner.orders.lock().unwrap()[0].clone();
    assert_eq!(order.timeout, Some(SECOND * 7));
    assert_eq!(order.metadata.to_string(), r#"{"tenant_id":"acme","node_id":"n1"}"#);
    assert_eq!(order.limits.depth, 4);
    assert_eq!(order.arguments().task, "Do it.");
    assert_eq!(order.arguments().context.as_deref(), Some("With care."));
    assert_eq!(order.arguments().metadata_str("node_id").as_deref(), Some("n1"));
    let child: Vec<_> = of_child(&events, "n1").collect();
    let subagent = order.subagent_id.as_str();
    for event in &child {
        assert_eq!(event.metadata.get_str("tenant_id").as_deref(), Some("acme"), "{event:?}");
        assert_eq!(event.metadata.get_str("node_id").as_deref(), Some("n1"));
        assert_eq!(event.metadata.get_str("subagent_id").as_deref(), Some(subagent));
        assert!(event.metadata.get("of_worker").is_some());
    }
    let EventKind::UserMessage(prompt) = &child[0].kind else { panic!("{:?}", child[0]) };
    assert_eq!(prompt.origin, MessageOrigin::Parent);
}

#[tokio::test(start_paused = true)]
async fn its_files_come_with_its_result() {
    let save = FunctionTool::new("save", "", |args: Text, context| async move {
        context.artifact(Artifact::new(args.text, "/out/a", "text/plain"));
        Ok::<_, String>("saved")
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("save", json!({ "text": "a.txt" })))
        .turn(|_| Turn::new().text("Saved."));
    let runner = Here::new(Agent::builder("worker", model).tool(save).build());
    let session = master_with(named(SpawnSubagent::on(runner, "worker")), vec![node("a", "n1")]).session();
    let events = all(&session).await;
    let files = kind(own(&events), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { end.response.get("files").cloned() } else { None }
    });
    let files: Vec<Artifact> = files[0].to().unwrap();
    assert_eq!(files.iter().map(|file| &*file.name).collect::<Vec<_>>(), ["a.txt"]);
}

#[tokio::test(start_paused = true)]
async fn limits_hold_for_what_runs_elsewhere_as_if_it_ran_here() {
    // Depth: what lies below the child counts from the root.
    let shallow = |depth| {
        let spawn = SpawnSubagent::on(Here::new(busy()), "worker");
        waits_within(Limits::default().max_depth(depth), spawn, task()).session()
    };
    for depth in [1, 2, 3] {
        let session = shallow(depth);
        let events = all(&session).await;
        let deepest = events.iter().map(|event| event.scope.depth()).max();
        assert_eq!(deepest, Some(depth));
        assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())]);
    }
    // In total: the child and one more.
    let spawn = SpawnSubagent::on(Here::new(busy()), "worker");
    let session = waits_within(Limits::default().max_spawned(2), spawn, task()).session();
    all(&session).await;
    assert_eq!(session.with_tree(SessionTree::len), 3);
}

#[tokio::test(start_paused = true)]
async fn what_runs_below_a_child_elsewhere_takes_places_here() {
    let sleeper = ScriptedModel::new("scripted").turn(|_| Turn::new().wait(SECOND * 100).text("slept"));
    let worker = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", node("sleep", "h1")))
        .turn(|_| Turn::new().text("Done."));
    let worker = Agent::builder("worker", worker)
        .tool(named(SpawnSubagent::new(Agent::builder("sleeper", sleeper).build())))
        .build();
    let session = waits_for(SpawnSubagent::on(Here::new(worker), "worker"), task()).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(session.children_running(), 2, "the child and its own");
    assert_eq!(session.tasks()[0].status, TaskStatus::Running);
    crate::support::reply_events(reply).await;
    assert_eq!(session.children_running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_elsewhere_that_has_ended_goes_on_with_what_it_knew() {
    let model = ScriptedModel::from_fn("scripted", |request| {
        let said = request.messages.iter().map(Message::text).collect::<Vec<_>>().join("|");
        Turn::new().text(format!("[{said}]"))
    });
    let runner = Here::new(Agent::builder("worker", model).build());
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "one", "background": true })))
        .turn(|_| Turn::new().call("check_task", json!({ "task_id": "task_1", "wait": 60 })))
        .turn(|_| Turn::new().call("message_task", json!({ "task_id": "task_1", "message": "two" })))
        .turn(|_| Turn::new().call("check_task", json!({ "task_id": "task_1", "wait": 60 })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = SpawnSubagent::on(runner.clone(), "worker");
    let session = Agent::builder("master", model).tool(spawn).task_tools().build().session();
    let events = all(&session).await;
    assert!(last_text(&session).ends_with("[one|[one]|two]"), "{}", last_text(&session));
    assert_eq!(ends(&events, "worker").len(), 2);
    let orders = runner.orders.lock().unwrap();
    assert_eq!(orders.iter().map(|order| order.run).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(orders[0].session_id, orders[1].session_id);
}
