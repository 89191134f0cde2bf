//! Confirmation and external execution, from any depth: the answer finds its call, and nobody else waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::{FunctionTool, Tool, ToolDefinition};
use anabranch_proto::{
    Event, EventKind, Outcome, PermissionRule, Scope, SessionId, ToolCallId, ToolChunk, ToolResultState,
};
use anabranch_runtime::{
    Agent, Answer, AnswerError, ExternalTool, Limits, Permission, Permissions, QuestionKind, Read, Reply,
    ScriptedModel, Session, SpawnSubagent, Turn,
};
use futures::StreamExt;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{
    Text, assert_well_formed, echo, kind, master, node, of_child, outline, own, reply_events,
};

/// A tool that counts how often it ran.
fn write(ran: &Arc<AtomicUsize>) -> impl Tool + use<> {
    let ran = Arc::clone(ran);
    FunctionTool::new("write", "Writes a text.", move |args: Text, _| {
        ran.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, String>(format!("wrote {}", args.text)) }
    })
}

/// An agent that calls one tool and repeats its result.
fn calls(name: &str, tool: &'static str, arguments: serde_json::Value) -> ScriptedModel {
    ScriptedModel::new(name)
        .turn(move |_| Turn::new().text("I try.").call(tool, &arguments))
        .turn(|request| Turn::new().text(request.last_result_text()))
}

fn writer(ran: &Arc<AtomicUsize>) -> Agent {
    Agent::builder("writer", calls("scripted", "write", json!({ "text": "x" }))).tool(write(ran)).build()
}

fn asking() -> Permissions {
    Permissions::new().ask("write")
}

/// A root that asks before it writes.
fn asking_root(ran: &Arc<AtomicUsize>) -> Agent {
    Agent::builder("writer", calls("scripted", "write", json!({ "text": "x" })))
        .tool(write(ran))
        .permissions(asking())
        .build()
}

/// A master whose children ask before they write.
fn asking_master(worker: Agent, calls: Vec<serde_json::Value>) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(move |_| calls.iter().fold(Turn::new(), |turn, call| turn.call("spawn_subagent", call)))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join("\n"))
        });
    let spawn = SpawnSubagent::new(worker).named_by(|args| args.metadata_str("node_id"));
    Agent::builder("master", model).tool(spawn).permissions(asking()).build()
}

/// Reads until so many questions were asked.
async fn read_questions(reply: &mut Reply, count: usize) -> (Vec<Arc<Event>>, Vec<(SessionId, ToolCallId)>) {
    let (mut seen, mut asked) = (Vec::new(), Vec::new());
    while asked.len() < count {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended before it asked") };
        if let EventKind::RequireUserConfirm(ask) = &admitted.event.kind {
            let session = match &admitted.event.scope {
                Scope::Root => reply.session_id().clone(),
                Scope::Child(child) => child.child_session_id.clone(),
            };
            asked.push((session, ask.tool_calls[0].id.clone()));
        }
        seen.push(admitted.event);
    }
    (seen, asked)
}

async fn rest(mut seen: Vec<Arc<Event>>, reply: Reply) -> Vec<Arc<Event>> {
    let rest: Vec<_> = reply.collect().await;
    seen.extend(rest.into_iter().map(|read| {
        let Read::Event(admitted) = read else { panic!("a gap") };
        admitted.event
    }));
    assert_well_formed(&seen);
    seen
}

/// The state and the text of each result of a session's own calls.
fn results<'a>(events: impl IntoIterator<Item = &'a Arc<Event>>) -> Vec<(ToolResultState, String)> {
    let mut text = String::new();
    let mut results = Vec::new();
    for event in events {
        if let EventKind::ToolResultTextDelta(delta) = &event.kind {
            text.push_str(&delta.delta);
        } else if let EventKind::ToolResultEnd(end) = &event.kind {
            results.push((end.state, std::mem::take(&mut text)));
        }
    }
    results
}

#[tokio::test]
async fn a_call_that_needs_leave_runs_once_it_was_given() {
    let ran = Arc::default();
    let session = asking_root(&ran).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, asked) = read_questions(&mut reply, 1).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let questions = session.questions();
    assert_eq!(questions.len(), 1);
    assert_eq!((&questions[0].session_id, questions[0].kind), (session.id(), QuestionKind::Confirm));
    let suggested = &questions[0].call.suggested_rules[0];
    assert_eq!((&*suggested.tool_name, &*suggested.behavior), ("write", "allow"));

    let (session_id, call) = &asked[0];
    session.answer(session_id, call, Answer::allow()).unwrap();
    let events = rest(seen, reply).await;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(results(&events), [(ToolResultState::Success, "wrote x".to_owned())]);
    let outline = outline(&events);
    let at = |kind: &str| outline.iter().position(|line| line.ends_with(kind)).unwrap();
    assert!(at("TOOL_CALL_END") < at("REQUIRE_USER_CONFIRM"));
    assert!(at("REQUIRE_USER_CONFIRM") < at("USER_CONFIRM_RESULT"));
    assert!(at("USER_CONFIRM_RESULT") < at("TOOL_RESULT_START"));
    assert_eq!(session.questions(), []);
}

