//! Whoever needs leave, or a result from elsewhere, waits alone, is asked once, and has its own answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::{
    ActingLayer, ActingStream, CallItem, FunctionTool, Next, Tool, ToolCall, ToolContext, ToolDefinition,
    ToolInvocation, ToolStream,
};
use anabranch_proto::{Event, EventKind, Outcome, PermissionRule, SpawnMechanism, ToolResultState};
use anabranch_runtime::{
    Agent, Answer, AnswerError, ExternalTool, Limits, ModelRequest, Permission, Permissions, Question, Read,
    Reply, ScriptedModel, Session, SpawnSubagent, Team, Turn,
};
use futures::{FutureExt, StreamExt, stream};
use serde_json::json;

use super::{announced, report, results_in, terminals, who};
use crate::support::{Text, assert_well_formed, echo, events, kind, node, of_child, own};

/// How often the tool `write` ran.
type Ran = Arc<AtomicUsize>;

fn write(ran: &Ran) -> impl Tool + use<> {
    let ran = Arc::clone(ran);
    FunctionTool::new("write", "", move |args: Text, _| {
        ran.fetch_add(1, Ordering::SeqCst);
        let failed = args.text == "to a full disk";
        async move { if failed { Err("the disk is full".to_owned()) } else { Ok(format!("wrote {}", args.text)) } }
    })
}

fn browse() -> ExternalTool {
    ExternalTool::new(ToolDefinition::typed::<Text>("browse", ""))
}

/// An agent that uses a tool once, where its prompt does not say otherwise, and reports.
fn uses(tool: &'static str, ran: &Ran) -> Agent {
    let model = ScriptedModel::from_fn("scripted", move |request| match request.turn {
        0 if request.prompt_text() == "Rest." => Turn::new().text("rested"),
        0 => Turn::new().call(tool, json!({ "text": "x" })),
        _ => report(request),
    });
    Agent::builder("worker", model).tool(write(ran)).tool(browse()).build()
}

fn named(worker: Agent) -> SpawnSubagent {
    SpawnSubagent::new(worker).named_by(|args| args.metadata_str("node_id"))
}

fn asking() -> Permissions {
    Permissions::new().ask("write")
}

/// A master of one call that reports, and whose tree asks before it writes.
fn master(spawn: impl Tool + 'static, call: serde_json::Value) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", &call))
        .turn(report)
        .turn(report);
    Agent::builder("master", model).tool(spawn).permissions(asking()).build()
}

/// Reads until so many questions were asked; what was read, and the questions that are open.
async fn until_asked(session: &Session, reply: &mut Reply, count: usize) -> (Vec<Arc<Event>>, Vec<Question>) {
    let (mut seen, mut asked) = (Vec::new(), 0);
    while asked < count {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended after {asked} questions") };
        let asks = matches!(
            admitted.event.kind,
            EventKind::RequireUserConfirm(_) | EventKind::RequireExternalExecution(_)
        );
        asked += usize::from(asks);
        seen.push(admitted.event);
    }
    (seen, session.questions())
}

fn answer(session: &Session, question: &Question, answer: Answer) {
    session.answer(&question.session_id, &question.call.id, answer).unwrap();
}

async fn rest(mut seen: Vec<Arc<Event>>, reply: Reply) -> Vec<Arc<Event>> {
    seen.extend(events(reply).await);
    assert_well_formed(&seen);
    seen
}

fn count(events: &[Arc<Event>], tag: &str) -> usize {
    events.iter().filter(|event| event.kind.tag() == tag).count()
}

/// A sub-agent that runs alone: nothing else of the turn runs beside it.
struct Alone(SpawnSubagent);

