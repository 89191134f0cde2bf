//! Peers that say what they may not.

use std::sync::Arc;

use anabranch_proto::{
    Admitted, ChildScope, Event, EventId, EventKind, FinishedReason, Metadata, Outcome, Scope, SessionId,
    SpawnMechanism, Timestamp, ToolCallBlock,
    event::{
        MessageOrigin, ReplyEnd, ReplyStart, RequireUserConfirm, SpawnSessionStart, StreamComplete,
        TextBlockDelta, TextBlockEnd, TextBlockStart, ToolCallEnd, ToolCallStart, UserMessage,
    },
};
use anabranch_runtime::{
    Agent, Heard, Instructions, Limits, Order, Runner, RunnerStream, ScriptedModel, SpawnSubagent, Turn,
};
use serde_json::json;

use super::support::{Item, SECOND, Says, all, ends, last_text, task, waits_for, waits_within};
use crate::support::{kind, of_child};

fn at(scope: Scope, number: u64, kind: impl Into<EventKind>) -> Heard {
    let (id, time) = (EventId::new(format!("theirs-{number}")), Timestamp::from_unix(0, 0));
    Admitted::new(number, Arc::new(Event::new(id, time, scope, Metadata::default(), kind))).into()
}

/// A reply of a root that calls itself `theirs`, in 7 events.
fn reply() -> Vec<EventKind> {
    vec![
        UserMessage::new("m", [], MessageOrigin::User).into(),
        ReplyStart::new("theirs", "r", "theirs").into(),
        TextBlockStart::new("r", "b").into(),
        TextBlockDelta::new("r", "b", "from there").into(),
        TextBlockEnd::new("r", "b").into(),
        ReplyEnd::new("theirs", "r", FinishedReason::Completed).into(),
        StreamComplete::new(Outcome::Completed).into(),
    ]
}

fn numbered(kinds: Vec<(Scope, EventKind)>) -> Vec<Item> {
    (1..).zip(kinds).map(|(number, (scope, kind))| Ok(at(scope, number, kind))).collect()
}

fn of_root(kinds: Vec<EventKind>) -> Vec<(Scope, EventKind)> {
    kinds.into_iter().map(|kind| (Scope::Root, kind)).collect()
}

async fn said(say: impl Fn(&Order) -> Vec<Item> + Send + Sync + 'static) -> (Vec<Arc<Event>>, String) {
    let session = waits_for(SpawnSubagent::on(Arc::new(Says(Box::new(say))), "worker"), task()).session();
    let events = all(&session).await;
    assert_eq!(ends(&events, "n1").len(), 1, "it ends once");
    (events, last_text(&session))
}

