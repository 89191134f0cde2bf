//! Children in the background: a task id at once, events on the session's stream, one hint for each run.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{
    ContentBlock, Event, EventKind, Message, Outcome, Scope, SpawnMechanism, ToolResultState,
    event::MessageOrigin,
};
use anabranch_runtime::{
    Agent, Model, ModelItem, ModelRequest, ModelStream, OnCancel, Read, ScriptedModel, Session,
    SpawnSubagent, TaskStatus, Turn,
};
use futures::StreamExt;
use serde_json::json;

use crate::support::{assert_well_formed, events_as_they_are, kind, of_child, own, reply_events};

const SECOND: Duration = Duration::from_secs(1);

/// An agent that says something after a time.
fn slow(text: &'static str, seconds: u32) -> Agent {
    let model = ScriptedModel::new("scripted").turn(move |_| Turn::new().wait(SECOND * seconds).text(text));
    Agent::builder("worker", model).build()
}

fn start(task: &str, name: &str) -> serde_json::Value {
    json!({ "task": task, "background": true, "metadata": { "node_id": name } })
}

fn spawn(worker: Agent) -> SpawnSubagent {
    SpawnSubagent::new(worker).named_by(|args| args.metadata_str("node_id"))
}

/// The hints that a request has: what the background tasks came to.
fn hints(request: &ModelRequest) -> Vec<String> {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks
        .filter_map(|block| if let ContentBlock::Hint(hint) = block { Some(hint.hint.text()) } else { None })
        .collect()
}

/// A master that starts tasks, waits between its turns, and says in the end which hints it has had.
fn patient(tasks: Vec<serde_json::Value>, pauses: Vec<u32>, worker: Agent) -> Agent {
    let count = pauses.len();
    let mut model = ScriptedModel::new("scripted")
        .turn(move |_| tasks.iter().fold(Turn::new(), |turn, task| turn.call("spawn_subagent", task)));
    for (index, pause) in pauses.into_iter().enumerate() {
        model = model.turn(move |request| {
            let turn = Turn::new().wait(SECOND * pause);
            if index + 1 < count {
                turn.call("list_tasks", json!({}))
            } else {
                let hints = hints(request).join("|");
                turn.text(if hints.is_empty() { "no hints".to_owned() } else { hints })
            }
        });
    }
    Agent::builder("master", model).tool(spawn(worker)).task_tools().build()
}

/// Every event of a reply, beside which others may still run.
async fn part(session: &Session, prompt: &str) -> Vec<Arc<Event>> {
    events_as_they_are(session.prompt(prompt).await.unwrap()).await
}

/// Every event of a session to its close.
async fn whole(session: &Session) -> Vec<Arc<Event>> {
    session.close().await;
    let mut events = Vec::new();
    let mut reader = session.subscribe(0);
    while let Some(read) = reader.next().await {
        let Read::Event(admitted) = read else { panic!("a gap") };
        events.push(admitted.event);
    }
    assert_well_formed(&events);
    assert_eq!(session.children_running(), 0);
    events
}

/// One model for the prompt "Go.", another for the rest.
struct ByPrompt(ScriptedModel, ScriptedModel);

