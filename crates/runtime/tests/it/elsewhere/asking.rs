//! Questions cross, and so do their answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::{FunctionTool, ToolDefinition};
use anabranch_proto::{Event, EventKind, Outcome, PermissionRule, ToolResultState};
use anabranch_runtime::{
    Agent, AgentBuilder, Answer, ExternalTool, Limits, Permission, Permissions, QuestionKind, ScriptedModel,
    Session, SpawnSubagent, Turn,
};
use serde_json::json;

use super::support::{Here, SECOND, closed, ends, last_text, task};
use crate::support::{Text, kind, node, of_child, reply_events};

fn write(ran: &Arc<AtomicUsize>) -> impl anabranch_pipeline::Tool + use<> {
    let ran = Arc::clone(ran);
    FunctionTool::new("write", "Writes a text.", move |args: Text, _| {
        ran.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, String>(format!("wrote {}", args.text)) }
    })
}

/// An agent that writes twice and says what came of it.
fn writer(ran: &Arc<AtomicUsize>) -> AgentBuilder {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("write", json!({ "text": "a" })))
        .turn(|request| Turn::new().text(request.last_result_text()).call("write", json!({ "text": "b" })))
        .turn(|request| {
            let results: Vec<_> = request.results().map(|result| result.output.text()).collect();
            Turn::new().text(results.join(" | "))
        });
    Agent::builder("writer", model).tool(write(ran))
}

/// A master that starts this one in the background, elsewhere, and repeats what it came to.
fn master(worker: Agent, permissions: Permissions) -> Session {
    let model = ScriptedModel::new("scripted")
        .turn(|_| {
            let mut task = task();
            task["background"] = true.into();
            task["timeout"] = 30.into();
            Turn::new().call("spawn_subagent", task)
        })
        .turn(|_| Turn::new().call("check_task", json!({ "task_id": "task_1", "wait": 600 })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = SpawnSubagent::on(Here::new(worker), "writer").named_by(|args| args.metadata_str("node_id"));
    let limits = Limits::default().request(Duration::from_secs(250));
    Agent::builder("master", model)
        .tool(spawn)
        .task_tools()
        .permissions(permissions)
        .limits(limits)
        .build()
        .session()
}

/// Answers whatever is asked, in order, each after a time that is longer than the child has.
async fn answered(session: &Session, answers: impl IntoIterator<Item = Answer>) -> Vec<Arc<Event>> {
    let reply = session.prompt("Go.").await.unwrap();
    for answer in answers {
        tokio::time::sleep(SECOND * 100).await;
        let questions = session.questions();
        assert_eq!(questions.len(), 1);
        session.answer(&questions[0].session_id, &questions[0].call.id, answer).unwrap();
    }
    tokio::time::sleep(SECOND * 700).await;
    reply_events(reply).await;
    assert!(session.questions().is_empty());
    closed(session).await
}

fn results(events: &[Arc<Event>], name: &str) -> Vec<ToolResultState> {
    kind(of_child(events, name), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None }
    })
}

fn asked(events: &[Arc<Event>]) -> usize {
    kind(events, |kind| if let EventKind::RequireUserConfirm(_) = kind { Some(()) } else { None }).len()
}