impl Tool for Alone {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        self.0.call(invocation, context)
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_asks_neither_ends_its_call_nor_parks_its_parent_nor_is_run_again() {
    for is_exclusive in [false, true] {
        let ran = Ran::default();
        let spawn = named(uses("write", &ran));
        let session = if is_exclusive {
            master(Alone(spawn), node("x", "n1")).session()
        } else {
            master(spawn, node("x", "n1")).session()
        };
        let mut reply = session.prompt("Go.").await.unwrap();
        let (seen, questions) = until_asked(&session, &mut reply, 1).await;
        // For minutes nothing happens at all: nobody spins, nothing is spawned and nobody is asked again.
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert!(reply.next().now_or_never().is_none());
        assert_eq!((announced(&seen), session.questions().len(), ran.load(Ordering::SeqCst)), (1, 1, 0));
        assert_eq!(count(&seen, "TOOL_RESULT_END"), 0, "the call has no result, and no success least of all");

        answer(&session, &questions[0], Answer::allow());
        let seen = rest(seen, reply).await;
        assert_eq!((announced(&seen), ran.load(Ordering::SeqCst)), (1, 1));
        assert_eq!(count(&seen, "REQUIRE_USER_CONFIRM"), 1);
        assert_eq!(session.messages()[1].text(), "success: success: wrote x");
    }
}

#[tokio::test]
async fn a_reply_that_asked_is_one_reply_and_a_prompt_meanwhile_waits_for_its_turn() {
    let ran = Ran::default();
    let model = ScriptedModel::from_fn("scripted", |request| match (&*request.prompt_text(), request.turn) {
        ("Go.", 0) => Turn::new().text("I ask. ").call("write", json!({ "text": "x" })),
        ("Go.", _) => report(request),
        _ => Turn::new().text("Yes?"),
    });
    let agent = Agent::builder("agent", model).tool(write(&ran)).permissions(asking()).build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, questions) = until_asked(&session, &mut reply, 1).await;
    let next = session.prompt("Are you there?").await.unwrap();
    answer(&session, &questions[0], Answer::allow());
    let seen = rest(seen, reply).await;
    assert_eq!(
        (count(&seen, "REPLY_START"), count(&seen, "REPLY_END"), count(&seen, "USER_MESSAGE")),
        (1, 1, 1)
    );
    assert_eq!(next.finished().await.unwrap().text(), "Yes?");
    let texts: Vec<_> = session.messages().iter().map(anabranch_proto::Message::text).collect();
    assert_eq!(texts, ["Go.", "I ask. success: wrote x", "Are you there?", "Yes?"]);
}

#[tokio::test]
async fn a_rule_that_comes_with_an_answer_leaves_no_question_beside_it_pending() {
    let ran = Ran::default();
    let both = |turn: Turn| turn.call("write", json!({ "text": "a" })).call("write", json!({ "text": "b" }));
    let model = ScriptedModel::new("scripted")
        .turn(move |_| both(Turn::new()))
        .turn(move |_| both(Turn::new()))
        .turn(report);
    let agent = Agent::builder("agent", model).tool(write(&ran)).permissions(asking()).build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, questions) = until_asked(&session, &mut reply, 2).await;
    let always = PermissionRule::new("write", "allow", "user");
    answer(&session, &questions[0], Answer::allow().remember([always]));
    // What was asked before the rule is still for the person to answer, and can be refused.
    assert_eq!(session.questions(), questions[1..]);
    answer(&session, &questions[1], Answer::deny());
    let seen = rest(seen, reply).await;
    assert_eq!((count(&seen, "REQUIRE_USER_CONFIRM"), count(&seen, "USER_CONFIRM_RESULT")), (2, 2));
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    let states: Vec<_> = results_in(&session.messages()).into_iter().map(|(state, _)| state).collect();
    let (ran, denied) = (ToolResultState::Success, ToolResultState::Denied);
    assert_eq!(states, [ran, denied, ran, ran]);
}

/// An agent that asks by this tool, beside a call that needs nobody.
fn asks_beside(tool: &'static str, ran: &Ran) -> Agent {
    let model = ScriptedModel::from_fn("scripted", move |request| match request.turn {
        0 if request.prompt_text() == "Go." => {
            Turn::new().call(tool, json!({ "text": "x" })).call("echo", json!({ "text": "meanwhile" }))
        }
        _ => Turn::new().text(states(request)),
    });
    Agent::builder("agent", model).tool(write(ran)).tool(browse()).tool(echo()).permissions(asking()).build()
}