impl Model for ByPrompt {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        if request.prompt_text() == "Go." { self.0.stream(request) } else { self.1.stream(request) }
    }
}

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn a_background_child_is_announced_with_its_task_and_its_result_is_a_hint_before_the_next_turn() {
    let agent = patient(vec![start("a", "n1")], vec![5, 0], slow("found it", 3));
    let session = agent.session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    let spawns =
        kind(&events, |kind| if let EventKind::SpawnSessionStart(spawn) = kind { Some(spawn) } else { None });
    assert_eq!(spawns.len(), 1);
    assert_eq!(spawns[0].spawn_mechanism, SpawnMechanism::AsyncWorker);
    assert_eq!(spawns[0].description, "Run n1 task (async: task_1)");
    let metadata: Vec<_> = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::SpawnSessionStart(_)))
        .map(|event| event.metadata.get_str("task_id"))
        .collect();
    assert_eq!(metadata, [Some("task_1".to_owned())]);
    // The call returned at once, as a success.
    let response = kind(own(&events), |kind| {
        if let EventKind::ToolResultEnd(end) = kind {
            Some((end.state, end.response.get_str("task_id")))
        } else {
            None
        }
    });
    assert_eq!(response[0], (ToolResultState::Success, Some("task_1".to_owned())));
    let hint = "The background task `task_1` (n1) has ended: completed.\n\nfound it";
    assert_eq!(session.messages().last().unwrap().text(), hint);
    let hints = kind(own(&events), |kind| {
        if let EventKind::HintBlock(hint) = kind { Some(hint.source.clone()) } else { None }
    });
    assert_eq!(hints, [Some("task_1".to_owned())]);
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn several_that_end_while_their_parent_is_in_mid_turn_are_told_once_each_in_the_order_of_their_ends() {
    // Both end in the parent's second turn, the later one first; a third in its fourth.
    let worker = SpawnSubagent::choosing(|args| match &*args.task {
        "slow" => slow("slow one", 3),
        "quick" => slow("quick one", 1),
        _ => slow("late one", 8),
    })
    .named_by(|args| Some(args.task.clone()));
    let tasks = [start("slow", "a"), start("quick", "b"), start("late", "c")];
    let model = ScriptedModel::new("scripted")
        .turn(move |_| tasks.iter().fold(Turn::new(), |turn, task| turn.call("spawn_subagent", task)))
        .turn(|_| Turn::new().wait(SECOND * 5).call("list_tasks", json!({})))
        .turn(|request| Turn::new().text(format!("[{}]", hints(request).len())).call("list_tasks", json!({})))
        .turn(|request| Turn::new().wait(SECOND * 5).text(format!("[{}]", hints(request).len())));
    let model = ByPrompt(model, ScriptedModel::from_fn("scripted", |_| Turn::new().text("Yes.")));
    let session = Agent::builder("master", model).tool(worker).task_tools().build().session();
    let events = part(&session, "Go.").await;
    let told = |events: &[Arc<Event>]| {
        kind(
            own(events),
            |kind| if let EventKind::HintBlock(hint) = kind { Some(hint.hint.text()) } else { None },
        )
    };
    let heads: Vec<_> = told(&events).iter().map(|hint| hint[21..].to_owned()).collect();
    assert_eq!(
        heads,
        [
            "task_2` (quick) has ended: completed.\n\nquick one",
            "task_1` (slow) has ended: completed.\n\nslow one"
        ]
    );
    assert_eq!(session.messages().last().unwrap().text(), "[2][2]");
    // The third ended after the last look, and the next prompt's turn is told.
    let events = part(&session, "And?").await;
    assert_eq!(told(&events).len(), 1);
    assert!(told(&events)[0].contains("`task_3` (late)"));
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_background_child_outlives_the_reply_and_its_events_go_on() {
    let agent = patient(vec![start("a", "n1")], vec![0], slow("one two three", 60));
    let session = agent.session();
    let reply = part(&session, "Go.").await;
    assert!(of_child(&reply, "n1").count() < 8);
    assert_eq!(session.tasks()[0].status, TaskStatus::Running);
    tokio::time::sleep(SECOND * 61).await;
    assert_eq!(session.tasks()[0].status, TaskStatus::Ended(Outcome::Completed));
    assert_eq!(session.tasks()[0].elapsed, SECOND * 60);
    let events = whole(&session).await;
    let ends = kind(of_child(&events, "n1"), |kind| {
        if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
    });
    assert_eq!(ends, [Outcome::Completed], "admitted until its own end, whatever the parent's turn did");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_reply_takes_its_background_children_with_it_unless_they_are_to_be_kept() {
    for (on_cancel, expected) in
        [(OnCancel::Stop, Outcome::Interrupted), (OnCancel::Keep, Outcome::Completed)]
    {
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("spawn_subagent", start("a", "n1")))
            .turn(|_| Turn::new().text("waiting").hang());
        let agent =
            Agent::builder("master", model).tool(spawn(slow("done", 30)).on_cancel(on_cancel)).build();
        let before = alive();
        let session = agent.session();
        let reply = session.prompt("Go.").await.unwrap();
        tokio::time::sleep(SECOND).await;
        reply.cancel();
        let events = events_as_they_are(reply).await;
        let Some(EventKind::StreamComplete(end)) = events.last().map(|event| &event.kind) else {
            panic!("no end")
        };
        assert_eq!(end.outcome, Outcome::Interrupted);
        if on_cancel == OnCancel::Stop {
            assert_eq!(alive(), before + 1, "the driver alone");
        }
        tokio::time::sleep(SECOND * 60).await;
        let events = whole(&session).await;
        let ends = kind(of_child(&events, "n1"), |kind| {
            if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
        });
        assert_eq!(ends, [expected]);
        assert_eq!(alive(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_stops_every_background_child_and_leaves_no_task() {
    let before = alive();
    let model = ScriptedModel::new("scripted")
        .turn(|_| (0..10).fold(Turn::new(), |turn, _| turn.call("spawn_subagent", start("a", "n1"))))
        .turn(|_| Turn::new().text("started"));
    let agent =
        Agent::builder("master", model).tool(spawn(slow("done", 1_000)).on_cancel(OnCancel::Keep)).build();
    let session = agent.session();
    part(&session, "Go.").await;
    assert_eq!(session.children_running(), 10);
    let events = whole(&session).await;
    let ends = kind(of_child(&events, "n1"), |kind| {
        if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
    });
    assert_eq!(ends, [Outcome::Interrupted; 10]);
    assert_eq!(alive(), before);
}

/// Wherever between two batches of a child's events the session is closed.
#[tokio::test(start_paused = true)]
async fn closing_leaves_no_place_of_a_child_that_another_in_the_background_was_about_to_announce() {
    for (beside, turns) in (0..6).flat_map(|beside| (0..12).map(move |turns| (beside, turns))) {
        let turn = move |_: &ModelRequest| {
            let turn = Turn::new().call("spawn_subagent", start("deep", "deep"));
            (0..beside).fold(turn, |turn, _| turn.call("list_tasks", json!({})))
        };
        let model = ScriptedModel::new("scripted").turn(turn).turn(|_| Turn::new().text("fine"));
        let outer = Agent::builder("outer", model).tool(spawn(slow("deep", 1))).task_tools().build();
        let session = patient(vec![start("outer", "outer")], vec![0], outer).session();
        part(&session, "Go.").await;
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        whole(&session).await;
        assert_eq!(session.children_running(), 0, "{beside} calls beside it, {turns} turns later");
        assert_eq!(alive(), 0, "{beside} calls beside it, {turns} turns later");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_session_interrupts_its_background_children_when_it_ends() {
    let before = alive();
    let agent = patient(vec![start("a", "n1")], vec![0], slow("never", 1_000));
    let finished = agent.reply_stream("Go.").finished().await.unwrap();
    assert_eq!(finished.outcome, Outcome::Completed);
    tokio::time::sleep(SECOND).await;
    assert_eq!(alive(), before);
}

#[tokio::test(start_paused = true)]
async fn a_model_checks_stops_and_lists_its_tasks() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new().call("spawn_subagent", start("a", "n1")).call("spawn_subagent", start("b", "n2"))
        })
        .turn(|_| {
            Turn::new()
                .call("check_task", json!({ "task_id": "task_1" }))
                .call("check_task", json!({ "task_id": "task_9" }))
                .call("list_tasks", json!({}))
        })
        .turn(|_| {
            Turn::new()
                .call("stop_task", json!({ "task_id": "task_2" }))
                .call("check_task", json!({ "task_id": "task_1", "wait": 100 }))
        })
        .turn(|_| {
            Turn::new()
                .call("check_task", json!({ "task_id": "task_1" }))
                .call("stop_task", json!({ "task_id": "task_2" }))
        })
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            assert!(hints(request).is_empty(), "what a tool has told is not told again");
            Turn::new().text(results.join("\n---\n"))
        });
    let worker = spawn(slow("done", 20)).described_by(|args| format!("Do {}.", args.task));
    let session = Agent::builder("master", model).tool(worker).task_tools().build().session();
    let start = tokio::time::Instant::now();
    reply_events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(start.elapsed(), SECOND * 20, "the check waited for the end, and no longer");
    insta::assert_snapshot!(session.messages().last().unwrap().text(), @r"
    `task_1` (n1) works in the background. Go on; you will be told what it came to.
    ---
    `task_2` (n2) works in the background. Go on; you will be told what it came to.
    ---
    `task_1` (n1): running for 0 s. Do a.
    ---
    there is no background task `task_9`; yours are: `task_1`, `task_2`
    ---
    `task_1` (n1): running for 0 s. Do a.
    `task_2` (n2): running for 0 s. Do b.
    ---
    The background task `task_2` (n2) has ended: interrupted.

    the sub-agent was stopped
    ---
    The background task `task_1` (n1) has ended: completed.

    done
    ---
    `task_1` (n1): completed after 20 s. Do a.
    Its result was given to you before.
    ---
    `task_2` (n2): interrupted after 0 s. Do b.
    Its result was given to you before.
    ");
    assert_eq!(session.children_running(), 0);
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_reaches_a_running_task_and_an_ended_one_goes_on_with_a_further_run() {
    let worker = ScriptedModel::from_fn("scripted", |request| {
        let said: Vec<_> = request.messages.iter().map(Message::text).collect();
        let told = hints(request);
        if request.turn == 0 && told.is_empty() && said.len() == 1 {
            // Long enough to be told something.
            return Turn::new().text("first ").call("nothing", json!({})).wait(SECOND * 5);
        }
        Turn::new().text(format!("{} messages, told {told:?}", said.len()))
    });
    let worker = Agent::builder("worker", worker).build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("a", "n1")))
        .turn(|_| Turn::new().call("message_task", json!({ "task_id": "task_1", "message": "go left" })))
        .turn(|_| Turn::new().wait(SECOND * 10).call("list_tasks", json!({})))
        .turn(|_| Turn::new().call("message_task", json!({ "task_id": "task_1", "message": "and now?" })))
        .turn(|_| Turn::new().wait(SECOND * 10).call("list_tasks", json!({})))
        .turn(|request| Turn::new().text(hints(request).join("\n")));
    let session = Agent::builder("master", model).tool(spawn(worker)).task_tools().build().session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    insta::assert_snapshot!(session.messages().last().unwrap().text(), @r#"
    The background task `task_1` (n1) has ended: completed.

    2 messages, told ["go left"]
    The background task `task_1` (n1) has ended: completed.

    3 messages, told ["go left"]
    "#);
    let runs = kind(&events, |kind| {
        if let EventKind::SpawnSessionStart(spawn) = kind {
            Some((spawn.run, spawn.tool_call_id.is_some()))
        } else {
            None
        }
    });
    assert_eq!(runs, [(Some(1), true), (Some(2), true)]);
    let prompts = kind(of_child(&events, "n1"), |kind| {
        if let EventKind::UserMessage(message) = kind { Some(message.origin) } else { None }
    });
    assert_eq!(prompts, [MessageOrigin::Parent, MessageOrigin::Steering, MessageOrigin::Parent]);
    // One hint for each run.
    let told = kind(own(&events), |kind| if let EventKind::HintBlock(_) = kind { Some(()) } else { None });
    assert_eq!(told.len(), 2);
    assert_eq!(session.tasks().len(), 1);
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_waits_for_its_own_background_children_and_reads_what_they_came_to() {
    let middle = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new().call("spawn_subagent", start("a", "deep")).call("spawn_subagent", start("b", "deep"))
        })
        .turn(|_| Turn::new().text("I have nothing else to do."))
        .turn(|request| Turn::new().text(format!("Now I know: {}", hints(request).len())))
        .turn(|request| Turn::new().text(format!("Now I know: {}", hints(request).len())));
    let middle = Agent::builder("middle", middle).tool(spawn(slow("deep result", 50))).build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new().call("spawn_subagent", json!({ "task": "m", "metadata": { "node_id": "middle" } }))
        })
        .turn(|request| Turn::new().text(request.last_result_text()));
    let session = Agent::builder("master", model).tool(spawn(middle)).build().session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    assert!(session.messages().last().unwrap().text().ends_with("Now I know: 2"));
    let ends = kind(of_child(&events, "deep"), |kind| {
        if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
    });
    assert_eq!(ends, [Outcome::Completed; 2]);
    whole(&session).await;
}