#[tokio::test(start_paused = true)]
async fn a_person_here_answers_what_is_asked_there_and_the_childs_time_stands_still() {
    let ran = Arc::default();
    // The one who asks: the parent's permissions, sent with the order, or the agent's own.
    let own = writer(&ran).permissions(Permissions::new().ask("write")).build();
    let parents = writer(&ran).build();
    for (worker, permissions) in [(own, Permissions::new()), (parents, Permissions::new().ask("write"))] {
        ran.store(0, Ordering::SeqCst);
        let session = master(worker, permissions);
        let answers = [Answer::allow_with(r#"{"text":"c"}"#), Answer::deny_because("not now")];
        let events = answered(&session, answers).await;
        assert_eq!(results(&events, "n1"), [ToolResultState::Success, ToolResultState::Denied]);
        assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())]);
        let said = "wrote c | the user did not allow `write`: not now";
        assert!(last_text(&session).ends_with(said), "{}", last_text(&session));
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_given_with_an_answer_holds_there_too() {
    let ran = Arc::default();
    let session = master(writer(&ran).build(), Permissions::new().ask("write"));
    let rule = PermissionRule::new("write", "allow", "user");
    let events = answered(&session, [Answer::allow().remember([rule])]).await;
    assert_eq!(results(&events, "n1"), [ToolResultState::Success, ToolResultState::Success]);
    assert_eq!(asked(&events), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_from_below_a_child_elsewhere_finds_its_answer() {
    let ran = Arc::default();
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("spawn_subagent", node("write", "h1")))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = SpawnSubagent::new(writer(&ran).build()).named_by(|args| args.metadata_str("node_id"));
    let worker = Agent::builder("worker", model).tool(spawn).build();
    let session = master(worker, Permissions::new().ask("write"));
    let events = answered(&session, [Answer::allow(), Answer::deny()]).await;
    assert_eq!(results(&events, "h1"), [ToolResultState::Success, ToolResultState::Denied]);
    assert!(last_text(&session).ends_with("wrote a | the user did not allow `write`"));
}

#[tokio::test(start_paused = true)]
async fn somebody_here_runs_a_call_of_a_child_elsewhere() {
    let browse = ExternalTool::new(ToolDefinition::typed::<Text>("browse", "Opens a page."));
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("browse", json!({ "text": "x" })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let session = master(Agent::builder("writer", model).tool(browse).build(), Permissions::new());
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 100).await;
    let question = session.questions().pop().unwrap();
    assert_eq!(question.kind, QuestionKind::External);
    session.answer(&question.session_id, &question.call.id, Answer::output("a page")).unwrap();
    tokio::time::sleep(SECOND * 700).await;
    reply_events(reply).await;
    assert!(last_text(&session).ends_with("a page"), "{}", last_text(&session));
    closed(&session).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_answers_is_denied_as_it_is_here() {
    let ran = Arc::default();
    let session = master(writer(&ran).build(), Permissions::new().ask("write"));
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND * 700).await;
    reply_events(reply).await;
    let events = closed(&session).await;
    assert_eq!(results(&events, "n1"), [ToolResultState::Denied, ToolResultState::Denied]);
    assert!(session.questions().is_empty());
    assert_eq!(ends(&events, "n1"), [(Outcome::Completed, String::new())]);
}

#[tokio::test(start_paused = true)]
async fn code_decides_from_here_and_nobody_sees_it_unless_it_asks() {
    let ran = Arc::default();
    let decide = |text: &'static str, permission: Permission| {
        Permissions::new().deciding(move |call| call.arguments.contains(text).then(|| permission.clone()))
    };
    // Whatever it allows runs, whatever it denies does not; nobody was asked.
    let session = master(writer(&ran).build(), decide("\"b\"", Permission::Deny("no b here".to_owned())));
    let events = answered(&session, []).await;
    assert_eq!(results(&events, "n1"), [ToolResultState::Success, ToolResultState::Denied]);
    assert_eq!(asked(&events), 0);
    assert!(
        last_text(&session).ends_with("wrote a | `write` may not run: no b here"),
        "{}",
        last_text(&session)
    );
    // What it wants a person to be asked, a person is asked.
    let session = master(writer(&ran).build(), decide("\"b\"", Permission::Ask));
    let events = answered(&session, [Answer::deny()]).await;
    assert_eq!(results(&events, "n1"), [ToolResultState::Success, ToolResultState::Denied]);
    assert_eq!(asked(&events), 1);
    // What the other side's agent wants to be asked is asked too, unless code forbids it.
    let worker = writer(&ran).permissions(Permissions::new().ask("write")).build();
    let session = master(worker, decide("\"b\"", Permission::Deny("no".to_owned())));
    let rule = PermissionRule::new("write", "allow", "user");
    let events = answered(&session, [Answer::allow().remember([rule])]).await;
    assert_eq!(results(&events, "n1"), [ToolResultState::Success, ToolResultState::Denied]);
}
