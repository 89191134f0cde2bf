//! Work in the background: one name for each task, its true end, told once, to whoever started it, in every run.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_proto::{
    ContentBlock, ErrorType, Event, EventKind, Message, Outcome, SessionId, ToolResultState,
};
use anabranch_runtime::{
    Agent, Limits, ModelError, ModelRequest, OnCancel, ScriptedModel, Session, SpawnSubagent, TaskStatus,
    Turn,
};
use serde_json::json;

use super::{announced, results, terminals};
use crate::support::{assert_well_formed, events, events_as_they_are, kind, of_child, own};

const SECOND: Duration = Duration::from_secs(1);

fn start(task: &str) -> serde_json::Value {
    json!({ "task": task, "background": true, "metadata": { "node_id": task } })
}

/// A sub-agent that does as its task says.
fn worker(task: &str) -> Agent {
    let turn = match task {
        "fails" => Turn::new().text("so far").fail(ModelError::new(ErrorType::UPSTREAM, "the model is away")),
        "fails at once" => Turn::new().fail(ModelError::new(ErrorType::UPSTREAM, "the model is away")),
        "panics" => Turn::new().panic("at sea"),
        "is silent" => Turn::new(),
        "hangs" => Turn::new().text("so far").hang(),
        "hangs silently" => Turn::new().hang(),
        "is slow" => Turn::new().wait(SECOND * 60).text("done"),
        _ => Turn::new().text("done"),
    };
    Agent::builder("worker", ScriptedModel::from_fn("scripted", move |_| turn.clone())).build()
}

fn spawn() -> SpawnSubagent {
    SpawnSubagent::choosing(|args| worker(&args.task)).named_by(|args| args.metadata_str("node_id"))
}

fn hints(request: &ModelRequest) -> Vec<String> {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks
        .filter_map(|block| if let ContentBlock::Hint(hint) = block { Some(hint.hint.text()) } else { None })
        .collect()
}

/// Every hint on a stream: its source and its text.
fn hinted(events: &[Arc<Event>]) -> Vec<(String, String)> {
    kind(events, |kind| {
        let EventKind::HintBlock(hint) = kind else { return None };
        Some((hint.source.as_deref().unwrap_or_default().to_owned(), hint.hint.text()))
    })
}

async fn whole(session: &Session) -> Vec<Arc<Event>> {
    session.close().await;
    assert_eq!(session.children_running(), 0);
    events(session.subscribe(0)).await
}

fn master(model: ScriptedModel) -> Agent {
    Agent::builder("master", model).tool(spawn()).task_tools().build()
}