fn states(request: &ModelRequest) -> String {
    let states = results_in(&request.messages).into_iter().map(|(state, _)| state.as_str().to_owned());
    states.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn calls_beside_one_that_asks_go_on_and_an_interruption_ends_all_without_another_model_call() {
    for tool in ["write", "browse"] {
        let ran = Ran::default();
        let session = asks_beside(tool, &ran).session();
        let mut reply = session.prompt("Go.").await.unwrap();
        let (mut seen, questions) = until_asked(&session, &mut reply, 1).await;
        while count(&seen, "TOOL_RESULT_END") == 0 {
            let Some(Read::Event(admitted)) = reply.next().await else { panic!("the other call ends") };
            seen.push(admitted.event);
        }
        session.cancel();
        let seen = rest(seen, reply).await;
        assert_eq!(terminals(&seen), [(".", Outcome::Interrupted)]);
        assert_eq!((count(&seen, "MODEL_CALL_START"), count(&seen, "REPLY_END")), (1, 1), "{tool}");
        let Question { session_id, call, .. } = &questions[0];
        let late = session.answer(session_id, &call.id, Answer::allow());
        assert!(matches!(late, Err(AnswerError::NotOpen { .. })), "{tool}");
        let next = session.prompt("And?").await.unwrap().finished().await.unwrap();
        assert_eq!(
            (next.text(), ran.load(Ordering::SeqCst)),
            ("interrupted success".to_owned(), 0),
            "{tool}"
        );
    }
}

/// In how many ways a child can come to be.
const WAYS: [&str; 7] = ["sync", "fork", "background", "own task", "team", "again", "code"];

/// A session whose tree has these permissions and in which a child that uses `write` came to be in this way.
async fn child_that_writes(way: &str, permissions: Permissions, ran: &Ran) -> (Session, Reply) {
    let worker = uses("write", ran);
    let (is_fork, is_background) = (way == "fork", matches!(way, "background" | "again"));
    let task = if way == "again" { "Rest." } else { "Write." };
    let call = json!({
        "task": task, "fork": is_fork, "background": is_background, "metadata": { "node_id": "child" },
    });
    let spawn = match way {
        "team" => SpawnSubagent::team(Team::parallel("team").member(worker.clone())),
        "own task" => named(worker.clone()).on_own_tasks(),
        _ => named(worker.clone()),
    };
    let (by_code, again) = (way == "code", way == "again");
    let second = Duration::from_secs(1);
    let model = ScriptedModel::from_fn("scripted", move |request| match request.turn {
        0 if by_code => Turn::new().wait(second * 5).text("done"),
        0 => Turn::new().call("spawn_subagent", &call),
        1 if again => Turn::new().wait(second).call("list_tasks", json!({})),
        2 if again => Turn::new().call("message_task", json!({ "task_id": "task_1", "message": "Write." })),
        _ => Turn::new().wait(second * 5).text("done"),
    });
    let agent = Agent::builder("master", model).tool(spawn).task_tools().permissions(permissions).build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    if by_code {
        assert!(reply.next().await.is_some());
        session.spawn(&worker, "Write.").await.unwrap();
    }
    (session, reply)
}

#[tokio::test(start_paused = true)]
async fn however_a_child_came_to_be_it_may_do_no_more_than_its_parent() {
    for way in WAYS {
        let ran = Ran::default();
        let denying = Permissions::new().deny("write", "never");
        let (session, reply) = child_that_writes(way, denying, &ran).await;
        assert_eq!(reply.finished().await.unwrap().text(), "done");
        session.close().await;
        let seen = events(session.subscribe(0)).await;
        let refused = kind(seen.iter().filter(|event| event.scope.depth() > 0), |kind| {
            if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None }
        });
        assert!(refused.contains(&ToolResultState::Denied), "{way}: {refused:?}");
        assert_eq!(ran.load(Ordering::SeqCst), 0, "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn however_a_child_came_to_be_its_question_reaches_the_sessions_user_and_the_answer_reaches_it() {
    for way in WAYS {
        for is_allowed in [true, false] {
            let ran = Ran::default();
            let (session, mut reply) = child_that_writes(way, asking(), &ran).await;
            let (_, questions) = until_asked(&session, &mut reply, 1).await;
            let (depth, mechanism) = session.with_tree(|tree| {
                let record = tree.get(&questions[0].session_id).unwrap();
                (record.depth, record.mechanism)
            });
            assert_eq!(depth, if way == "team" { 2 } else { 1 }, "{way}");
            let expected = match way {
                "background" | "again" => SpawnMechanism::AsyncWorker,
                "code" => SpawnMechanism::Manual,
                _ => SpawnMechanism::Sync,
            };
            assert_eq!(mechanism, Some(expected), "{way}");
            answer(&session, &questions[0], if is_allowed { Answer::allow() } else { Answer::deny() });
            assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Completed);
            session.close().await;
            let seen = events(session.subscribe(0)).await;
            assert_eq!(count(&seen, "REQUIRE_USER_CONFIRM"), 1, "{way}");
            assert_eq!(ran.load(Ordering::SeqCst), usize::from(is_allowed), "{way}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_one_child_leaves_the_others_question_open_and_a_time_out_is_no_refusal() {
    let ran = Ran::default();
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            let calls = ["n1", "n2", "n3"].map(|name| node("x", name));
            calls.iter().fold(Turn::new(), |turn, call| turn.call("spawn_subagent", call))
        })
        .turn(report);
    let agent = Agent::builder("master", model)
        .tool(named(uses("write", &ran)))
        .permissions(asking())
        .limits(Limits::default().request(Duration::from_secs(60)));
    let session = agent.build().session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, questions) = until_asked(&session, &mut reply, 3).await;
    answer(&session, &questions[0], Answer::allow());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(session.questions(), questions[1..]);
    answer(&session, &questions[1], Answer::deny_because("not there"));
    let seen = rest(seen, reply).await;
    let said = session.messages()[1].text();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "success: success: wrote x");
    assert_eq!(lines[1], "success: denied: the user did not allow `write`: not there");
    assert!(lines[2].ends_with("the user has not refused it"), "{}", lines[2]);
    assert_eq!(count(&seen, "USER_CONFIRM_RESULT"), 2, "nobody answered the third");
    let Question { session_id, call, .. } = &questions[2];
    let late = session.answer(session_id, &call.id, Answer::allow());
    assert!(matches!(late, Err(AnswerError::NotOpen { .. })));
}

