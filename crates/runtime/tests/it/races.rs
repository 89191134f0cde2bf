//! What several threads do to one session at once: whatever comes first, nothing is lost, said twice or left.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{Admitted, Event, EventKind, Outcome, event::MessageOrigin};
use anabranch_runtime::{
    Agent, Answer, Limits, ModelRequest, Permissions, Read, ScriptedModel, Session, Spawn, SpawnSubagent,
    TaskStatus, Team, Turn,
};
use anabranch_session::{AppendError, Batch, EventLog, LogError, MemoryLog};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use serde_json::json;
use tokio::{sync::watch, time::timeout};

use crate::support::{Text, events, kind, own, says};

const MILLISECOND: Duration = Duration::from_millis(1);

fn agent(name: &str, turn: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static) -> Agent {
    Agent::builder(name, ScriptedModel::from_fn("scripted", turn)).build()
}

/// Fails where something would never come.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(20), future).await.expect("it hangs")
}

/// Every event of a session to its close, when nothing is left of it.
async fn whole(session: &Session) -> Vec<Arc<Event>> {
    soon(session.close()).await;
    assert_eq!(session.children_running(), 0);
    assert!(session.tasks().iter().all(|task| task.status != TaskStatus::Running));
    assert_eq!(session.questions(), []);
    events(session.subscribe(0)).await
}

fn steered(events: &[Arc<Event>]) -> usize {
    let is_steering = |kind: &EventKind| matches!(kind, EventKind::UserMessage(message) if message.origin == MessageOrigin::Steering);
    events.iter().filter(|event| is_steering(&event.kind)).count()
}