#[tokio::test(start_paused = true)]
async fn a_task_has_one_name_and_what_became_of_it_is_said_as_it_was() {
    let before = "\n\nBefore that, the sub-agent said:\nso far";
    let cases = [
        ("works", "completed", "done".to_owned()),
        ("fails", "failed", format!("the model is away{before}")),
        ("fails at once", "failed", "the model is away".to_owned()),
        ("panics", "failed", "the model panicked: at sea".to_owned()),
        ("is silent", "failed", "the model answered with nothing".to_owned()),
        ("hangs", "timed_out", format!("timed out after 5 s{before}")),
        ("hangs silently", "timed_out", "timed out after 5 s".to_owned()),
        ("stopped", "interrupted", format!("the sub-agent was stopped{before}")),
        ("stopped silently", "interrupted", "the sub-agent was stopped".to_owned()),
    ];
    for (task, outcome, text) in cases {
        let mut call = start(&task.replace("stopped", "hangs"));
        call["timeout"] = json!(if task.starts_with("stopped") { 1_000 } else { 5 });
        let model = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().call("spawn_subagent", &call))
            .turn(|_| Turn::new().wait(SECOND * 10).call("list_tasks", json!({})))
            .turn(|request| Turn::new().text(hints(request).join("|")));
        let session = master(model).session();
        let reply = session.prompt("Go.").await.unwrap();
        tokio::time::sleep(SECOND).await;
        if task.starts_with("stopped") {
            session.cancel_session(&session.tasks()[0].session_id).unwrap();
        }
        let seen = events(reply).await;
        let name =
            if task.starts_with("stopped") { task.replace("stopped", "hangs") } else { task.to_owned() };
        let hint = format!("The background task `task_1` ({name}) has ended: {outcome}.\n\n{text}");
        assert_eq!(hinted(&seen), [("task_1".to_owned(), hint.clone())], "{task}");
        assert_eq!(session.messages()[1].text(), hint, "{task}");
        // The announcement, the call's result and the list name it so too; the result says of no outcome, for there is none.
        let announcement = own(&seen).find(|event| matches!(event.kind, EventKind::SpawnSessionStart(_)));
        assert_eq!(announcement.unwrap().metadata.get_str("task_id").as_deref(), Some("task_1"));
        let responses = kind(own(&seen), |kind| {
            if let EventKind::ToolResultEnd(end) = kind { Some(&end.response) } else { None }
        });
        assert_eq!(responses[0].get_str("task_id").as_deref(), Some("task_1"));
        assert_eq!(responses[0].get("outcome"), None);
        let tasks = session.tasks();
        assert_eq!((tasks.len(), &*tasks[0].task_id), (1, "task_1"));
        let TaskStatus::Ended(ended) = tasks[0].status else { panic!("{task} has ended") };
        assert_eq!(ended.as_str(), outcome, "{task}");
        assert_eq!(terminals(&whole(&session).await)[0], (&*name, ended));
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_a_task_gives_what_it_has_done_and_stopping_it_again_changes_nothing() {
    let stop = |task: &str| json!({ "task_id": task });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("hangs")).call("spawn_subagent", start("works")))
        .turn(|_| Turn::new().wait(SECOND).call("list_tasks", json!({})))
        .turn(move |_| {
            let turn = Turn::new().call("stop_task", stop("task_1")).call("stop_task", stop("task_2"));
            turn.call("stop_task", stop("task_3"))
        })
        .turn(move |_| Turn::new().call("stop_task", stop("task_1")))
        .turn(|request| Turn::new().text(results(request).split_off(3).join("\n---\n")));
    let session = master(model).session();
    let began = tokio::time::Instant::now();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(began.elapsed(), SECOND, "a task that hangs is stopped at once");
    insta::assert_snapshot!(session.messages()[1].text(), @r"
    success: The background task `task_1` (hangs) has ended: interrupted.

    the sub-agent was stopped

    Before that, the sub-agent said:
    so far
    ---
    success: `task_2` (works): completed after 0 s. Run works task
    Its result was given to you before.
    ---
    error: there is no background task `task_3`; yours are: `task_1`, `task_2`
    ---
    success: `task_1` (hangs): interrupted after 1 s. Run hangs task
    Its result was given to you before.
    ");
    let told: Vec<_> = hinted(&seen).into_iter().map(|(source, _)| source).collect();
    assert_eq!(told, ["task_2"], "the other was given by the tool");
    let seen = whole(&session).await;
    let ends = terminals(&seen).into_iter().collect::<HashMap<_, _>>();
    assert_eq!((ends["hangs"], ends["works"]), (Outcome::Interrupted, Outcome::Completed));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_task_neither_stops_it_nor_takes_its_result_from_another_twice() {
    let check = |wait: u32| json!({ "task_id": "task_1", "wait": wait });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("is slow")))
        .turn(move |_| Turn::new().call("check_task", check(1)).call("check_task", check(2)))
        .turn(move |_| Turn::new().call("check_task", check(600)).call("check_task", check(600)))
        .turn(|request| {
            assert_eq!(hints(request), Vec::<String>::new(), "whoever waited was told");
            let told = results(request).split_off(1);
            assert!(told[0].contains("running for 1 s") && told[1].contains("running for 2 s"), "{told:?}");
            // Which of two that wait has it is nobody's business.
            let now = |told: &&String| told.ends_with("has ended: completed.\n\ndone");
            let before = |told: &&String| told.ends_with("Its result was given to you before.");
            Turn::new().text(format!(
                "{} {}",
                told.iter().filter(now).count(),
                told.iter().filter(before).count()
            ))
        });
    let session = master(model).session();
    let began = tokio::time::Instant::now();
    events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(began.elapsed(), SECOND * 60);
    assert_eq!(session.messages()[1].text(), "1 1");
    // And nobody later.
    assert_eq!(hinted(&whole(&session).await), []);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_child_that_ended_at_once_is_told() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new()
                .call("spawn_subagent", start("works"))
                .call("check_task", json!({ "task_id": "task_1", "wait": 600 }))
        })
        .turn(|request| Turn::new().text(results(request).join("\n")));
    let session = master(model).session();
    let began = tokio::time::Instant::now();
    events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(session.messages()[1].text().ends_with("has ended: completed.\n\ndone"));
    let child = session.spawn(&worker("works"), "Go.").await.unwrap();
    while session.children_running() > 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(SECOND).await;
    assert_eq!(child.finished().await.unwrap().text(), "done");
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn many_that_end_at_once_are_each_told_once_over_all_replies() {
    const TASKS: usize = 40;
    let model = ScriptedModel::from_fn("scripted", |request| match (&*request.prompt_text(), request.turn) {
        ("Go.", 0) => (0..TASKS).fold(Turn::new(), |turn, _| turn.call("spawn_subagent", start("is slow"))),
        ("Go.", _) => Turn::new().wait(SECOND * 60).text("I wait no longer."),
        _ => Turn::new().text("Yes."),
    });
    let session = master(model).session();
    for prompt in ["Go.", "And?", "And now?"] {
        events_as_they_are(session.prompt(prompt).await.unwrap()).await;
        tokio::time::sleep(SECOND).await;
    }
    let seen = whole(&session).await;
    let sources: Vec<_> = hinted(&seen).into_iter().map(|(source, _)| source).collect();
    assert_eq!((sources.len(), sources.into_iter().collect::<BTreeSet<_>>().len()), (TASKS, TASKS));
}