/// A sub-agent in the background may be ahead of the session's stream by a batch, and have nothing else to do before its
/// own background child has begun.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_in_the_background_waits_for_its_own_however_quick_it_is() {
    for beside in 0..8 {
        let turn = move |_: &ModelRequest| {
            let turn = Turn::new().call("spawn_subagent", start("deep", "deep"));
            (0..beside).fold(turn, |turn, _| turn.call("list_tasks", json!({})))
        };
        let outer = ScriptedModel::new("scripted")
            .turn(turn)
            .turn(|_| Turn::new().text("at once"))
            .turn(|request| Turn::new().text(hints(request).join("|")));
        let outer = Agent::builder("outer", outer).tool(spawn(slow("deep", 1))).task_tools().build();
        let session = patient(vec![start("outer", "outer")], vec![0], outer).session();
        part(&session, "Go.").await;
        tokio::time::sleep(3 * SECOND).await;
        let events = whole(&session).await;
        for name in ["deep", "outer"] {
            let ends = kind(of_child(&events, name), |kind| {
                if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
            });
            assert_eq!(ends, [Outcome::Completed], "{name}, {beside} calls beside it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_that_is_stopped_takes_its_background_children_with_it() {
    let before = alive();
    let middle = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("a", "deep")))
        .turn(|_| Turn::new().text("waiting"));
    let middle = Agent::builder("middle", middle).tool(spawn(slow("never", 1_000))).build();
    let call = json!({ "task": "m", "timeout": 10, "metadata": { "node_id": "middle" } });
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", &call))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let session = Agent::builder("master", model).tool(spawn(middle)).build().session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    let ends =
        kind(
            &events,
            |kind| if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None },
        );
    assert_eq!(ends, [Outcome::Failed, Outcome::TimedOut, Outcome::Completed], "the deepest first");
    assert_eq!(alive(), before + 1);
    assert_eq!(session.children_running(), 0);
    whole(&session).await;
}