#[tokio::test]
async fn a_call_that_was_allowed_is_done_when_its_result_says_so_and_failed_when_that_does() {
    let ran = Ran::default();
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            Turn::new()
                .call("write", json!({ "text": "to a full disk" }))
                .call("echo", json!({ "text": "e" }))
        })
        .turn(report);
    let worker = Agent::builder("worker", model).tool(write(&ran)).tool(echo()).build();
    let session = master(named(worker), node("x", "n1")).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, questions) = until_asked(&session, &mut reply, 1).await;
    answer(&session, &questions[0], Answer::allow());
    let seen = rest(seen, reply).await;
    let of_call = |call: &str| -> Vec<String> {
        let tag = |event: &Arc<Event>| {
            let (id, state) = if let EventKind::ToolCallStart(start) = &event.kind {
                (&start.tool_call_id, "")
            } else if let EventKind::ToolResultStart(start) = &event.kind {
                (&start.tool_call_id, "")
            } else if let EventKind::ToolResultEnd(end) = &event.kind {
                (&end.tool_call_id, end.state.as_str())
            } else if let EventKind::RequireUserConfirm(ask) = &event.kind {
                (&ask.tool_calls[0].id, "")
            } else if let EventKind::UserConfirmResult(result) = &event.kind {
                (&result.confirm_results[0].tool_call.id, "")
            } else {
                return None;
            };
            (id.as_str() == call).then(|| format!("{} {state}", event.kind.tag()).trim_end().to_owned())
        };
        of_child(&seen, "n1").filter_map(tag).collect()
    };
    assert_eq!(
        of_call("call_0_0"),
        [
            "TOOL_CALL_START",
            "REQUIRE_USER_CONFIRM",
            "USER_CONFIRM_RESULT",
            "TOOL_RESULT_START",
            "TOOL_RESULT_END error"
        ]
    );
    assert_eq!(of_call("call_0_1"), ["TOOL_CALL_START", "TOOL_RESULT_START", "TOOL_RESULT_END success"]);
}

/// Gives the announcement of a child again as soon as the child asks something.
struct AnnouncesAgain;

impl ActingLayer for AnnouncesAgain {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let mut announcement = None;
        ActingStream::boxed(next.run(call, context).flat_map(move |item| {
            let mut items = vec![item];
            if let CallItem::Event(event) = &items[0] {
                if let EventKind::SpawnSessionStart(_) = &event.kind {
                    announcement = Some(Arc::clone(event));
                } else if let EventKind::RequireUserConfirm(_) = &event.kind {
                    items.extend(announcement.clone().map(CallItem::Event));
                }
            }
            stream::iter(items)
        }))
    }
}