#[tokio::test(start_paused = true)]
async fn a_limit_refuses_a_task_with_a_reason_stops_none_and_forgets_none() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("is slow")).call("spawn_subagent", start("works")))
        .turn(|request| {
            Turn::new().text(results(request).join("\n")).wait(SECOND * 61).call("list_tasks", json!({}))
        })
        .turn(|_| Turn::new().call("spawn_subagent", start("works")))
        .turn(|_| Turn::new().call("check_task", json!({ "task_id": "task_2", "wait": 1 })))
        .turn(|request| Turn::new().text(format!("\n{}", results(request).pop().unwrap())));
    let agent =
        Agent::builder("master", model).tool(spawn()).task_tools().limits(Limits::default().max_running(1));
    let session = agent.build().session();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    insta::assert_snapshot!(session.messages()[1].text(), @r"
    success: `task_1` (is slow) works in the background. Go on; you will be told what it came to.
    error: 1 sub-agent is running, which is the limit; wait for it to end
    success: The background task `task_2` (works) has ended: completed.

    done
    ");
    assert_eq!((announced(&seen), session.tasks().len()), (2, 2), "a task that was refused is none");
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_resumed_child_comes_to_goes_to_its_own_parent_in_every_run() {
    let leaf = Agent::builder(
        "leaf",
        ScriptedModel::from_fn("scripted", |request| {
            let said: Vec<_> = request.messages.iter().map(Message::text).collect();
            Turn::new().wait(SECOND).text(format!("leaf: {}", said.join("/")))
        }),
    );
    let message = |text: &str| json!({ "task_id": "task_1", "message": text });
    let middle = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("one")))
        .turn(|_| Turn::new().wait(SECOND * 2).call("list_tasks", json!({})))
        .turn(move |_| Turn::new().call("message_task", message("two")))
        .turn(|_| Turn::new().wait(SECOND * 2).call("list_tasks", json!({})))
        .turn(move |_| Turn::new().call("message_task", message("three")))
        // It says that it is done, and goes on when it is told of the third.
        .turn(|_| Turn::new().text("I wait."))
        .turn(|request| Turn::new().text(hints(request).join("|")));
    let middle = Agent::builder("middle", middle)
        .tool(SpawnSubagent::new(leaf.build()).named_by(|_| Some("leaf".to_owned())))
        .task_tools();
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new().call("spawn_subagent", json!({ "task": "m", "metadata": { "node_id": "middle" } }))
        })
        .turn(|request| Turn::new().text(format!("{}", hints(request).len())));
    let session = Agent::builder("master", model)
        .tool(SpawnSubagent::new(middle.build()).named_by(|_| Some("middle".to_owned())))
        .build()
        .session();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(session.messages()[1].text(), "0", "the root was told of no task that is not its own");
    let told = hinted(&seen).into_iter().map(|(_, text)| text.lines().last().unwrap_or_default().to_owned());
    assert_eq!(
        told.collect::<Vec<_>>(),
        ["leaf: one", "leaf: one/leaf: one/two", "leaf: one/leaf: one/two/leaf: one/leaf: one/two/three"]
    );
    assert!(
        seen.iter()
            .filter(|event| matches!(event.kind, EventKind::HintBlock(_)))
            .all(|event| { event.scope.child().is_some_and(|child| &*child.source_name == "middle") })
    );
    // One session, three runs, each below the middle one.
    let runs: BTreeSet<_> = of_child(&seen, "leaf")
        .map(|event| {
            let scope = event.scope.child().unwrap();
            (scope.child_session_id.clone(), scope.subagent_id.clone(), scope.depth, scope.run)
        })
        .collect();
    assert_eq!(
        runs.iter().map(|(.., depth, run)| (*depth, *run)).collect::<Vec<_>>(),
        [(2, 1), (2, 2), (2, 3)]
    );
    assert_eq!(runs.iter().map(|(session, ..)| session).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(session.tasks().len(), 1);
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_is_idle_or_answers_something_else_ends_no_child_of_its_own() {
    let model = ScriptedModel::from_fn("scripted", |request| match (&*request.prompt_text(), request.turn) {
        ("Go.", 0) => Turn::new().call("spawn_subagent", start("is slow")),
        _ => Turn::new().text(hints(request).len().to_string()),
    });
    let session = master(model).session();
    for (prompt, wait) in [("Go.", 20), ("And?", 10), ("And now?", 60), ("So?", 0)] {
        events_as_they_are(session.prompt(prompt).await.unwrap()).await;
        tokio::time::sleep(SECOND * wait).await;
    }
    let said: Vec<_> = session.messages().iter().map(Message::text).collect();
    assert_eq!(said, ["Go.", "0", "And?", "0", "And now?", "0", "So?", "1"]);
    assert_eq!(session.tasks()[0].elapsed, SECOND * 60);
    let seen = whole(&session).await;
    let ends: Vec<_> = terminals(&seen).into_iter().filter(|(name, _)| *name == "is slow").collect();
    assert_eq!(ends, [("is slow", Outcome::Completed)]);
}

/// A master of one task that has a task of its own, which has one in its turn.
fn tasks_of_tasks(levels: u32) -> Agent {
    if levels == 0 {
        return worker("hangs");
    }
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            let call =
                |name: &str| json!({ "task": "x", "background": true, "metadata": { "node_id": name } });
            Turn::new().call("spawn_subagent", call("a")).call("spawn_subagent", call("b"))
        })
        .turn(|_| Turn::new().text("I wait."));
    let below = SpawnSubagent::new(tasks_of_tasks(levels - 1)).on_cancel(OnCancel::Keep);
    Agent::builder("master", model).tool(below).build()
}