/// What a sub-agent in the background said last may announce a child that begins when its parent has failed.
#[tokio::test(start_paused = true)]
async fn nothing_goes_on_below_a_sub_agent_in_the_background_that_failed() {
    let deep = ScriptedModel::new("scripted").turn(|_| {
        Turn::new().call("spawn_subagent", json!({ "task": "l", "metadata": { "node_id": "leaf" } }))
    });
    let deep = Agent::builder("deep", deep).tool(spawn(slow("leaf", 1_000))).build();
    let outer = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("deep", "deep")))
        .turn(|_| Turn::new());
    let outer = Agent::builder("outer", outer).tool(spawn(deep)).build();
    let session = patient(vec![start("outer", "outer")], vec![0], outer).session();
    part(&session, "Go.").await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(session.children_running(), 0);
    assert_eq!(alive(), 1, "the driver");
    let events = whole(&session).await;
    let spawned = kind(own(&events), |kind| {
        if let EventKind::SpawnSessionStart(spawn) = kind {
            Some(spawn.source_name.to_string())
        } else {
            None
        }
    });
    assert_eq!(spawned, ["outer"], "and nobody's child comes up to the root");
}

#[tokio::test(start_paused = true)]
async fn a_background_child_has_its_own_time_and_says_what_it_did() {
    let worker = ScriptedModel::new("scripted").turn(|_| Turn::new().text("so far").hang());
    let task = json!({ "task": "a", "background": true, "timeout": 7, "metadata": { "node_id": "n1" } });
    let agent = patient(vec![task], vec![10, 0], Agent::builder("worker", worker).build());
    let session = agent.session();
    reply_events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(
        session.messages().last().unwrap().text(),
        "The background task `task_1` (n1) has ended: timed_out.\n\ntimed out after 7 s\n\nBefore that, the sub-agent said:\nso far"
    );
    assert_eq!(session.tasks()[0].elapsed, SECOND * 7);
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_fork_can_work_in_the_background() {
    let worker = ScriptedModel::from_fn("scripted", |request| {
        let said: Vec<_> = request.messages.iter().map(Message::text).collect();
        Turn::new().text(said.join(" / "))
    });
    let task = json!({ "task": "Go on.", "fork": true, "background": true, "metadata": { "node_id": "n1" } });
    let agent = patient(vec![task], vec![1, 0], Agent::builder("worker", worker).build());
    let session = agent.session();
    reply_events(session.prompt("First.").await.unwrap()).await;
    let text = session.messages().last().unwrap().text();
    assert!(text.ends_with("completed.\n\nFirst. / Go on."), "{text}");
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn the_events_of_many_background_children_each_come_in_order_and_none_is_lost() {
    let worker = ScriptedModel::from_fn("scripted", |_| {
        (0..50).fold(Turn::new(), |turn, index| turn.text(format!("{index} ")))
    });
    let worker = Agent::builder("worker", worker).build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            (0..30).fold(Turn::new(), |turn, n| turn.call("spawn_subagent", start("a", &format!("n{n}"))))
        })
        .turn(|_| Turn::new().wait(SECOND).text("started"));
    let session = Agent::builder("master", model).tool(spawn(worker)).build().session();
    part(&session, "Go.").await;
    tokio::time::sleep(SECOND).await;
    let events = whole(&session).await;
    let expected = (0..50).map(|index| format!("{index} ")).collect::<Vec<_>>().concat();
    for child in 0..30 {
        let name = format!("n{child}");
        let text = kind(of_child(&events, &name), |kind| {
            if let EventKind::TextBlockDelta(delta) = kind { Some(&*delta.delta) } else { None }
        });
        assert_eq!(text.concat(), expected);
    }
    let spawned = events.iter().filter(|event| event.scope == Scope::Root);
    let spawned = kind(spawned, |kind| matches!(kind, EventKind::SpawnSessionStart(_)).then_some(()));
    assert_eq!(spawned.len(), 30);
    let counters = session.counters();
    assert_eq!((counters.fallbacks, counters.late), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn results_that_wait_to_be_read_are_bounded_in_bytes_and_a_cut_one_says_so() {
    const LONG: usize = 10 * 1024 * 1024;
    let worker = |pause: u32| {
        let model = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().wait(SECOND * pause).item(ModelItem::Text("ü".repeat(LONG / 2))));
        Agent::builder("worker", model).build()
    };
    let model = ScriptedModel::new("scripted")
        .turn(|_| (1..=3).fold(Turn::new(), |turn, task| turn.call(format!("spawn_{task}"), start("x", "n"))))
        .turn(|_| Turn::new().wait(SECOND * 10).call("list_tasks", json!({})))
        .turn(|request| {
            let hints = hints(request);
            let cut = |hint: &String| hint.ends_with("too many results have waited to be read.)");
            assert!(hints.iter().all(|hint| hint.contains("ü")));
            let told: Vec<_> = hints.iter().map(|hint| (hint.len() > LONG, cut(hint))).collect();
            assert_eq!(told, [(true, false), (false, true), (false, true)]);
            Turn::new().text("told").call("spawn_1", start("x", "n"))
        })
        // What was read has given its room back.
        .turn(|_| Turn::new().wait(SECOND * 10).call("list_tasks", json!({})))
        .turn(|request| Turn::new().text(hints(request).last().unwrap().len().to_string()));
    let mut agent = Agent::builder("master", model).task_tools();
    for task in 1..=3 {
        agent = agent.tool(spawn(worker(task)).as_tool(format!("spawn_{task}"), ""));
    }
    let finished = agent.build().reply_stream("Go.").finished().await.unwrap();
    let last: usize = finished.text().parse().unwrap_or_else(|_| panic!("{}", finished.text()));
    assert!(last > LONG, "{last}");
}
