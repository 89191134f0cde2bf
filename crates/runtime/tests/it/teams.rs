//! Teams, children that code spawns, and children on tasks of their own.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{Event, EventKind, Outcome, SourceType, SpawnMechanism, ToolResultState};
use anabranch_runtime::{
    Agent, Limits, ModelError, Read, ScriptedModel, Session, SpawnError, SpawnSubagent, Team, Turn,
};
use futures::StreamExt;
use serde_json::json;

use crate::support::{
    assert_well_formed, events_as_they_are, kind, master, node, of_child, outline, own, reply_events, says,
};

const SECOND: Duration = Duration::from_secs(1);

fn member(name: &str, answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Agent {
    let model = ScriptedModel::from_fn("scripted", move |request| {
        Turn::new().wait(SECOND).text(answer(&request.prompt_text()))
    });
    Agent::builder(name, model).build()
}

fn fails(name: &str) -> Agent {
    let error = ModelError::new(anabranch_proto::ErrorType::UPSTREAM, "out of order");
    Agent::builder(name, ScriptedModel::from_fn("scripted", move |_| Turn::new().fail(error.clone()))).build()
}

/// A master that has a team work, and repeats what it came to.
fn with_team(team: Team) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("team", json!({ "task": "Look." })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    Agent::builder("master", model).tool(SpawnSubagent::team(team).as_tool("team", "A team.")).build()
}

fn spawns(events: &[Arc<Event>]) -> Vec<(String, SourceType, SpawnMechanism, u32)> {
    kind(events, |kind| {
        if let EventKind::SpawnSessionStart(spawn) = kind {
            Some((spawn.source_name.to_string(), spawn.source_type, spawn.spawn_mechanism, spawn.depth))
        } else {
            None
        }
    })
}

#[tokio::test(start_paused = true)]
async fn the_members_of_a_parallel_team_work_side_by_side_below_the_team() {
    let team = Team::parallel("reviewers")
        .member(member("security", |_| "No holes.".to_owned()))
        .member(member("style", |task| format!("Fine: {task}")));
    let session = with_team(team).session();
    let start = tokio::time::Instant::now();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(start.elapsed(), SECOND, "both at once");
    assert_eq!(
        spawns(&events),
        [
            ("reviewers".to_owned(), SourceType::TeamParallel, SpawnMechanism::Sync, 1),
            ("security".to_owned(), SourceType::Agent, SpawnMechanism::Sync, 2),
            ("style".to_owned(), SourceType::Agent, SpawnMechanism::Sync, 2),
        ]
    );
    let text = "security:\nNo holes.\n\nstyle:\nFine: Look.";
    assert_eq!(session.messages().last().unwrap().text(), text);
    assert_eq!(session.children_running(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_member_of_a_sequential_team_has_what_the_one_before_came_to() {
    let team = Team::sequential("chain")
        .member(member("draft", |_| "A draft.".to_owned()))
        .member(member("edit", |task| task.replace('\n', " ")));
    let session = with_team(team).session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(spawns(&events)[0].1, SourceType::TeamSequential);
    let lines = outline(&events);
    let at = |line: &str| lines.iter().position(|known| known == line).unwrap();
    assert!(at("draft STREAM_COMPLETE") < at("edit USER_MESSAGE"));
    let text = session.messages().last().unwrap().text();
    assert!(text.starts_with("Look.") && text.ends_with("A draft."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_fails_stops_no_sibling_and_the_team_says_so() {
    let team =
        Team::parallel("reviewers").member(fails("broken")).member(member("style", |_| "Fine.".to_owned()));
    let session = with_team(team).session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    let state =
        kind(
            own(&events),
            |kind| {
                if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None }
            },
        );
    assert_eq!(state, [ToolResultState::Error]);
    assert_eq!(
        session.messages().last().unwrap().text(),
        "1 of 2 members did not complete: `broken`\n\nBefore that, the sub-agent said:\n\
         broken (did not complete):\nout of order\n\nstyle:\nFine."
    );
}

#[tokio::test(start_paused = true)]
async fn a_sequence_ends_with_the_first_member_that_does_not_complete() {
    let team = Team::sequential("chain")
        .member(member("draft", |_| "A draft.".to_owned()))
        .member(fails("broken"))
        .member(member("never", |_| "Never.".to_owned()));
    let session = with_team(team).session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    assert_eq!(spawns(&events).len(), 3, "the team and two members");
    let text = session.messages().last().unwrap().text();
    assert!(text.contains("draft:\nA draft.") && text.contains("never: has not begun."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_team_that_is_stopped_keeps_what_its_members_have_done() {
    let hangs = ScriptedModel::from_fn("scripted", |_| Turn::new().text("so far").hang());
    let team = Team::parallel("mixed")
        .member(member("quick", |_| "Done.".to_owned()))
        .member(Agent::builder("hangs", hangs).build());
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("team", json!({ "task": "Look.", "timeout": 5 })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let agent = Agent::builder("master", model).tool(SpawnSubagent::team(team).as_tool("team", "")).build();
    let session = agent.session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    let text = session.messages().last().unwrap().text();
    assert_eq!(text, "timed out after 5 s\n\nBefore that, the sub-agent said:\nquick:\nDone.");
    let ends = kind(of_child(&events, "hangs"), |kind| {
        if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None }
    });
    assert_eq!(ends, [Outcome::Failed], "what was open beneath a time-out has failed");
    assert_eq!(session.children_running(), 0);
}

#[tokio::test]
async fn a_member_beyond_a_limit_is_a_member_that_did_not_complete() {
    let team = Team::parallel("deep").member(says("one", "1")).member(says("two", "2"));
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("team", json!({ "task": "Look." })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    for (limits, text) in [
        (Limits::default().max_depth(1), "2 of 2 members did not complete: `one`, `two`"),
        (Limits::default().max_running(2), "1 of 2 members did not complete: `two`"),
        (Limits::default().max_spawned(2), "1 of 2 members did not complete: `two`"),
    ] {
        let agent = Agent::builder("master", model.clone())
            .tool(SpawnSubagent::team(team.clone()).as_tool("team", ""))
            .limits(limits)
            .build();
        let finished = agent.reply_stream("Go.").finished().await.unwrap();
        assert!(finished.text().starts_with(text), "{}", finished.text());
    }
}

async fn whole(session: &Session) -> Vec<Arc<Event>> {
    session.close().await;
    let events = events_as_they_are(session.subscribe(0)).await;
    assert_well_formed(&events);
    events
}

#[tokio::test(start_paused = true)]
async fn code_spawns_a_child_between_two_replies_and_reads_what_it_came_to() {
    let session = says("master", "Yes.").session();
    let child = session.spawn(&member("worker", |task| format!("did {task}")), "this").await.unwrap();
    let id = child.session_id().clone();
    // A reply that comes and goes meanwhile does not end it.
    session.prompt("Are you there?").await.unwrap().finished().await.unwrap();
    let result = child.finished().await.unwrap();
    assert_eq!((result.outcome, &*result.text()), (Outcome::Completed, "did this"));
    assert_eq!(session.children_running(), 0);
    let events = whole(&session).await;
    assert_eq!(spawns(&events)[0].2, SpawnMechanism::Manual);
    let outcome = session.with_tree(|tree| tree.get(&id).unwrap().status);
    assert_eq!(outcome, anabranch_session::Status::Ended(Outcome::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_code_spawns_during_a_reply_ends_before_it() {
    let model =
        ScriptedModel::new("scripted").turn(|_| Turn::new().text("thinking").wait(SECOND).text("done"));
    let session = Agent::builder("master", model).build().session();
    let mut reply = session.prompt("Go.").await.unwrap();
    let first = reply.next().await.unwrap();
    let slow = ScriptedModel::new("scripted").turn(|_| Turn::new().wait(SECOND * 9).text("slow"));
    let child = session.spawn(&Agent::builder("slow", slow).build(), "Go.").await.unwrap();
    let mut events = events_as_they_are(reply).await;
    let Read::Event(first) = first else { panic!("a gap") };
    events.insert(0, first.event);
    assert_well_formed(&events);
    assert_eq!(child.finished().await.unwrap().text(), "slow");
    let ends: Vec<_> =
        outline(&events).into_iter().filter(|line| line.ends_with("STREAM_COMPLETE")).collect();
    assert_eq!(ends, ["slow STREAM_COMPLETE", ". STREAM_COMPLETE"]);
    whole(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_of_codes_is_stopped_by_its_handle_by_a_cancel_and_by_the_sessions_end() {
    let hangs =
        || Agent::builder("hangs", ScriptedModel::from_fn("scripted", |_| Turn::new().hang())).build();
    let session = says("master", "Yes.").session();
    let child = session.spawn(&hangs(), "Go.").await.unwrap();
    // It runs once its announcement has entered the stream.
    while child.cancel().is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(child.finished().await.unwrap().outcome, Outcome::Interrupted);
    let child = session.spawn(&hangs(), "Go.").await.unwrap();
    let events = whole(&session).await;
    child.finished().await.unwrap_err();
    let ends =
        kind(
            &events,
            |kind| if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None },
        );
    assert_eq!(ends, [Outcome::Interrupted; 2]);
    assert_eq!(session.spawn(&hangs(), "Go.").await.unwrap_err(), SpawnError::Stopping);
    assert_eq!(session.children_running(), 0);
}

/// A master whose children each run on a task of their own.
fn on_own_tasks(worker: Agent, calls: Vec<serde_json::Value>) -> Agent {
    let spawn = SpawnSubagent::new(worker).named_by(|args| args.metadata_str("node_id")).on_own_tasks();
    crate::support::master_with(spawn, calls)
}

#[tokio::test]
async fn a_child_on_its_own_task_says_what_it_would_say_in_its_parents() {
    let worker = || {
        let model = ScriptedModel::from_fn("scripted", |_| {
            (0..100).fold(Turn::new(), |turn, index| turn.text(format!("{index} ")))
        });
        Agent::builder("worker", model).build()
    };
    let calls = || vec![node("a", "n1"), node("b", "n2")];
    let inside = reply_events(master(worker(), calls()).reply_stream("Go.")).await;
    let outside = reply_events(on_own_tasks(worker(), calls()).reply_stream("Go.")).await;
    for name in ["n1", "n2"] {
        let of = |events: &[Arc<Event>]| outline(&of_child(events, name).cloned().collect::<Vec<_>>());
        assert_eq!(of(&inside), of(&outside));
    }
    assert_eq!(spawns(&inside), spawns(&outside));
    let text = |events: &[Arc<Event>]| {
        kind(own(events), |kind| {
            if let EventKind::TextBlockDelta(delta) = kind { Some(delta.delta.clone()) } else { None }
        })
        .concat()
    };
    assert_eq!(text(&inside), text(&outside));
}

#[tokio::test(start_paused = true)]
async fn children_on_their_own_tasks_are_gone_when_the_cancelled_reply_has_ended() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let hangs = Agent::builder("hangs", ScriptedModel::from_fn("scripted", |_| Turn::new().text("x").hang()));
    let session = on_own_tasks(hangs.build(), vec![node("a", "n1"), node("b", "n2")]).session();
    let reply = session.prompt("Go.").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(alive(), before + 3);
    reply.cancel();
    let events = reply_events(reply).await;
    assert_eq!(alive(), before + 1);
    let ends =
        kind(
            &events,
            |kind| if let EventKind::StreamComplete(end) = kind { Some(end.outcome) } else { None },
        );
    assert_eq!(ends, [Outcome::Interrupted; 3]);
    assert_eq!(session.children_running(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_on_their_own_tasks_use_other_threads_and_lose_nothing() {
    let model = ScriptedModel::from_fn("scripted", |_| {
        (0..500).fold(Turn::new(), |turn, index| turn.text(format!("{index} ")))
    });
    let worker = Agent::builder("worker", model).build();
    let calls = (0..16).map(|index| node("a", &format!("n{index}"))).collect();
    let session = on_own_tasks(worker, calls).session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    let expected = (0..500).map(|index| format!("{index} ")).collect::<Vec<_>>().concat();
    for index in 0..16 {
        let name = format!("n{index}");
        let text = kind(of_child(&events, &name), |kind| {
            if let EventKind::TextBlockDelta(delta) = kind { Some(&*delta.delta) } else { None }
        });
        assert_eq!(text.concat(), expected);
    }
}