#[tokio::test(start_paused = true)]
async fn tasks_of_tasks_end_before_those_that_started_them_and_once() {
    for by_close in [true, false] {
        let session = tasks_of_tasks(3).session();
        events_as_they_are(session.prompt("Go.").await.unwrap()).await;
        tokio::time::sleep(SECOND).await;
        assert_eq!(session.children_running(), 14);
        if !by_close {
            // One of the upper two, and all below it.
            session.cancel_session(&session.tasks()[0].session_id).unwrap();
            tokio::time::sleep(SECOND).await;
            assert_eq!(session.children_running(), 7, "its sibling and all below that go on");
        }
        let seen = whole(&session).await;
        let mut ended: HashMap<SessionId, usize> = HashMap::new();
        let mut parents = Vec::new();
        for (at, event) in seen.iter().enumerate() {
            if let (EventKind::StreamComplete(end), Some(child)) = (&event.kind, event.scope.child()) {
                assert_eq!(ended.insert(child.child_session_id.clone(), at), None, "one terminal each");
                assert_ne!(end.outcome, Outcome::Completed);
                parents.push((child.child_session_id.clone(), child.parent_session_id.clone()));
            }
        }
        assert_eq!(ended.len(), 14);
        for (child, parent) in parents.iter().filter(|(_, parent)| parent != session.id()) {
            assert!(ended[child] < ended[parent], "{by_close}");
        }
    }
}