#[tokio::test]
async fn a_call_that_was_refused_does_not_run_and_its_model_reads_why() {
    for (answer, text) in [
        (Answer::deny(), "the user did not allow `write`"),
        (Answer::deny_because("not today"), "the user did not allow `write`: not today"),
    ] {
        let ran = Arc::default();
        let session = asking_root(&ran).session();
        let mut reply = session.prompt("Go.").await.unwrap();
        let (seen, asked) = read_questions(&mut reply, 1).await;
        session.answer(&asked[0].0, &asked[0].1, answer).unwrap();
        let events = rest(seen, reply).await;
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        assert_eq!(results(&events), [(ToolResultState::Denied, text.to_owned())]);
        let confirmed = kind(&events, |kind| {
            if let EventKind::UserConfirmResult(result) = kind {
                Some(result.confirm_results[0].confirmed)
            } else {
                None
            }
        });
        assert_eq!(confirmed, [false]);
        assert_eq!(session.messages().last().unwrap().text(), format!("I try.{text}"));
    }
}

#[tokio::test]
async fn a_call_runs_with_the_arguments_that_were_allowed() {
    let ran = Arc::default();
    let session = asking_root(&ran).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, asked) = read_questions(&mut reply, 1).await;
    let (session_id, call) = &asked[0];
    assert!(matches!(
        session.answer(session_id, call, Answer::allow_with("[]")),
        Err(AnswerError::Arguments(_))
    ));
    session.answer(session_id, call, Answer::allow_with("{\"text\":\"y\"}")).unwrap();
    let events = rest(seen, reply).await;
    assert_eq!(results(&events), [(ToolResultState::Success, "wrote y".to_owned())]);
}

#[tokio::test]
async fn an_answer_is_taken_once_and_an_unknown_call_changes_nothing() {
    let ran = Arc::default();
    let session = asking_root(&ran).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, asked) = read_questions(&mut reply, 1).await;
    let (session_id, call) = &asked[0];
    let unknown = [(session_id.clone(), "call_9".into()), (SessionId::from("ses_9"), call.clone())];
    for (session_id, call) in unknown {
        let error = session.answer(&session_id, &call, Answer::allow()).unwrap_err();
        assert_eq!(error, AnswerError::NotOpen { session: session_id, call });
    }
    let output = Answer::output("x");
    let error = session.answer(session_id, call, output).unwrap_err();
    assert_eq!(error, AnswerError::OfAnotherKind { asked: QuestionKind::Confirm });
    assert_eq!(session.questions().len(), 1);

    session.answer(session_id, call, Answer::deny()).unwrap();
    let error = session.answer(session_id, call, Answer::allow()).unwrap_err();
    assert!(matches!(error, AnswerError::Answered { .. }), "{error}");
    let events = rest(seen, reply).await;
    assert_eq!(results(&events)[0].0, ToolResultState::Denied);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn two_children_ask_at_once_and_each_gets_its_own_answer() {
    let ran = Arc::default();
    let session =
        asking_master(writer(&ran), vec![node("a", "n1"), node("b", "n2"), node("c", "n3")]).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, asked) = read_questions(&mut reply, 3).await;
    // Both children name their call the same.
    assert_eq!(asked[0].1, asked[1].1);
    session.answer(&asked[1].0, &asked[1].1, Answer::allow()).unwrap();
    session.answer(&asked[0].0, &asked[0].1, Answer::deny()).unwrap();
    session.answer(&asked[2].0, &asked[2].1, Answer::allow()).unwrap();
    let events = rest(seen, reply).await;
    let of = |name: &str| results(of_child(&events, name))[0].0;
    let states = [of("n1"), of("n2"), of("n3")];
    assert_eq!(states, [ToolResultState::Denied, ToolResultState::Success, ToolResultState::Success]);
    // The children's own calls succeeded: a refusal is for the child to deal with.
    let own = results(own(&events));
    assert!(own.iter().all(|(state, _)| *state == ToolResultState::Success), "{own:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn while_a_grandchild_asks_nobody_else_waits_and_nothing_is_run_again() {
    let ran = Arc::default();
    let outer = Agent::builder(
        "outer",
        ScriptedModel::new("scripted")
            .turn(|_| {
                Turn::new().call("spawn_subagent", node("deep", "deep")).call("echo", json!({ "text": "e" }))
            })
            .turn(|request| Turn::new().text(request.results().next().unwrap().output.text())),
    )
    .tool(SpawnSubagent::new(writer(&ran)).named_by(|args| args.metadata_str("node_id")))
    .tool(echo())
    .build();
    let quick = Agent::builder(
        "quick",
        ScriptedModel::new("scripted")
            .turn(|_| Turn::new().paced_text("one two three", Duration::from_secs(5))),
    )
    .build();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("outer", node("o", "outer")).call("quick", node("q", "quick")))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join(" + "))
        });
    let named = |agent: Agent| SpawnSubagent::new(agent).named_by(|args| args.metadata_str("node_id"));
    let agent = Agent::builder("master", model)
        .tool(named(outer).as_tool("outer", "Spawns."))
        .tool(named(quick).as_tool("quick", "Spawns."))
        .permissions(asking())
        .build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (mut seen, asked) = read_questions(&mut reply, 1).await;
    assert_eq!(session.with_tree(|tree| tree.get(&asked[0].0).unwrap().depth), 2);
    // The sibling goes on to its end.
    loop {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended") };
        let is_end = matches!(admitted.event.kind, EventKind::StreamComplete(_));
        seen.push(admitted.event);
        if is_end {
            break;
        }
    }
    assert_eq!(&*seen.last().unwrap().scope.child().unwrap().source_name, "quick");
    session.answer(&asked[0].0, &asked[0].1, Answer::allow()).unwrap();
    let events = rest(seen, reply).await;
    let spawns = kind(&events, |kind| matches!(kind, EventKind::SpawnSessionStart(_)).then_some(()));
    assert_eq!(spawns.len(), 3, "nothing is spawned again");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(session.messages().last().unwrap().text(), "wrote x + one two three");
}