/// A tree of children of every kind.
fn tree(levels: u32) -> Agent {
    if levels == 0 {
        return agent("leaf", |_| Turn::new().text("a b c").wait(MILLISECOND / 5).text("d"));
    }
    let model = ScriptedModel::from_fn("scripted", |request| match request.turn {
        0 => {
            let (here, behind) = (json!({ "task": "x" }), json!({ "task": "x", "background": true }));
            let turn = Turn::new().call("spawn_subagent", &behind).call("own", &here);
            turn.call("spawn_subagent", &here).call("team", &here).call("spawn_subagent", &behind)
        }
        _ => Turn::new().text("ok"),
    });
    let below = tree(levels - 1);
    let team = Team::parallel("team").member(says("one", "hi")).member(says("two", "ho"));
    Agent::builder("middle", model)
        .tool(SpawnSubagent::new(below.clone()))
        .tool(SpawnSubagent::new(below).as_tool("own", "").on_own_tasks())
        .tool(SpawnSubagent::team(team).as_tool("team", "").on_own_tasks())
        .limits(Limits::default().max_running(1_000))
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_tree_of_all_kinds_of_children_is_stopped_anywhere() {
    let agent = tree(2);
    for round in 0..40_usize {
        let session = agent.session();
        for prompt in 0..3 {
            let mut reply = session.prompt("Go.").await.unwrap();
            for _ in 0..(round * 13 + prompt * 7) % 300 {
                if soon(reply.next()).await.is_none() {
                    break;
                }
            }
            match round % 4 {
                0 => session.cancel(),
                1 => reply.cancel(),
                2 => drop(tokio::spawn({
                    let session = session.clone();
                    async move { session.close().await }
                })),
                _ => {}
            }
            soon(reply.collect::<Vec<_>>()).await;
            if round % 4 == 2 {
                break;
            }
        }
        whole(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_was_said_to_a_run_is_read_by_it_once() {
    for round in 0..100_u64 {
        let session = agent("agent", |request| Turn::new().text(request.turn.to_string())).session();
        let reply = session.prompt("Go.").await.unwrap();
        let says = session.clone();
        let said = tokio::spawn(async move {
            let mut said = 0;
            for word in 0..20 {
                said += usize::from(says.steer(says.id(), format!("{word}")).is_ok());
                std::thread::sleep(MILLISECOND / 500 * u32::try_from(round % 7).unwrap());
            }
            said
        });
        assert_eq!(soon(reply.finished()).await.unwrap().outcome, Outcome::Completed);
        let said = said.await.unwrap();
        assert_eq!(steered(&whole(&session).await), said, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_message_that_meets_the_end_of_a_task_is_read_or_begins_a_run_or_is_refused() {
    let worker = agent("worker", |request| Turn::new().text(request.messages.len().to_string()));
    let model = ScriptedModel::from_fn("scripted", |request| match request.turn {
        0 => Turn::new().call("spawn_subagent", json!({ "task": "x", "background": true })),
        turn @ 1..40 => {
            let message = json!({ "task_id": "task_1", "message": turn.to_string() });
            Turn::new().wait(MILLISECOND / 60 * (turn % 20)).call("message_task", message)
        }
        40 => Turn::new().wait(MILLISECOND * 20).call("list_tasks", json!({})),
        _ => Turn::new().text("end"),
    });
    for round in 0..12 {
        let agent =
            Agent::builder("master", model.clone()).tool(SpawnSubagent::new(worker.clone())).task_tools();
        let session = agent.build().session();
        soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
        let seen = whole(&session).await;
        let count = |is: fn(&EventKind) -> bool| seen.iter().filter(|event| is(&event.kind)).count();
        let runs = count(|kind| matches!(kind, EventKind::SpawnSessionStart(_)));
        assert_eq!(
            count(|kind| matches!(kind, EventKind::HintBlock(_))),
            runs,
            "round {round}: one hint a run"
        );
        let told = kind(own(&seen), |kind| {
            if let EventKind::ToolResultTextDelta(delta) = kind { Some(delta.delta.as_str()) } else { None }
        });
        let taken = told.iter().filter(|text| text.ends_with("will read it next.")).count();
        assert_eq!(steered(&seen), taken, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_answer_that_meets_a_cancel_runs_the_call_once_or_never() {
    for round in 0..80_u32 {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let write = FunctionTool::new("write", "", move |args: Text, _| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, String>(args.text) }
        });
        let worker = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("write", json!({ "text": "x" })))
            .turn(|_| Turn::new().text("done"));
        let worker = Agent::builder("worker", worker).tool(write).build();
        let call = json!({ "task": "x", "background": round % 2 == 0 });
        let model = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().call("spawn_subagent", &call))
            .turn(|_| Turn::new().text("end").wait(MILLISECOND));
        let agent = Agent::builder("master", model)
            .tool(SpawnSubagent::new(worker).on_own_tasks())
            .permissions(Permissions::new().ask("write"));
        let session = agent.build().session();
        let reply = session.prompt("Go.").await.unwrap();
        let answers = session.clone();
        let answered = tokio::spawn(async move {
            loop {
                if let Some(question) = answers.questions().pop() {
                    return answers.answer(&question.session_id, &question.call.id, Answer::allow()).is_ok();
                }
                if answers.prompt("Is it over?").now_or_never().is_some_and(|reply| reply.is_err()) {
                    return false;
                }
                tokio::task::yield_now().await;
            }
        });
        tokio::time::sleep(MILLISECOND / 50 * (round % 80)).await;
        session.cancel();
        soon(reply.finished()).await.unwrap();
        whole(&session).await;
        assert!(ran.load(Ordering::SeqCst) <= usize::from(soon(answered).await.unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_cancel_after_a_replys_end_stops_the_next_one() {
    let model = ScriptedModel::from_fn("scripted", |request| match (&*request.prompt_text(), request.turn) {
        ("Go.", 0) => (0..8).fold(Turn::new(), |turn, _| turn.call("spawn_subagent", json!({ "task": "x" }))),
        ("Go.", _) => Turn::new().text("end"),
        _ => Turn::new().text("so far").hang(),
    });
    let spawn = SpawnSubagent::new(says("worker", "hi")).on_own_tasks();
    let agent = Agent::builder("master", model).tool(spawn).build();
    for _ in 0..200 {
        let session = agent.session();
        let (first, second) = (session.prompt("Go.").await.unwrap(), session.prompt("And?").await.unwrap());
        assert_eq!(soon(first.finished()).await.unwrap().outcome, Outcome::Completed);
        session.cancel();
        assert_eq!(soon(second.finished()).await.unwrap().outcome, Outcome::Interrupted);
    }
}

/// A log that takes so many events.
#[derive(Debug)]
struct Small(MemoryLog, Mutex<usize>);

impl EventLog for Small {
    fn append(&self, events: &[Admitted]) -> Result<(), AppendError> {
        let mut left = self.1.lock().unwrap();
        *left = left.checked_sub(events.len()).ok_or(AppendError::Full)?;
        self.0.append(events)
    }

    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>> {
        self.0.read(after, max)
    }

    fn appended(&self) -> watch::Receiver<u64> {
        self.0.appended()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_log_that_is_full_anywhere_leaves_nothing() {
    let agent = tree(2);
    for events in (1..330).step_by(5) {
        let log = Arc::new(Small(MemoryLog::new(), Mutex::new(events)));
        let session = agent.session_builder().log(log).start().unwrap();
        let reply = session.prompt("Go.").await.unwrap();
        soon(reply.finished()).await.ok();
        soon(session.close()).await;
        assert_eq!(session.children_running(), 0, "{events}");
        assert!(session.tasks().iter().all(|task| task.status != TaskStatus::Running), "{events}");
        let mut reader = session.subscribe(0);
        let mut read = 0;
        while let Some(Read::Event(admitted)) = reader.next().await {
            read += 1;
            assert_eq!(admitted.seq, read);
        }
    }
}

/// Says how many of it are in the middle of their work.
struct AtWork(Arc<AtomicUsize>);

impl AtWork {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_task_has_ended_when_all_it_had_started_is_gone() {
    for how in ["stopped", "timed out", "by itself"] {
        let (at_work, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, has_begun) = (Arc::clone(&at_work), Arc::clone(&begun));
        // What is at work on a thread is stopped where it next waits, not before.
        let leaf = agent("leaf", move |_| {
            let _at_work = AtWork::new(&count);
            has_begun.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(MILLISECOND * 300);
            Turn::new().text("x").hang()
        });
        let has_begun = Arc::clone(&begun);
        let leave = FunctionTool::new("leave", "", move |_: Text, context| {
            let (leaf, begun) = (leaf.clone(), Arc::clone(&has_begun));
            async move {
                let spawn = Spawn::new(&context, "leaf", "Go.").map_err(|error| error.to_string())?;
                let mut child = spawn.on_own_task().run(&leaf);
                // Its task starts with the first look at it.
                while begun.load(Ordering::SeqCst) == 0 {
                    timeout(MILLISECOND, child.next()).await.ok();
                }
                if how != "by itself" {
                    std::future::pending::<()>().await;
                }
                Ok::<_, String>("left")
            }
        });
        let middle = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("leave", json!({ "text": "x" })))
            .turn(|_| Turn::new().text("done"));
        let middle = Agent::builder("middle", middle).tool(leave).build();
        let timeout = if how == "timed out" { 1 } else { 60 };
        let call = json!({ "task": "x", "background": true, "timeout": timeout });
        let model = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().call("spawn_subagent", &call))
            .turn(|_| Turn::new().text("end"));
        let session = Agent::builder("master", model).tool(SpawnSubagent::new(middle)).build().session();
        let mut reader = session.subscribe(0);
        soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
        soon(async {
            while begun.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(MILLISECOND).await;
            }
        })
        .await;
        if how == "stopped" {
            session.cancel_session(&session.tasks()[0].session_id).unwrap();
        }
        let ended = async {
            while let Some(Read::Event(admitted)) = reader.next().await {
                let event = &admitted.event;
                if event.scope.depth() == 1 && matches!(event.kind, EventKind::StreamComplete(_)) {
                    return at_work.load(Ordering::SeqCst);
                }
            }
            panic!("no end")
        };
        assert_eq!(soon(ended).await, 0, "{how}");
        whole(&session).await;
        assert_eq!(at_work.load(Ordering::SeqCst), 0, "{how}");
    }
}