#[tokio::test]
async fn a_second_announcement_of_a_child_that_asks_leaves_its_question_open() {
    let ran = Ran::default();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", node("x", "n1")))
        .turn(report);
    let agent = Agent::builder("master", model)
        .tool(named(uses("write", &ran)))
        .permissions(asking())
        .layer(AnnouncesAgain)
        .build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, questions) = until_asked(&session, &mut reply, 1).await;
    while session.counters().duplicates == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(session.questions(), questions);
    answer(&session, &questions[0], Answer::allow());
    let seen = rest(seen, reply).await;
    assert_eq!((announced(&seen), ran.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(session.messages()[1].text(), "success: success: wrote x");
}

#[tokio::test]
async fn a_child_that_is_stopped_while_it_asks_is_interrupted_and_so_is_its_call() {
    for tool in ["write", "browse"] {
        let ran = Ran::default();
        let session = master(named(uses(tool, &ran)), node("x", "n1")).session();
        let mut reply = session.prompt("Go.").await.unwrap();
        let (seen, questions) = until_asked(&session, &mut reply, 1).await;
        session.cancel_session(&questions[0].session_id).unwrap();
        let seen = rest(seen, reply).await;
        assert_eq!(terminals(&seen), [("n1", Outcome::Interrupted), (".", Outcome::Completed)], "{tool}");
        let ends: Vec<_> = seen
            .iter()
            .filter_map(|event| {
                let EventKind::ToolResultEnd(end) = &event.kind else { return None };
                Some((who(event), end.state))
            })
            .collect();
        let interrupted = ToolResultState::Interrupted;
        assert_eq!(ends, [("n1", interrupted), (".", interrupted)], "{tool}");
        assert_eq!((session.questions(), session.children_running()), (vec![], 0), "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_no_question_with_it_here_or_elsewhere() {
    let ran = Ran::default();
    let (here, elsewhere) = (
        master(named(uses("write", &ran)), node("x", "n1")),
        master(named(uses("browse", &ran)), node("x", "n1")),
    );
    let (here, elsewhere) = (here.session(), elsewhere.session());
    let (mut first, mut second) = (here.prompt("Go.").await.unwrap(), elsewhere.prompt("Go.").await.unwrap());
    let (_, asked_here) = until_asked(&here, &mut first, 1).await;
    let (seen, asked_elsewhere) = until_asked(&elsewhere, &mut second, 1).await;
    assert_eq!((asked_here.len(), asked_elsewhere.len()), (1, 1), "each session has its own questions alone");
    let mut leaves = here.subscribe_lossless(0);
    assert!(leaves.next().await.is_some());
    drop((leaves, first));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((here.questions(), elsewhere.questions()), (asked_here.clone(), asked_elsewhere.clone()));
    answer(&elsewhere, &asked_elsewhere[0], Answer::output("a page"));
    let seen = rest(seen, second).await;
    assert_eq!(own(&seen).count() + of_child(&seen, "n1").count(), seen.len());
    assert_eq!(elsewhere.messages()[1].text(), "success: success: a page");
    // The session that nobody reads any more has its answer as well.
    answer(&here, &asked_here[0], Answer::allow());
    here.prompt("And?").await.unwrap().finished().await.unwrap();
    assert_eq!(here.messages()[1].text(), "success: success: wrote x");
}

#[tokio::test]
async fn a_childs_own_permissions_lift_no_question_of_its_parents() {
    let ran = Ran::default();
    // The child's own template allows it; the parent's asks.
    let worker = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("write", json!({ "text": "x" })))
        .turn(report);
    let worker = Agent::builder("worker", worker)
        .tool(write(&ran))
        .permissions(Permissions::new().allow("write").otherwise(Permission::Allow))
        .build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", node("x", "n1")))
        .turn(report);
    let agent = Agent::builder("master", model)
        .tool(named(worker))
        .permissions(Permissions::new().otherwise(Permission::Ask).allow("spawn_subagent"))
        .build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, questions) = until_asked(&session, &mut reply, 1).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    answer(&session, &questions[0], Answer::deny());
    rest(seen, reply).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}
