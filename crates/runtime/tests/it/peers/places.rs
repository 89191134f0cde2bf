//! However a child came to be and however it ended: its place is free, its task is gone, its end is said once.

use std::time::Duration;

use anabranch_proto::{ErrorType, EventKind, Outcome};
use anabranch_runtime::{Agent, Limits, ModelError, Read, ScriptedModel, SpawnSubagent, Team, Turn};
use futures::StreamExt;
use serde_json::json;

use super::{announced, terminals};
use crate::support::{Nothing, events, says};

/// How a child comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Background,
    OwnTask,
    Team,
    TeamOnOwnTask,
    Code,
}

/// What ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Itself,
    Error,
    Panic,
    PanicInTool,
    TimeOut,
    Cancel,
    CancelOfReply,
    Drop,
}

const CAUSES: [Cause; 8] = [
    Cause::Itself,
    Cause::Error,
    Cause::Panic,
    Cause::PanicInTool,
    Cause::TimeOut,
    Cause::Cancel,
    Cause::CancelOfReply,
    Cause::Drop,
];

fn worker(cause: Cause) -> Agent {
    let turn = match cause {
        Cause::Itself => Turn::new().text("done"),
        Cause::Error => Turn::new().fail(ModelError::new(ErrorType::UPSTREAM, "away")),
        Cause::Panic => Turn::new().text("so far").panic("at sea"),
        Cause::PanicInTool => Turn::new().call("panics", json!({})),
        Cause::TimeOut | Cause::Cancel | Cause::CancelOfReply | Cause::Drop => {
            Turn::new().text("so far").hang()
        }
    };
    let model = ScriptedModel::from_fn("scripted", move |request| match request.turn {
        0 => turn.clone(),
        _ => Turn::new().text("done"),
    });
    let panics = anabranch_pipeline::FunctionTool::new("panics", "", |_: Nothing, _| async {
        Ok::<_, String>(std::hint::black_box(None::<&str>).expect("at sea"))
    });
    Agent::builder("worker", model).tool(panics).build()
}

/// A master that has one child of this kind, then thinks for a minute.
fn master(way: Way, cause: Cause) -> Agent {
    let call = json!({ "task": "x", "background": way == Way::Background, "timeout": 5 });
    let worker = worker(cause);
    let spawn = match way {
        Way::Background | Way::Code => SpawnSubagent::new(worker),
        Way::OwnTask => SpawnSubagent::new(worker).on_own_tasks(),
        Way::Team => SpawnSubagent::team(Team::parallel("team").member(worker)),
        Way::TeamOnOwnTask => SpawnSubagent::team(Team::parallel("team").member(worker)).on_own_tasks(),
    };
    let model =
        ScriptedModel::from_fn("scripted", move |request| match (&*request.prompt_text(), request.turn) {
            ("Go.", 0) if way != Way::Code => Turn::new().call("spawn_subagent", &call),
            ("Go.", _) => Turn::new().wait(Duration::from_secs(60)).text("I have thought."),
            ("And?", 0) => Turn::new().call("echo", json!({ "task": "x" })),
            _ => Turn::new().text("end"),
        });
    let places = if matches!(way, Way::Team | Way::TeamOnOwnTask) { 2 } else { 1 };
    Agent::builder("master", model)
        .tool(spawn)
        .tool(SpawnSubagent::new(says("after", "hi")).as_tool("echo", ""))
        .limits(Limits::default().max_running(places))
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_and_no_task_is_left() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for way in [Way::Background, Way::OwnTask, Way::Team, Way::TeamOnOwnTask, Way::Code] {
        for cause in CAUSES {
            if (way, cause) == (Way::Code, Cause::TimeOut) {
                // Code that spawns has its own clock.
                continue;
            }
            let before = alive();
            let session = master(way, cause).session();
            let (mut watch, reader) = (session.subscribe(0), session.subscribe(0));
            let reply = session.prompt("Go.").await.unwrap().cancel_on_drop();
            if way == Way::Code {
                assert!(watch.next().await.is_some());
                session.spawn(&worker(cause), "x").await.unwrap();
            }
            let child = loop {
                let Some(Read::Event(admitted)) = watch.next().await else { panic!("it has a child") };
                if matches!(admitted.event.kind, EventKind::ModelCallStart(_))
                    && let Some(child) = admitted.event.scope.child()
                {
                    break child.child_session_id.clone();
                }
            };
            match cause {
                Cause::Cancel => session.cancel_session(&child).unwrap(),
                Cause::CancelOfReply => session.cancel(),
                Cause::Drop => drop(reply),
                Cause::Itself | Cause::Error | Cause::Panic | Cause::PanicInTool | Cause::TimeOut => {}
            }
            tokio::time::sleep(Duration::from_secs(6)).await;
            assert_eq!(session.children_running(), 0, "{way:?} {cause:?}");
            assert_eq!(alive(), before + 1, "{way:?} {cause:?}: the session alone");
            session.prompt("And?").await.unwrap().finished().await.unwrap();
            session.close().await;
            let seen = events(reader).await;
            let expected = match cause {
                Cause::Itself | Cause::PanicInTool => Outcome::Completed,
                Cause::Error | Cause::Panic => Outcome::Failed,
                // What is open beneath a team whose time is over has failed.
                Cause::TimeOut if matches!(way, Way::Team | Way::TeamOnOwnTask) => Outcome::Failed,
                Cause::TimeOut => Outcome::TimedOut,
                Cause::Cancel | Cause::CancelOfReply | Cause::Drop => Outcome::Interrupted,
            };
            let ends: Vec<_> = terminals(&seen).into_iter().filter(|(name, _)| *name != ".").collect();
            assert_eq!(ends[0], ("worker", expected), "{way:?} {cause:?}");
            assert_eq!(ends.last(), Some(&("after", Outcome::Completed)), "{way:?} {cause:?}: there is room");
            assert_eq!(ends.len(), announced(&seen), "{way:?} {cause:?}: each ends once");
        }
    }
}