/// Counts what is dropped.
struct Counts(Arc<AtomicUsize>);
impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_reply_stops_the_children_of_its_background_children_too() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let hang = anabranch_pipeline::FunctionTool::new("hang", "", move |_: crate::support::Nothing, _| {
        let counts = Counts(Arc::clone(&count));
        async move {
            std::future::pending::<()>().await;
            drop(counts);
            Ok::<_, String>("")
        }
    });
    let leaf = ScriptedModel::new("scripted").turn(|_| Turn::new().call("hang", json!({})));
    let leaf = Agent::builder("leaf", leaf).tool(hang).build();
    let middle = ScriptedModel::new("scripted").turn(|_| {
        Turn::new().call("spawn_subagent", json!({ "task": "x" })).call("spawn_subagent", start("y"))
    });
    let middle = Agent::builder("middle", middle).tool(SpawnSubagent::new(leaf).on_own_tasks()).build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("m")))
        .turn(|_| Turn::new().text("I think.").hang());
    let session = Agent::builder("master", model).tool(SpawnSubagent::new(middle)).build().session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!((session.children_running(), ended.load(Ordering::SeqCst)), (3, 0));
    session.cancel();
    let seen = events(reply).await;
    assert_eq!((session.children_running(), ended.load(Ordering::SeqCst)), (0, 2));
    assert!(terminals(&seen).iter().all(|(_, outcome)| *outcome == Outcome::Interrupted));
    assert_eq!(terminals(&seen).len(), 4);
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_fork_and_a_task_are_on_the_stream_like_any_other_child() {
    for (fork, background) in [(true, false), (false, true), (true, true)] {
        let call = json!({ "task": "works", "fork": fork, "background": background, "metadata": { "node_id": "n1" } });
        let model = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().text("I ask.").call("spawn_subagent", &call))
            .turn(|_| Turn::new().wait(SECOND).text("end"));
        let session = master(model).session();
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        assert_well_formed(&seen);
        let tags: Vec<_> = of_child(&seen, "n1").map(|event| event.kind.tag()).collect();
        assert_eq!(
            tags,
            [
                "USER_MESSAGE",
                "REPLY_START",
                "MODEL_CALL_START",
                "TEXT_BLOCK_START",
                "TEXT_BLOCK_DELTA",
                "TEXT_BLOCK_END",
                "MODEL_CALL_END",
                "REPLY_END",
                "STREAM_COMPLETE"
            ],
            "{fork} {background}"
        );
        // Its words are no part of its parent's message, whatever it started from.
        assert_eq!(session.messages()[1].text(), "I ask.end");
        let states =
            kind(
                own(&seen),
                |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None },
            );
        assert_eq!(states, [ToolResultState::Success]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_can_go_on_and_what_is_unknown_is_said_to_the_model() {
    let message = |task: &str| json!({ "task_id": task, "message": "Go on." });
    let model =
        ScriptedModel::from_fn("scripted", move |request| match (&*request.prompt_text(), request.turn) {
            ("Go.", 0) => Turn::new().call("spawn_subagent", start("hangs")),
            ("Go.", _) => Turn::new().text("I think.").hang(),
            (_, 0) => {
                Turn::new().call("message_task", message("task_1")).call("message_task", message("task_7"))
            }
            _ => Turn::new().text(results(request).join("\n")),
        });
    let session = master(model).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND).await;
    session.cancel();
    reply.finished().await.unwrap();
    let seen = events_as_they_are(session.prompt("And?").await.unwrap()).await;
    assert_eq!(
        session.messages()[3].text(),
        "success: `task_1` (hangs) works in the background. Go on; you will be told what it came to.\n\
         error: there is no background task `task_7`; yours are: `task_1`"
    );
    assert_eq!((announced(&seen), hinted(&seen).len()), (1, 1), "that it was stopped is told all the same");
    whole(&session).await;
}
