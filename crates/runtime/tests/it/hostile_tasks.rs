//! Background children, children that code spawns and children on own tasks, where tools, layers, models and callers
//! misbehave: nothing hangs, nothing is left, nothing is lost or said twice.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use anabranch_pipeline::{ActingLayer, ActingStream, CallItem, FunctionTool, Next, ToolCall, ToolContext};
use anabranch_proto::{ContentBlock, Event, EventKind, Outcome};
use anabranch_runtime::{
    Agent, Limits, Model, ModelItem, ModelRequest, ModelStream, OnCancel, Read, ScriptedModel, Session,
    Spawn, SpawnSubagent, TaskStatus, Turn,
};
use futures::{FutureExt, StreamExt, stream};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{Nothing, events, events_as_they_are, kind, of_child, own, says};

const SECOND: Duration = Duration::from_secs(1);

fn start(task: &str) -> serde_json::Value {
    json!({ "task": task, "background": true, "metadata": { "node_id": task } })
}

fn agent(name: &str, turn: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static) -> Agent {
    Agent::builder(name, ScriptedModel::from_fn("scripted", turn)).build()
}

fn hangs() -> Agent {
    agent("hangs", |_| Turn::new().text("so far").hang())
}

fn named(worker: Agent) -> SpawnSubagent {
    SpawnSubagent::new(worker).named_by(|args| args.metadata_str("node_id"))
}

fn hints(request: &ModelRequest) -> Vec<String> {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks
        .filter_map(|block| if let ContentBlock::Hint(hint) = block { Some(hint.hint.text()) } else { None })
        .collect()
}

fn hinted(events: &[Arc<Event>]) -> Vec<String> {
    kind(events, |kind| if let EventKind::HintBlock(hint) = kind { Some(hint.hint.text()) } else { None })
}

async fn whole(session: &Session) -> Vec<Arc<Event>> {
    soon(session.close()).await;
    assert_eq!(session.children_running(), 0, "a place is taken after the end");
    events(session.subscribe(0)).await
}

/// Fails where something would never come.
async fn soon<F: std::future::Future>(future: F) -> F::Output {
    timeout(SECOND * 3_600, future).await.expect("it hangs")
}

/// Drops the announcements of children, and whatever else its function says.
struct Loses(fn(&EventKind) -> bool);

impl ActingLayer for Loses {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let lost = self.0;
        ActingStream::boxed(next.run(call, context).filter(move |item| {
            let is_lost = matches!(item, CallItem::Event(event) if lost(&event.kind));
            std::future::ready(!is_lost)
        }))
    }
}