#[tokio::test]
async fn a_cancel_while_asking_interrupts_the_call_and_takes_no_answer_any_more() {
    let ran = Arc::default();
    let session = asking_master(writer(&ran), vec![node("a", "n1"), node("b", "n2")]).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, asked) = read_questions(&mut reply, 2).await;
    reply.cancel();
    let events = rest(seen, reply).await;
    for state in results(&events).into_iter().map(|(state, _)| state) {
        assert_eq!(state, ToolResultState::Interrupted);
    }
    assert_eq!(session.questions(), []);
    let error = session.answer(&asked[0].0, &asked[0].1, Answer::allow()).unwrap_err();
    assert!(matches!(error, AnswerError::NotOpen { .. }));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_childs_time_stands_still_while_a_person_is_asked() {
    let ran = Arc::default();
    let task = json!({ "task": "a", "timeout": 10, "metadata": { "node_id": "n1" } });
    let hangs =
        Agent::builder("hangs", ScriptedModel::new("scripted").turn(|_| Turn::new().text("so far").hang()));
    // One child asks and completes; the other, beside it, runs out of its time meanwhile.
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("asks", &task).call("hangs", &task))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join(" + "))
        });
    let agent = Agent::builder("master", model)
        .tool(SpawnSubagent::new(writer(&ran)).as_tool("asks", "Asks."))
        .tool(SpawnSubagent::new(hangs.build()).as_tool("hangs", "Hangs."))
        .permissions(asking())
        .build();
    let session = agent.session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let start = Instant::now();
    let (seen, asked) = read_questions(&mut reply, 1).await;
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    session.answer(&asked[0].0, &asked[0].1, Answer::allow()).unwrap();
    let events = rest(seen, reply).await;
    assert_eq!(start.elapsed(), Duration::from_secs(1_000));
    let states: Vec<_> = results(own(&events)).into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, [ToolResultState::Error, ToolResultState::Success], "the one that hangs ended first");
    let text = session.messages().last().unwrap().text();
    assert_eq!(text, "wrote x + timed out after 10 s\n\nBefore that, the sub-agent said:\nso far");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_answers_is_denied_and_the_user_is_not_said_to_have_refused() {
    let ran = Arc::default();
    let agent = Agent::builder("writer", calls("scripted", "write", json!({ "text": "x" })))
        .tool(write(&ran))
        .permissions(asking())
        .limits(Limits::default().request(Duration::from_secs(60)));
    let start = Instant::now();
    let events = reply_events(agent.build().reply_stream("Go.")).await;
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    let text =
        "nobody answered within 60 s whether `write` may run, so it was not run; the user has not refused it";
    assert_eq!(results(&events), [(ToolResultState::Denied, text.to_owned())]);
    assert!(!outline(&events).contains(&". USER_CONFIRM_RESULT".to_owned()), "no person answered");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_childs_permissions_are_never_wider_than_its_parents() {
    for (of_parent, of_child) in [
        (Permissions::new().deny("write", "no"), Permissions::new().allow("write")),
        (Permissions::new().allow("write"), Permissions::new().deny("write", "no")),
        (Permissions::new().deny("write", "no"), Permissions::new().ask("write")),
    ] {
        let ran = Arc::default();
        let worker = Agent::builder("worker", calls("scripted", "write", json!({ "text": "x" })))
            .tool(write(&ran))
            .permissions(of_child);
        let agent = Agent::builder(
            "master",
            ScriptedModel::new("scripted")
                .turn(|_| Turn::new().call("spawn_subagent", node("a", "n1")))
                .turn(|request| Turn::new().text(request.last_result_text())),
        )
        .tool(SpawnSubagent::new(worker.build()))
        .permissions(of_parent);
        let events = reply_events(agent.build().reply_stream("Go.")).await;
        let results = results(of_child_any(&events));
        assert_eq!(results, [(ToolResultState::Denied, "`write` may not run: no".to_owned())]);
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    }
}

fn of_child_any(events: &[Arc<Event>]) -> impl Iterator<Item = &Arc<Event>> {
    events.iter().filter(|event| event.scope.child().is_some())
}

#[tokio::test]
async fn a_rule_that_came_with_an_answer_holds_for_the_session() {
    let ran = Arc::default();
    let session = asking_master(writer(&ran), vec![node("a", "n1")]).session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let (seen, asked) = read_questions(&mut reply, 1).await;
    let rule = PermissionRule::new("write", "allow", "user");
    session.answer(&asked[0].0, &asked[0].1, Answer::allow().remember([rule.clone()])).unwrap();
    let events = rest(seen, reply).await;
    let rules = kind(&events, |kind| {
        if let EventKind::UserConfirmResult(result) = kind {
            result.confirm_results[0].rules.clone()
        } else {
            None
        }
    });
    assert_eq!(rules, [vec![rule]]);
    // Another child, in another reply, is not asked.
    let events = reply_events(session.prompt("Again.").await.unwrap()).await;
    assert!(!outline(&events).iter().any(|line| line.ends_with("REQUIRE_USER_CONFIRM")));
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn nobody_is_asked_about_what_cannot_run() {
    let permissions = || Permissions::new().otherwise(Permission::Ask);
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("nothing", json!({})).call("write", json!([1])))
        .turn(|_| Turn::new().text("So."));
    let agent =
        Agent::builder("agent", model).tool(write(&Arc::default())).permissions(permissions()).build();
    let events = reply_events(agent.reply_stream("Go.")).await;
    assert!(!outline(&events).contains(&". REQUIRE_USER_CONFIRM".to_owned()));
    let mut results = results(&events).into_iter().map(|(_, text)| text);
    assert!(results.next().unwrap().starts_with("there is no tool `nothing`"));
}

fn browser() -> ExternalTool {
    ExternalTool::new(ToolDefinition::typed::<Text>("browse", "Opens a page."))
}

async fn ask_elsewhere(session: &Session, answer: Answer) -> Vec<Arc<Event>> {
    let mut reply = session.prompt("Go.").await.unwrap();
    let mut seen = Vec::new();
    loop {
        let Some(Read::Event(admitted)) = reply.next().await else { panic!("ended") };
        seen.push(Arc::clone(&admitted.event));
        if matches!(admitted.event.kind, EventKind::RequireExternalExecution(_)) {
            break;
        }
    }
    let question = session.questions().pop().unwrap();
    assert_eq!(question.kind, QuestionKind::External);
    session.answer(&question.session_id, &question.call.id, answer).unwrap();
    rest(seen, reply).await
}

#[tokio::test]
async fn somebody_else_runs_a_call_of_a_child() {
    let worker =
        Agent::builder("worker", calls("scripted", "browse", json!({ "text": "x" }))).tool(browser()).build();
    let session = master(worker, vec![node("a", "n1")]).session();
    let events = ask_elsewhere(&session, Answer::output("a page")).await;
    assert_eq!(results(of_child(&events, "n1")), [(ToolResultState::Success, "a page".to_owned())]);
    let given = kind(&events, |kind| {
        if let EventKind::ExternalExecutionResult(result) = kind {
            Some(result.execution_results[0].output.text())
        } else {
            None
        }
    });
    assert_eq!(given, ["a page"]);
    assert_eq!(session.messages().last().unwrap().text(), "a page");
    let failed = ask_elsewhere(&session, Answer::output(ToolChunk::error("no such page"))).await;
    assert_eq!(results(of_child(&failed, "n1")), [(ToolResultState::Error, "no such page".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_execution_elsewhere_that_never_comes_has_failed() {
    let model = calls("scripted", "browse", json!({ "text": "x" }));
    let limits = Limits::default().request(Duration::from_secs(60));
    let agent = Agent::builder("agent", model).tool(browser()).limits(limits).build();
    let reply = agent.reply_stream("Go.");
    let finished = reply.finished().await.unwrap();
    assert_eq!(finished.outcome, Outcome::Completed);
    assert_eq!(finished.text(), "nobody gave the result of `browse` within 60 s");
}
