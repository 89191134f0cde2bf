//! A session goes on from its log when the program that ran it is gone, wherever that was cut off.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{
    Admitted, ContentBlock, EventKind, Message, Outcome, PermissionRule, Role, ToolResultState,
};
use anabranch_runtime::{
    Agent, Answer, Limits, Permissions, Read, ResumeError, ScriptedModel, Session, SessionError,
    SpawnSubagent, TaskStatus, Turn,
};
use anabranch_session::{AppendError, Batch, EventLog, MemoryLog, RecoverError};
use futures::StreamExt;
use serde_json::json;

use crate::support::{Text, assert_well_formed, events, says};

const SECOND: Duration = Duration::from_secs(1);

async fn all(log: &dyn EventLog) -> Vec<Admitted> {
    match log.read(0, usize::MAX).await.unwrap() {
        Batch::Events(events) => events,
        gap @ Batch::Gap { .. } => panic!("{gap:?}"),
    }
}

/// What is left of a log of which a crash kept so many events.
fn cut(events: &[Admitted], kept: usize) -> Arc<MemoryLog> {
    let log = MemoryLog::new();
    log.append(&events[..kept]).unwrap();
    Arc::new(log)
}

async fn resume(agent: &Agent, log: &Arc<MemoryLog>) -> Session {
    agent.session_builder().id("ses_root").log(Arc::clone(log) as _).resume().await.unwrap()
}