#[tokio::test(start_paused = true)]
async fn what_ends_in_order_is_taken_whatever_it_calls_itself() {
    let (events, text) = said(|_| numbered(of_root(reply()))).await;
    assert!(text.ends_with("has ended: completed.\n\nfrom there"), "{text}");
    let sessions = kind(of_child(&events, "n1"), |kind| {
        if let EventKind::ReplyStart(start) = kind { Some(start.session_id.clone()) } else { None }
    });
    assert!(sessions[0].as_str().starts_with("ses_"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_after_the_first_terminal() {
    let (events, text) = said(|_| {
        let mut kinds = reply();
        kinds.push(StreamComplete::new(Outcome::Failed).into());
        kinds.extend(reply());
        numbered(of_root(kinds))
    })
    .await;
    assert!(text.ends_with("completed.\n\nfrom there"), "{text}");
    assert_eq!(of_child(&events, "n1").count(), 7);
}

#[tokio::test(start_paused = true)]
async fn whatever_breaks_a_rule_fails_the_child_at_that_place() {
    // Each kind at each place where it does not belong: a rule names it, and the stream stays well-formed.
    for kind in reply() {
        for place in 0..7 {
            let mut kinds = reply();
            if kinds[place] == kind {
                continue;
            }
            kinds.insert(place, kind.clone());
            let label = format!("{} at {place}", kind.tag());
            let (_, text) = said(move |_| numbered(of_root(kinds.clone()))).await;
            let is_refused = text.contains("the other side's events break a rule of a stream: ");
            // An end that comes early enough ends what has not begun anything, and then nothing more is read.
            let is_end = kind == StreamComplete::new(Outcome::Completed).into();
            let is_more_text = kind.tag() == "TEXT_BLOCK_DELTA" && place == 4;
            assert!(is_refused || is_end || is_more_text, "{label}: {text}");
        }
    }
    let (_, text) = said(|_| numbered(of_root(reply()[1..].to_vec()))).await;
    assert!(text.contains("REPLY_START theirs-1 of root breaks `prompt-first`"), "{text}");
}

fn below(order: &Order, child: &str) -> (Scope, SpawnSessionStart) {
    let scope = ChildScope::new(child, "theirs", format!("sa_{child}"), "below");
    let spawn =
        SpawnSessionStart::new(&scope, SpawnMechanism::AsyncWorker, format!("below {}", order.source_name));
    (scope.into(), spawn)
}

#[tokio::test(start_paused = true)]
async fn nobody_elses_session_can_be_spoken_for() {
    // The parent's own session, its other child's, and one that was never announced.
    let other = "somebody else's";
    for (which, expected) in [
        ("parent", "which is somebody else's session"),
        ("sibling", "which is somebody else's session"),
        ("itself", "which is somebody else's session"),
        ("unannounced", "breaks `announced`"),
    ] {
        let sibling: Arc<std::sync::Mutex<Option<SessionId>>> = Arc::default();
        let known = Arc::clone(&sibling);
        let runner = Says(Box::new(move |order: &Order| {
            let session = match which {
                "parent" => order.parent_session_id.as_str().to_owned(),
                "itself" => order.session_id.as_str().to_owned(),
                "sibling" => known.lock().unwrap().as_ref().unwrap().as_str().to_owned(),
                _ => other.to_owned(),
            };
            let (scope, spawn) = below(order, &session);
            let mut kinds = of_root(reply()[..2].to_vec());
            if which != "unannounced" {
                kinds.push((Scope::Root, spawn.into()));
            }
            kinds.push((scope.clone(), UserMessage::new("m2", [], MessageOrigin::Parent).into()));
            kinds.push((scope, StreamComplete::new(Outcome::Failed).into()));
            kinds.extend(of_root(reply()[2..].to_vec()));
            numbered(kinds)
        }));
        // A sibling runs here and must not be harmed.
        let slow = ScriptedModel::new("scripted").turn(|_| Turn::new().wait(SECOND * 20).text("unharmed"));
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("here", json!({ "task": "a", "background": true })))
            .turn(|_| Turn::new().wait(SECOND).call("there", json!({ "task": "b", "background": true })))
            .turn(|_| Turn::new().call("check_task", json!({ "task_id": "task_1", "wait": 60 })))
            .turn(|request| Turn::new().text(request.last_result_text()));
        let agent = Agent::builder("master", model)
            .tool(SpawnSubagent::new(Agent::builder("near", slow).build()).as_tool("here", ""))
            .tool(SpawnSubagent::on(Arc::new(runner), "far").as_tool("there", ""))
            .task_tools();
        let session = agent.build().session();
        let reply = session.prompt("Go.").await.unwrap();
        tokio::time::sleep(SECOND / 2).await;
        *sibling.lock().unwrap() = Some(session.tasks()[0].session_id.clone());
        crate::support::reply_events(reply).await;
        let events = super::support::closed(&session).await;
        let [(outcome, why)] = &*ends(&events, "far") else { panic!("it ends once") };
        assert_eq!(*outcome, Outcome::Failed);
        assert!(why.contains(expected), "{which}: {why}");
        assert_eq!(ends(&events, "near"), [(Outcome::Completed, String::new())], "{which}");
        assert!(last_text(&session).ends_with("unharmed"));
    }
}

#[tokio::test(start_paused = true)]
async fn more_children_than_it_may_have_fail_it() {
    let runner = Says(Box::new(|order: &Order| {
        let mut kinds = of_root(reply()[..2].to_vec());
        for number in 0..10 {
            let (scope, spawn) = below(order, &format!("theirs-{number}"));
            kinds.push((Scope::Root, spawn.into()));
            kinds.push((scope, UserMessage::new(format!("m-{number}"), [], MessageOrigin::Parent).into()));
        }
        numbered(kinds)
    }));
    let spawn = SpawnSubagent::on(Arc::new(runner), "worker");
    let session = waits_within(Limits::default().max_spawned(4), spawn, task()).session();
    let events = all(&session).await;
    let error = "the other side spawned more sub-agents than are left";
    assert_eq!(ends(&events, "n1"), [(Outcome::Failed, error.to_owned())]);
    assert_eq!(ends(&events, "below").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn more_questions_than_anybody_answers_fail_it() {
    let (_, text) = said(|_| {
        let mut kinds = reply()[..2].to_vec();
        for number in 0..300 {
            let call = format!("call_{number}");
            kinds.push(ToolCallStart::new("r", &*call, "write").into());
            kinds.push(ToolCallEnd::new("r", &*call).into());
        }
        for number in 0..300 {
            let call = ToolCallBlock::new(format!("call_{number}"), "write", "{}");
            kinds.push(RequireUserConfirm::new("r", vec![call]).into());
        }
        numbered(of_root(kinds))
    })
    .await;
    assert!(text.contains("the other side has more than 256 questions open"), "{text}");
}

/// A runner whose code is at fault.
struct Panics;

impl Runner for Panics {
    fn run(&self, _: Order, _: Instructions) -> RunnerStream {
        panic!("out of order")
    }
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_panics_fails_its_child_alone() {
    let session = waits_for(SpawnSubagent::on(Arc::new(Panics), "worker"), task()).session();
    let events = all(&session).await;
    assert_eq!(ends(&events, "n1"), [(Outcome::Failed, "the sub-agent panicked: out of order".to_owned())]);
    assert!(last_text(&session).ends_with("the sub-agent panicked: out of order"));
}