fn announcement(kind: &EventKind) -> bool {
    matches!(kind, EventKind::SpawnSessionStart(_))
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_waits_for_its_tasks_however_soon_it_is_done_itself() {
    // Its own announcements are still on their way when it has nothing more to say.
    for in_background in [true, false] {
        let middle = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("spawn_subagent", start("leaf")))
            .turn(|_| Turn::new().text("I wait."))
            .turn(|request| Turn::new().text(hints(request).concat()));
        let leaf = agent("leaf", |_| Turn::new().wait(SECOND).text("leaf"));
        let middle = Agent::builder("middle", middle).tool(named(leaf)).build();
        let spawn = if in_background { named(middle) } else { named(middle).on_own_tasks() };
        let call = json!({ "task": "x", "background": in_background, "metadata": { "node_id": "middle" } });
        let model = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().call("spawn_subagent", &call))
            .turn(|_| Turn::new().wait(SECOND * 5).text("end"));
        let session = Agent::builder("master", model).tool(spawn).build().session();
        soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
        let seen = whole(&session).await;
        let ends = kind(seen.iter().filter(|event| event.scope.depth() > 0), |kind| {
            if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
        });
        assert_eq!(ends, [Outcome::Completed; 2], "{in_background}");
        assert!(hinted(&seen)[0].ends_with("leaf"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_announcement_a_layer_lost_is_none_and_nobody_waits_for_it() {
    for lost in [announcement, (|_| true) as fn(&EventKind) -> bool] {
        let model = ScriptedModel::new("scripted")
            .turn(|_| {
                let turn = Turn::new().call("spawn_subagent", start("leaf"));
                turn.call("stop_task", json!({ "task_id": "task_1" }))
                    .call("check_task", json!({ "task_id": "task_1", "wait": 600 }))
            })
            .turn(|_| Turn::new().call("stop_task", json!({ "task_id": "task_1" })))
            .turn(|request| Turn::new().text(request.last_result_text()));
        let agent =
            Agent::builder("master", model).tool(named(hangs())).task_tools().layer(Loses(lost)).build();
        let session = agent.session();
        let began = tokio::time::Instant::now();
        let finished = soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
        assert_eq!(finished.text(), "there is no background task `task_1`; you have started none");
        assert_eq!((began.elapsed(), session.children_running()), (Duration::ZERO, 0));
        whole(&session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_whose_announcements_a_layer_above_lost_comes_to_its_end() {
    for lost in [announcement, (|_| true) as fn(&EventKind) -> bool] {
        let middle = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("spawn_subagent", start("leaf")))
            .turn(|_| Turn::new().text("I wait."));
        let middle = Agent::builder("middle", middle).tool(named(hangs())).build();
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("spawn_subagent", json!({ "task": "x" })))
            .turn(|request| Turn::new().text(request.last_result_text()));
        let agent =
            Agent::builder("master", model).tool(SpawnSubagent::new(middle)).layer(Loses(lost)).build();
        let session = agent.session();
        let began = tokio::time::Instant::now();
        let finished = soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
        assert_eq!(finished.text(), "I wait.");
        assert!(began.elapsed() < SECOND * 100, "{:?}", began.elapsed());
        assert_eq!(session.children_running(), 0);
        whole(&session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_goes_on_before_it_was_told_is_told_of_each_of_its_runs() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("w")))
        // It ends while the model thinks, after the hints were given.
        .turn(|_| {
            Turn::new()
                .call("wait", json!({}))
                .call("message_task", json!({ "task_id": "task_1", "message": "On." }))
        })
        .turn(|_| Turn::new().wait(SECOND).call("list_tasks", json!({})))
        .turn(|request| Turn::new().text(hints(request).join("|")));
    let wait = FunctionTool::new("wait", "", |_: Nothing, _| async {
        tokio::time::sleep(SECOND).await;
        Ok::<_, String>("waited")
    });
    let slow = agent("slow", move |request| {
        let turn = if request.messages.len() == 1 { Turn::new() } else { Turn::new().wait(SECOND / 2) };
        turn.text(format!("run {}", request.messages.len()))
    });
    let session = Agent::builder("master", model)
        .tool(named(slow))
        .tool(wait.exclusive())
        .task_tools()
        .build()
        .session();
    soon(events(session.prompt("Go.").await.unwrap())).await;
    let told = session.messages()[1].text();
    assert_eq!(told.matches("has ended: completed").count(), 2, "{told}");
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_further_run_is_as_the_first_was_bounded_named_and_kept() {
    let worker = agent("worker", |request| {
        if request.messages.len() == 1 { Turn::new().text("done") } else { Turn::new().text("so far").hang() }
    });
    let mut call = start("w");
    call["timeout"] = json!(7);
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", &call))
        .turn(|_| {
            Turn::new().wait(SECOND).call("message_task", json!({ "task_id": "task_1", "message": "On." }))
        })
        .turn(|_| Turn::new().text("waiting").hang());
    let spawn = named(worker).described_by(|_| "Do it.".to_owned()).on_cancel(OnCancel::Keep);
    let session = Agent::builder("master", model).tool(spawn).task_tools().build().session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 3).await;
    session.cancel();
    soon(reply.finished()).await.unwrap();
    assert_eq!(session.tasks()[0].status, TaskStatus::Running, "it is to be kept");
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(session.tasks()[0].status, TaskStatus::Ended(Outcome::TimedOut));
    let seen = whole(&session).await;
    let spawns: Vec<_> = seen
        .iter()
        .filter_map(|event| {
            let EventKind::SpawnSessionStart(spawn) = &event.kind else { return None };
            Some((spawn.run, spawn.description.as_str(), event.metadata.get_str("node_id")))
        })
        .collect();
    let w = || Some("w".to_owned());
    assert_eq!(spawns, [(Some(1), "Do it.", w()), (Some(2), "Do it.", w())]);
    assert!(of_child(&seen, "w").all(|event| event.metadata.get_str("node_id") == w()));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_tasks_reads_what_is_said_to_it() {
    let middle = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("leaf")))
        .turn(|_| Turn::new().text("I wait."))
        .turn(|_| Turn::new().text("I heard."))
        .turn(|_| Turn::new().text("Done."));
    let leaf = agent("leaf", |_| Turn::new().wait(SECOND * 100).text("leaf"));
    let middle = Agent::builder("middle", middle).tool(named(leaf)).build();
    let session = crate::support::master(middle, vec![crate::support::node("x", "middle")]).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND).await;
    let child = session.with_tree(|tree| tree.children(session.id()).next().unwrap().id.clone());
    session.steer(&child, "Hear!").unwrap();
    tokio::time::sleep(SECOND).await;
    let seen = session.subscribe(0).take_until(tokio::time::sleep(SECOND)).collect::<Vec<_>>().await;
    let has_heard = seen.iter().any(|read| {
        matches!(read, Read::Event(admitted) if matches!(&admitted.event.kind, EventKind::TextBlockDelta(delta) if delta.delta.contains("heard")))
    });
    assert!(has_heard, "after 2 seconds, not after 100");
    soon(reply.finished()).await.unwrap();
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_of_codes_that_the_sessions_end_overtakes_comes_to_nothing_and_says_so() {
    let session = says("master", "Yes.").session();
    let child = session.spawn(&hangs(), "Go.").await.unwrap();
    whole(&session).await;
    soon(child.finished()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_child_of_codes_that_the_end_of_a_reply_stops_was_interrupted_and_its_session_lives() {
    let session = agent("master", |_| Turn::new().text("I think.").hang()).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    assert!(reply.next().await.is_some());
    let child = session.spawn(&hangs(), "Go.").await.unwrap();
    tokio::time::sleep(SECOND).await;
    session.cancel();
    soon(reply.finished()).await.unwrap();
    assert_eq!(soon(child.finished()).await.unwrap().outcome, Outcome::Interrupted);
    whole(&session).await;
}

/// A model that is always ready and never at its end.
struct Talks(String);

impl Model for Talks {
    fn name(&self) -> &str {
        &self.0
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        stream::repeat_with(|| Ok(ModelItem::Text("word ".to_owned()))).boxed()
    }
}

fn talks() -> Agent {
    Agent::builder("talks", Talks("talks".to_owned()))
        .limits(Limits::default().model_output(usize::MAX))
        .build()
}

#[tokio::test]
async fn a_background_child_that_is_always_ready_starves_no_prompt_no_timer_and_no_end() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let model = ScriptedModel::from_fn("scripted", |request| match (&*request.prompt_text(), request.turn) {
        ("Go.", 0) => (0..30).fold(Turn::new(), |turn, _| turn.call("spawn_subagent", start("talks"))),
        _ => Turn::new().text("Yes."),
    });
    let before = alive();
    let session = Agent::builder("master", model).tool(named(talks())).build().session();
    let limit = Duration::from_secs(20);
    timeout(limit, session.prompt("Go.").await.unwrap().finished()).await.expect("the reply ends").unwrap();
    assert_eq!(session.children_running(), 30);
    let next = timeout(limit, session.prompt("And?").await.unwrap().finished()).await;
    assert_eq!(next.expect("the prompt is answered").unwrap().text(), "Yes.");
    tokio::time::sleep(Duration::from_millis(5)).await;
    // Nobody can prompt it any more: the session ends, and the child with it.
    drop(session);
    let gone = async {
        while alive() > before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(limit, gone).await.expect("the session ends");
}

/// A model that calls for a background child, and is at it until the runtime takes no task any more.
struct Waits {
    calls: ScriptedModel,
    begins: mpsc::Sender<()>,
    goes_on: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Model for Waits {
    fn name(&self) -> &str {
        self.calls.name()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        if request.turn > 0 {
            return self.calls.stream(request);
        }
        let (begins, goes_on) = (self.begins.clone(), Arc::clone(&self.goes_on));
        let stream = self.calls.stream(request).inspect(move |_| {
            begins.send(()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
            std::thread::sleep(Duration::from_millis(50));
        });
        stream.boxed()
    }
}

#[test]
fn a_runtime_that_is_shut_down_when_a_task_starts_is_no_deadlock() {
    let (begins, begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let calls = ScriptedModel::new("scripted").turn(|_| Turn::new().call("spawn_subagent", start("w")));
        let model = Waits { calls, begins, goes_on: Arc::new(Mutex::new(goes_on)) };
        let reply = runtime.block_on(async {
            let session = Agent::builder("master", model).tool(named(hangs())).build().session();
            session.prompt("Go.").await.unwrap()
        });
        begun.recv().unwrap();
        go_on.send(()).unwrap();
        drop(runtime);
        drop(reply);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(10)).expect("it is a deadlock");
}

/// A model that panics when it is dropped.
struct Bites(ScriptedModel);

impl Model for Bites {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.0.stream(request)
    }
}

impl Drop for Bites {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "bitten");
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_that_panics_when_it_is_dropped_takes_no_end_with_it() {
    for (large, background) in [(false, true), (true, true), (false, false)] {
        // What is too large to be kept is dropped with the run; the other when the session is.
        let spawn = SpawnSubagent::choosing(move |_| {
            let said = if large { "x".repeat(15 * 1024 * 1024) } else { "x".to_owned() };
            let model = ScriptedModel::from_fn("scripted", move |_| {
                Turn::new().item(ModelItem::Text(said.clone())).item(ModelItem::Text(said.clone()))
            });
            let limits = Limits::default().model_output(usize::MAX);
            Agent::builder("worker", Bites(model)).limits(limits).build()
        });
        let spawn = if background { spawn } else { spawn.on_own_tasks() };
        let call = json!({ "task": "x", "background": background });
        let model = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().call("spawn_subagent", &call))
            .turn(|_| Turn::new().wait(SECOND).call("list_tasks", json!({})))
            .turn(|_| Turn::new().text("end"));
        let agent = Agent::builder("master", model).tool(spawn).task_tools();
        let session = agent.limits(Limits::default().stall(Duration::ZERO)).build().session();
        let reader = session.subscribe(0);
        soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
        if background {
            assert_eq!(session.tasks()[0].status, TaskStatus::Ended(Outcome::Completed), "{large}");
        }
        assert_eq!(session.children_running(), 0);
        soon(session.close()).await;
        let ends = reader
            .filter_map(|read| {
                let Read::Event(admitted) = read else { return std::future::ready(None) };
                let EventKind::StreamComplete(end) = &admitted.event.kind else {
                    return std::future::ready(None);
                };
                std::future::ready(Some(end.outcome))
            })
            .collect::<Vec<_>>()
            .await;
        assert_eq!(ends, [Outcome::Completed; 2], "{large} {background}");
        // The last handle drops the template, and panics or not; that is the application's.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(session))).ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_context_that_outlives_its_run_spawns_nothing() {
    for in_background in [true, false] {
        let kept: Arc<Mutex<Option<ToolContext>>> = Arc::default();
        let keep = Arc::clone(&kept);
        let leak = FunctionTool::new("leak", "", move |_: Nothing, context| {
            *keep.lock().unwrap() = Some(context);
            async { Ok::<_, String>("") }
        });
        let worker = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("leak", json!({})))
            .turn(|_| Turn::new().text("done"));
        let worker = Agent::builder("worker", worker).tool(leak).build();
        let call = json!({ "task": "x", "background": in_background });
        let model = ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().call("spawn_subagent", &call))
            .turn(|_| Turn::new().wait(SECOND * 5).text("end"));
        let session = Agent::builder("master", model).tool(SpawnSubagent::new(worker)).build().session();
        let reply = session.prompt("Go.").await.unwrap();
        tokio::time::sleep(SECOND).await;
        let context = kept.lock().unwrap().take().unwrap();
        assert!(context.custom("late", &1).await.is_err());
        let spawned =
            Spawn::new(&context, "late", "Go.").map(|spawn| spawn.background(&hangs(), OnCancel::Keep));
        assert!(spawned.is_err(), "{in_background}");
        soon(reply.finished()).await.unwrap();
        assert_eq!(session.children_running(), 0);
        whole(&session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_on_its_own_task_whose_stream_a_tool_moves_away_holds_up_no_end() {
    let moves = FunctionTool::new("moves", "", |_: Nothing, context: ToolContext| async move {
        let spawn = Spawn::new(&context, "moved", "Go.").map_err(|error| error.to_string())?;
        let mut stream = spawn.on_own_task().run(&hangs());
        // Polled by somebody who does not belong to the call.
        tokio::spawn(async move { while stream.next().await.is_some() {} });
        tokio::time::sleep(SECOND).await;
        Ok::<_, String>("moved")
    });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("moves", json!({})))
        .turn(|_| Turn::new().text("end"));
    let session = Agent::builder("master", model).tool(moves).build().session();
    soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
    assert_eq!(session.children_running(), 0);
    whole(&session).await;
}

/// Gives the announcement of a child again when a further run of it is asked for. It names no call, so that the new one
/// may give it.
struct Remembers(Arc<Mutex<Option<Event>>>);

impl ActingLayer for Remembers {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let old = if &*call.name == "message_task" { self.0.lock().unwrap().take() } else { None };
        let old = stream::iter(old.map(|event| CallItem::Event(Arc::new(event))));
        ActingStream::boxed(old.chain(next.run(call, context).inspect(move |item| {
            if let CallItem::Event(event) = item
                && let EventKind::SpawnSessionStart(spawn) = &event.kind
            {
                let mut old = Event::clone(event);
                let mut spawn = spawn.clone();
                spawn.tool_call_id = None;
                old.kind = (*spawn).into();
                *self.0.lock().unwrap() = Some(old);
            }
        })))
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_announcement_ends_no_further_run() {
    let worker = agent("worker", |request| Turn::new().text(format!("run {}", request.messages.len())));
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("w")))
        .turn(|_| {
            Turn::new().wait(SECOND).call("message_task", json!({ "task_id": "task_1", "message": "On." }))
        })
        .turn(|_| Turn::new().wait(SECOND).call("list_tasks", json!({})))
        .turn(|request| Turn::new().text(hints(request).pop().unwrap_or_default()));
    let agent =
        Agent::builder("master", model).tool(named(worker)).task_tools().layer(Remembers(Arc::default()));
    let session = agent.build().session();
    let finished = soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
    assert!(finished.text().ends_with("completed.\n\nrun 3"), "{}", finished.text());
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_a_cut_call_took_is_told_later() {
    // Wherever the reply is cancelled: what the task came to is told once, by the tool or by a hint.
    let mut told_by_tool = 0;
    for position in 0..140 {
        let model = ScriptedModel::from_fn("scripted", move |request| {
            match (&*request.prompt_text(), request.turn) {
                ("Go.", 0) => Turn::new().call("spawn_subagent", start("w")),
                ("Go.", 1) => (0..30)
                    .fold(Turn::new(), |turn, _| turn.text("word "))
                    .call("check_task", json!({ "task_id": "task_1", "wait": 60 })),
                ("Go.", _) => Turn::new().text("I have it.").hang(),
                _ => Turn::new().text("Yes."),
            }
        });
        let worker = agent("w", |_| Turn::new().wait(SECOND).text("the answer"));
        let session = Agent::builder("master", model).tool(named(worker)).task_tools().build().session();
        let mut reply = session.prompt("Go.").await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..position {
            let Some(Some(Read::Event(admitted))) = timeout(SECOND * 5, reply.next()).await.ok() else {
                break;
            };
            seen.push(admitted.event);
        }
        session.cancel();
        seen.extend(soon(events_as_they_are(reply)).await);
        soon(session.prompt("And?").await.unwrap().finished()).await.unwrap();
        let seen = whole(&session).await;
        let by_tool = kind(own(&seen), |kind| {
            if let EventKind::ToolResultTextDelta(delta) = kind { Some(delta.delta.clone()) } else { None }
        });
        let by_tool = by_tool.iter().filter(|text| text.contains("has ended")).count();
        let by_hint = hinted(&seen).len();
        told_by_tool += by_tool;
        let is_started = kind(own(&seen), |kind| announcement(kind).then_some(())).len();
        assert_eq!(by_tool + by_hint, is_started, "cancelled after {position} events");
    }
    assert!(told_by_tool > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn wherever_a_tree_of_tasks_is_cancelled_nothing_is_left() {
    fn tree(levels: u32) -> Agent {
        if levels == 0 {
            return agent("leaf", |_| Turn::new().text("a b c").wait(Duration::from_micros(300)).text("d"));
        }
        let model = ScriptedModel::new("scripted")
            .turn(|_| {
                let (with, without) = (json!({ "task": "x", "background": true }), json!({ "task": "x" }));
                Turn::new().call("spawn_subagent", &with).call("own", &without).call("spawn_subagent", &with)
            })
            .turn(|_| Turn::new().text("I wait."));
        let model_2 = model
            .turn(|_| Turn::new().text("On."))
            .turn(|_| Turn::new().text("On."))
            .turn(|_| Turn::new().text("On."));
        let below = tree(levels - 1);
        Agent::builder("middle", model_2)
            .tool(SpawnSubagent::new(below.clone()))
            .tool(SpawnSubagent::new(below).as_tool("own", "").on_own_tasks())
            .build()
    }
    let agent = tree(3);
    let cancelled = AtomicUsize::new(0);
    for round in 0..80_u64 {
        let session = agent.session();
        let reply = session.prompt("Go.").await.unwrap();
        tokio::time::sleep(Duration::from_micros(round * 37 % 4_000)).await;
        session.cancel();
        let finished = timeout(SECOND * 20, reply.finished()).await.expect("the reply ends").unwrap();
        if finished.outcome == Outcome::Interrupted {
            cancelled.fetch_add(1, Ordering::SeqCst);
            assert_eq!(session.children_running(), 0, "round {round}");
            let running =
                session.tasks().into_iter().filter(|task| task.status == TaskStatus::Running).count();
            assert_eq!(running, 0, "round {round}");
        }
        timeout(SECOND * 20, session.close()).await.expect("the session ends");
        assert_eq!(session.children_running(), 0, "round {round}");
        events(session.subscribe(0)).await;
    }
    assert!(cancelled.load(Ordering::SeqCst) > 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_children_of_code_begin_end_and_are_given_up_at_any_moment() {
    let limits = Limits::default().max_running(2_000).max_spawned(20_000);
    let model = ScriptedModel::from_fn("scripted", |_| Turn::new().text("Yes."));
    for round in 0..10_u64 {
        let session = Agent::builder("master", model.clone()).limits(limits).build().session();
        let spawning = (0..200_u64).map(|index| {
            let session = session.clone();
            async move {
                let worker = says("worker", "hi");
                let spawned =
                    timeout(Duration::from_micros(index * 7 % 500), session.spawn(&worker, "Go.")).await;
                if let Ok(Ok(child)) = spawned {
                    // Or the session's end was quicker.
                    let result = child.finished().await;
                    assert!(result.is_err() || result.is_ok_and(|result| result.outcome != Outcome::Failed));
                }
            }
        });
        let spawning: Vec<_> = spawning.map(tokio::spawn).collect();
        for _ in 0..3 {
            session.prompt("And?").await.unwrap().finished().await.unwrap();
        }
        tokio::time::sleep(Duration::from_micros(round * 300)).await;
        timeout(SECOND * 20, session.close()).await.expect("the session ends");
        for child in spawning {
            timeout(SECOND * 20, child).await.expect("each is told").unwrap();
        }
        assert_eq!(session.children_running(), 0);
        events(session.subscribe(0)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_asks_after_the_reply_has_ended_is_answered_between_replies() {
    use anabranch_runtime::{Answer, Permissions};
    let worker = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().wait(SECOND * 5).call("echo", json!({ "text": "x" })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let worker = Agent::builder("worker", worker).tool(crate::support::echo()).build();
    let mut call = start("w");
    call["timeout"] = json!(10);
    let model =
        ScriptedModel::from_fn("scripted", move |request| match (&*request.prompt_text(), request.turn) {
            ("Go.", 0) => Turn::new().call("spawn_subagent", &call),
            _ => Turn::new().text(hints(request).concat()),
        });
    let agent =
        Agent::builder("master", model).tool(named(worker)).permissions(Permissions::new().ask("echo"));
    let session = agent.build().session();
    soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
    tokio::time::sleep(SECOND * 1_000).await;
    let questions = session.questions();
    assert_eq!(questions.len(), 1, "its time stands still");
    session.answer(&questions[0].session_id, &questions[0].call.id, Answer::allow()).unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(session.tasks()[0].status, TaskStatus::Ended(Outcome::Completed));
    let finished = soon(session.prompt("And?").await.unwrap().finished()).await.unwrap();
    assert!(finished.text().ends_with("\n\nx"), "{}", finished.text());
    whole(&session).await;
    assert!(session.prompt("More?").now_or_never().unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn the_time_of_all_who_wait_stands_still_while_a_task_asks_and_runs_on_from_there() {
    use anabranch_runtime::{Answer, Permissions};
    for (work, expected) in [(1, Outcome::Completed), (20, Outcome::TimedOut)] {
        let leaf = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().wait(SECOND * 5).call("echo", json!({ "text": "x" })))
            .turn(move |request| Turn::new().wait(SECOND * work).text(request.last_result_text()));
        let leaf = Agent::builder("leaf", leaf).tool(crate::support::echo()).build();
        let middle = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("spawn_subagent", start("leaf")))
            .turn(|_| Turn::new().text("I wait."))
            .turn(|request| Turn::new().text(hints(request).concat()));
        let middle = Agent::builder("middle", middle).tool(named(leaf)).build();
        for on_own_task in [false, true] {
            let call = json!({ "task": "x", "timeout": 10, "metadata": { "node_id": "middle" } });
            let spawn =
                if on_own_task { named(middle.clone()).on_own_tasks() } else { named(middle.clone()) };
            let model = ScriptedModel::new("scripted")
                .turn(move |_| Turn::new().call("spawn_subagent", &call))
                .turn(|request| Turn::new().text(request.last_result_text()));
            let agent =
                Agent::builder("master", model).tool(spawn).permissions(Permissions::new().ask("echo"));
            let session = agent.build().session();
            let reply = session.prompt("Go.").await.unwrap();
            tokio::time::sleep(SECOND * 1_000).await;
            let questions = session.questions();
            assert_eq!(questions.len(), 1, "nobody's time is over");
            let answered = tokio::time::Instant::now();
            session.answer(&questions[0].session_id, &questions[0].call.id, Answer::allow()).unwrap();
            soon(reply.finished()).await.unwrap();
            assert_eq!(answered.elapsed(), SECOND * work.min(5), "5 of 10 seconds were left");
            let seen = whole(&session).await;
            let ends = kind(of_child(&seen, "middle"), |kind| {
                if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
            });
            assert_eq!(ends, [expected], "{on_own_task}");
        }
    }
}

/// Drops the second announcement.
struct LosesTheSecond(AtomicUsize);
impl ActingLayer for LosesTheSecond {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        ActingStream::boxed(next.run(call, context).filter(move |item| {
            let is_one = matches!(item, CallItem::Event(event) if announcement(&event.kind));
            std::future::ready(!is_one || self.0.fetch_add(1, Ordering::SeqCst) != 1)
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_further_run_that_never_began_takes_nothing_from_the_one_before() {
    let worker = agent("worker", |request| Turn::new().text(format!("run {}", request.messages.len())));
    // A layer loses the announcement of the second run, the third is given up by its tool; the fourth begins.
    let give_up = FunctionTool::new("give_up", "", |args: crate::support::Text, context| async move {
        let session = args.text.into();
        Spawn::again(&context, &session, "On.").map(|_| "given up").map_err(|error| error.to_string())
    });
    let session_id: Arc<Mutex<Option<String>>> = Arc::default();
    let told = Arc::clone(&session_id);
    let message = || json!({ "task_id": "task_1", "message": "On." });
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("w")))
        .turn(move |_| Turn::new().wait(SECOND).call("message_task", message()))
        .turn(move |_| Turn::new().call("give_up", json!({ "text": told.lock().unwrap().clone().unwrap() })))
        .turn(|_| Turn::new().call("list_tasks", json!({})))
        .turn(move |request| {
            assert!(
                request.last_result_text().contains("completed after 0 s"),
                "{}",
                request.last_result_text()
            );
            Turn::new().call("message_task", message())
        })
        .turn(|_| Turn::new().wait(SECOND).call("list_tasks", json!({})))
        .turn(|request| Turn::new().text(hints(request).join("|")));
    let agent = Agent::builder("master", model)
        .tool(named(worker))
        .tool(give_up)
        .task_tools()
        .layer(LosesTheSecond(AtomicUsize::new(0)));
    let session = agent.build().session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND / 2).await;
    *session_id.lock().unwrap() = Some(session.tasks()[0].session_id.to_string());
    let finished = soon(reply.finished()).await.unwrap();
    let told = finished.text();
    assert!(told.ends_with("run 3") && told.matches("has ended: completed").count() == 2, "{told}");
    assert_eq!(session.tasks().len(), 1);
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn the_last_256_that_ended_can_go_on_and_of_the_others_the_model_is_told_that_they_cannot() {
    let worker = agent("worker", |request| Turn::new().text(request.messages.len().to_string()));
    let message = |number: usize| json!({ "task_id": format!("task_{number}"), "message": "On." });
    let model = ScriptedModel::new("scripted")
        .turn(|_| (0..300).fold(Turn::new(), |turn, _| turn.call("spawn_subagent", start("w"))))
        .turn(|_| Turn::new().wait(SECOND).call("list_tasks", json!({})))
        .turn(move |_| (1..=300).fold(Turn::new(), |turn, number| turn.call("message_task", message(number))))
        .turn(|request| {
            let results: Vec<_> = request.results().collect();
            let refused = |text: String| text.starts_with("nothing is kept of the session");
            let refused = results[301..].iter().filter(|result| refused(result.output.text())).count();
            assert_eq!((results.len() - 301, refused), (300, 44));
            Turn::new().wait(SECOND).call("list_tasks", json!({}))
        })
        .turn(|request| Turn::new().text(hints(request).len().to_string()));
    let agent = Agent::builder("master", model).tool(named(worker)).task_tools();
    let session = agent.limits(Limits::default().max_running(300)).build().session();
    assert_eq!(soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap().text(), "556");
    whole(&session).await;
}

/// Ends a call as soon as it has let an event pass.
struct CutsAfterAnEvent;

impl ActingLayer for CutsAfterAnEvent {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let mut inner = Some(next.run(call, context));
        ActingStream::boxed(stream::poll_fn(move |cx| {
            let Some(running) = &mut inner else { return std::task::Poll::Ready(None) };
            let item = std::task::ready!(running.poll_next_unpin(cx));
            if matches!(item, Some(CallItem::Event(_))) {
                inner = None;
            }
            std::task::Poll::Ready(item)
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_call_is_cut_behind_its_announcement_works_and_is_told() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", start("w")))
        .turn(|_| Turn::new().wait(SECOND).text("end"));
    let model_of_second = |request: &ModelRequest| Turn::new().text(hints(request).concat());
    let agent = Agent::builder("master", model.turn(model_of_second))
        .tool(named(agent("worker", |_| Turn::new().wait(SECOND / 2).text("done"))))
        .layer(CutsAfterAnEvent);
    let session = agent.build().session();
    soon(session.prompt("Go.").await.unwrap().finished()).await.unwrap();
    soon(session.prompt("And?").await.unwrap().finished()).await.unwrap();
    let seen = whole(&session).await;
    assert!(hinted(&seen)[0].ends_with("completed.\n\ndone"));
    assert_eq!(hinted(&seen).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_call_is_cut_is_withdrawn_and_a_task_whose_call_is_bounded_is_not() {
    use anabranch_pipeline::ToolDefinition;
    use anabranch_runtime::{Answer, AnswerError, ExternalTool, ToolTimeout};
    let browse = ExternalTool::new(ToolDefinition::typed::<crate::support::Text>("browse", ""));
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("browse", json!({ "text": "x" })).call("spawn_subagent", start("w")))
        .turn(|_| Turn::new().wait(SECOND * 60).call("list_tasks", json!({})))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(format!("{} / {}", results[0], results[2]))
        });
    let agent = Agent::builder("master", model)
        .tool(browse)
        .tool(named(agent("worker", |_| Turn::new().wait(SECOND * 30).text("done"))))
        .task_tools()
        .layer(ToolTimeout::new(SECOND * 5).unwrap());
    let session = agent.build().session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND).await;
    let question = session.questions().pop().unwrap();
    tokio::time::sleep(SECOND * 9).await;
    assert_eq!(session.questions(), []);
    let late = session.answer(&question.session_id, &question.call.id, Answer::output("x"));
    assert!(matches!(late, Err(AnswerError::NotOpen { .. })));
    let seen = soon(events(reply)).await;
    assert_eq!(
        session.messages()[1].text(),
        "`browse` timed out after 5 s / `task_1` (w): completed after 30 s. Run w task"
    );
    assert_eq!(hinted(&seen).len(), 1);
    whole(&session).await;
}