fn start(agent: &Agent, log: &Arc<MemoryLog>) -> Session {
    agent.session_builder().id("ses_root").log(Arc::clone(log) as _).start().unwrap()
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

/// Spawns a child that waits for a person, starts another in the background, and asks a person itself.
fn busy() -> Agent {
    let worker = ScriptedModel::from_fn("scripted", |request| match request.turn {
        0 if request.prompt_text() == "slowly" => Turn::new().text("slow ").wait(SECOND).text("and steady"),
        0 => Turn::new().text("I try.").call("write", json!({ "text": "x" })),
        _ => Turn::new().text(request.last_result_text()),
    });
    let spawn = SpawnSubagent::new(Agent::builder("worker", worker).tool(write()).build());
    let master = ScriptedModel::from_fn("scripted", |request| {
        if request.prompt_text() == "Go." && request.turn == 0 {
            return Turn::new()
                .text("I begin.")
                .call("spawn_subagent", json!({ "task": "slowly", "background": true }))
                .call("spawn_subagent", json!({ "task": "write" }))
                .call("write", json!({ "text": "y" }));
        }
        // What a background task came to is in the reply that begins.
        let prompt = request.messages.iter().rposition(|message| message.role == Role::User);
        Turn::new().text(format!("{} messages before", prompt.unwrap()))
    });
    Agent::builder("master", master)
        .tool(spawn)
        .tool(write())
        .permissions(Permissions::new().ask("write"))
        .build()
}

fn write() -> impl anabranch_pipeline::Tool {
    FunctionTool::new("write", "Writes a text.", |args: Text, _| async move {
        Ok::<_, String>(format!("wrote {}", args.text))
    })
}

fn hints(messages: &[Message]) -> Vec<String> {
    let blocks = messages.iter().flat_map(|message| &message.content);
    blocks
        .filter_map(|block| if let ContentBlock::Hint(hint) = block { Some(hint.hint.text()) } else { None })
        .collect()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a test names the kinds that it looks at")]
fn results(message: &Message) -> Vec<(ToolResultState, String)> {
    let result = |block: &ContentBlock| match block {
        ContentBlock::ToolResult(result) => Some((result.state, result.output.text())),
        _ => None,
    };
    message.content.iter().filter_map(result).collect()
}

#[tokio::test(start_paused = true)]
async fn wherever_a_log_was_cut_off_what_was_open_ends_once_and_the_next_prompt_goes_on() {
    let agent = busy();
    let log = Arc::new(MemoryLog::new());
    let session = start(&agent, &log);
    let mut reply = session.prompt("Go.").await.unwrap();
    while let Some(Read::Event(admitted)) = reply.next().await {
        if let EventKind::RequireUserConfirm(ask) = &admitted.event.kind {
            let asker = admitted.event.scope.session(session.id()).clone();
            session.answer(&asker, &ask.tool_calls[0].id, Answer::allow()).unwrap();
        }
    }
    session.prompt("And then?").await.unwrap().finished().await.unwrap();
    session.close().await;
    let whole = all(&*log).await;
    assert!(whole.len() > 60, "{}", whole.len());

    for kept in 0..=whole.len() {
        let log = cut(&whole, kept);
        let session = resume(&agent, &log).await;
        assert_eq!(session.questions(), [], "cut after {kept}");
        assert!(session.tasks().iter().all(|task| task.status != TaskStatus::Running));
        session.with_tree(|tree| {
            assert!(tree.iter().all(|record| record.status != anabranch_session::Status::Running));
        });
        let before = session.messages();
        let run = session.prompt("And now?").await.unwrap().finished().await.unwrap();
        // Each message that says something is read.
        let said = before.iter().filter(|message| !message.content.is_empty()).count();
        assert_eq!(run.text(), format!("{said} messages before"), "cut after {kept}: {:?}", texts(&before));
        session.close().await;
        let after = all(&*log).await;
        assert!(after.iter().zip(&whole[..kept]).all(|(after, before)| after == before));
        let events: Vec<_> = after.iter().map(|admitted| Arc::clone(&admitted.event)).collect();
        assert_well_formed(&events);
        // Readers of the session that went on read all of it, over the seam.
        assert_eq!(events_of(&session, 0).await, after);
        if kept > 3 {
            assert_eq!(events_of(&session, kept as u64 - 2).await, after[kept - 2..]);
        }
    }
}

async fn events_of(session: &Session, after: u64) -> Vec<Admitted> {
    let read = |read| if let Read::Event(admitted) = read { admitted } else { panic!("{read:?}") };
    session.subscribe(after).map(read).collect().await
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answered_is_denied_and_not_refused() {
    let agent = busy();
    let log = Arc::new(MemoryLog::new());
    let session = start(&agent, &log);
    let _reply = session.prompt("Go.").await.unwrap();
    while session.questions().len() < 2 {
        tokio::task::yield_now().await;
    }
    let log = cut(&all(&*log).await, usize::try_from(log.last()).unwrap());
    let asked = log.last();
    let again = resume(&agent, &log).await;
    let closed = all(&*log).await.split_off(usize::try_from(asked).unwrap());
    let denied: Vec<_> = closed
        .iter()
        .filter(|admitted| {
            matches!(&admitted.event.kind, EventKind::ToolResultEnd(end) if end.state == ToolResultState::Denied)
        })
        .map(|admitted| admitted.event.scope.depth())
        .collect();
    assert_eq!(denied, [1, 0]);
    let results = results(again.messages().last().unwrap());
    assert_eq!(results[1], (ToolResultState::Interrupted, "the program that ran this has ended".to_owned()));
    let (state, text) = &results[2];
    assert_eq!(*state, ToolResultState::Denied);
    assert!(text.ends_with("so it was not run; the user has not refused it"), "{text}");
    session.close().await;
}

#[tokio::test]
async fn rules_that_people_gave_hold_after_a_restart() {
    let model = ScriptedModel::from_fn("scripted", |request| match request.turn {
        0 => Turn::new().call("write", json!({ "text": "x" })),
        _ => Turn::new().text(request.last_result_text()),
    });
    let agent =
        Agent::builder("writer", model).tool(write()).permissions(Permissions::new().ask("write")).build();
    let log = Arc::new(MemoryLog::new());
    let session = start(&agent, &log);
    let mut reply = session.prompt("Go.").await.unwrap();
    while let Some(Read::Event(admitted)) = reply.next().await {
        if let EventKind::RequireUserConfirm(ask) = &admitted.event.kind {
            let answer = Answer::allow().remember([PermissionRule::new("write", "allow", "user")]);
            session.answer(session.id(), &ask.tool_calls[0].id, answer).unwrap();
        }
    }
    session.close().await;
    let again = resume(&agent, &log).await;
    // Nobody is there to answer.
    assert_eq!(again.prompt("Again.").await.unwrap().finished().await.unwrap().text(), "wrote x");
}

/// A master that starts a task with "Start.", looks at it with "Look.", and else says what it was told.
fn with_tasks(seconds: u32) -> Agent {
    let worker = ScriptedModel::from_fn("scripted", move |_| {
        Turn::new().text("half").wait(SECOND * seconds).text(" done")
    });
    let spawn = SpawnSubagent::new(Agent::builder("worker", worker).build());
    let model =
        ScriptedModel::from_fn("scripted", |request| match (request.prompt_text().as_str(), request.turn) {
            ("Start.", 0) => {
                Turn::new().call("spawn_subagent", json!({ "task": "work", "background": true }))
            }
            ("Start.", _) => Turn::new().text(request.last_result_text()),
            ("Look.", 0) => Turn::new().call("check_task", json!({ "task_id": "task_1" })),
            _ => {
                // Those of this reply: what was told before is in older messages.
                let hints = hints(&request.messages[request.messages.len() - 1..]);
                Turn::new().text(if hints.is_empty() { "nothing".to_owned() } else { hints.join("|") })
            }
        });
    Agent::builder("master", model).tool(spawn).task_tools().build()
}

async fn say(session: &Session, prompt: &str) -> String {
    session.prompt(prompt).await.unwrap().finished().await.unwrap().text()
}

#[tokio::test(start_paused = true)]
async fn what_a_background_task_came_to_is_told_once_across_a_restart() {
    for (case, expected) in [
        (
            "cut off",
            "The background task `task_1` (worker) has ended: interrupted.\n\nthe program that ran this has ended",
        ),
        ("ended and not told", "The background task `task_1` (worker) has ended: completed.\n\nhalf done"),
        ("told by a hint", "nothing"),
        ("told by a tool", "nothing"),
    ] {
        let agent = with_tasks(5);
        let log = Arc::new(MemoryLog::new());
        let session = start(&agent, &log);
        say(&session, "Start.").await;
        if case != "cut off" {
            tokio::time::sleep(SECOND * 10).await;
        }
        match case {
            "told by a hint" => assert!(say(&session, "Well?").await.contains("half done")),
            "told by a tool" => drop(say(&session, "Look.").await),
            _ => {}
        }
        let log = cut(&all(&*log).await, usize::try_from(log.last()).unwrap());
        session.close().await;
        let session = resume(&agent, &log).await;
        let tasks = session.tasks();
        let outcome = if case == "cut off" { Outcome::Interrupted } else { Outcome::Completed };
        assert_eq!(tasks.len(), 1, "{case}");
        assert_eq!((&*tasks[0].task_id, tasks[0].status), ("task_1", TaskStatus::Ended(outcome)), "{case}");
        let told = say(&session, "Well?").await;
        assert!(told.starts_with(expected), "{case}: {told}");
        assert_eq!(say(&session, "Well?").await, "nothing", "{case}");
        // Names are not given twice.
        assert!(say(&session, "Start.").await.contains("task_2"), "{case}");
        session.close().await;
        // Nor does a second restart tell anything again.
        let session = resume(&agent, &log).await;
        let told = say(&session, "Well?").await;
        assert!(!told.contains("task_1"), "{case}: {told}");
    }
}

#[tokio::test]
async fn limits_count_what_was_spawned_before_a_restart() {
    let spawned = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&spawned);
    let worker = ScriptedModel::from_fn("scripted", move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Turn::new().text("ok")
    });
    let spawn = SpawnSubagent::new(Agent::builder("worker", worker).build());
    let model = ScriptedModel::from_fn("scripted", |request| match request.turn {
        0 => Turn::new().call("spawn_subagent", json!({ "task": "work" })),
        _ => Turn::new().text(request.last_result_text()),
    });
    let agent = Agent::builder("master", model).tool(spawn).limits(Limits::default().max_spawned(2)).build();
    let log = Arc::new(MemoryLog::new());
    for (restart, text) in ["ok", "ok", "2 sub-agents have been spawned"].into_iter().enumerate() {
        let session = resume(&agent, &log).await;
        let said = say(&session, "Go.").await;
        assert!(said.starts_with(text), "{restart}: {said}");
        session.close().await;
    }
    assert_eq!(spawned.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_session_that_does_not_go_on_says_why() {
    let agent = says("agent", "hi");
    let log: Arc<dyn EventLog> = Arc::new(MemoryLog::new());
    let no_id = agent.session_builder().log(log).resume().await;
    assert!(matches!(no_id, Err(ResumeError::NoId)));
    assert!(matches!(agent.session_builder().id("ses").resume().await, Err(ResumeError::NoLog)));
    let log = Arc::new(MemoryLog::with_retention(500));
    let session = start(&agent, &log);
    session.prompt("Go.").await.unwrap().finished().await.unwrap();
    session.close().await;
    let forgotten = agent.session_builder().id("ses_root").log(log).resume().await;
    assert!(matches!(forgotten, Err(ResumeError::Log(RecoverError::Forgotten { .. }))), "{forgotten:?}");
}

#[tokio::test]
async fn a_log_that_another_session_writes_to_ends_the_second() {
    let agent = says("agent", "hi");
    let log = Arc::new(MemoryLog::new());
    let first = start(&agent, &log);
    let second = resume(&agent, &log).await;
    first.prompt("Go.").await.unwrap().finished().await.unwrap();
    // The log has another's events under the numbers that it would give.
    second.prompt("Go.").await.unwrap().finished().await.ok();
    second.close().await;
    let refused = second.prompt("Again.").await;
    assert!(
        matches!(refused, Err(SessionError::LogRefused(AppendError::Conflict { seq: 1 }))),
        "{:?}",
        refused.err()
    );
    first.close().await;
    assert_eq!(events(first.subscribe(0)).await.len() as u64, log.last());
}
