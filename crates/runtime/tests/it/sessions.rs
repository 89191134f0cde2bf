//! Sessions: prompts in turn, the log, the seam.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use anabranch_proto::{EventKind, Outcome, Role};
use anabranch_runtime::{Agent, Model, ModelItem, ModelRequest, ModelStream, ScriptedModel, Turn};
use anabranch_session::{EventLog, MemoryLog};
use futures::stream;

use crate::support::{events, master, node, says};

#[tokio::test]
async fn a_prompt_waits_for_the_one_before_and_sees_its_answer() {
    let model = ScriptedModel::from_fn("scripted", |request| {
        let said: Vec<_> = request.messages.iter().map(|message| (message.role, message.text())).collect();
        Turn::new().text(format!("{} {}", said.len(), request.prompt_text()))
    });
    let session = Agent::builder("agent", model).build().session();
    let first = session.prompt("one").await.unwrap();
    let second = session.prompt("two").await.unwrap();
    assert_eq!(second.finished().await.unwrap().text(), "3 two");
    assert_eq!(first.finished().await.unwrap().text(), "1 one", "a reply can be read late");
    let messages = session.messages();
    let said: Vec<_> = messages.iter().map(|message| (message.role, message.text())).collect();
    assert_eq!(
        said,
        [
            (Role::User, "one".to_owned()),
            (Role::Assistant, "1 one".to_owned()),
            (Role::User, "two".to_owned()),
            (Role::Assistant, "3 two".to_owned()),
        ]
    );
}

#[tokio::test]
async fn numbers_go_on_over_runs_and_each_reply_has_its_own_part() {
    let session = says("agent", "hi").session();
    let first = events(session.prompt("one").await.unwrap()).await;
    let second = events(session.prompt("two").await.unwrap()).await;
    session.close().await;
    let all = events(session.subscribe(0)).await;
    assert_eq!(all.len(), first.len() + second.len());
    assert_eq!(all, [first, second].concat());
    for after in 0..=all.len() {
        let rest = events(session.subscribe(u64::try_from(after).unwrap())).await;
        assert_eq!(rest, all[after..], "neither repeated nor skipped after {after}");
    }
}

#[tokio::test]
async fn the_log_has_the_spawn_under_the_parent_before_the_childs_first_event() {
    let log = Arc::new(MemoryLog::new());
    let shared: Arc<dyn EventLog> = Arc::clone(&log) as _;
    let agent = master(says("worker", "done"), vec![node("a", "n1"), node("b", "n2")]);
    let session = agent.session_builder().log(shared).id("ses_mine").start().unwrap();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    let starts = log.spawn_starts(session.id());
    assert_eq!(starts.len(), 2);
    for start in starts {
        let EventKind::SpawnSessionStart(spawn) = &start.event.kind else { panic!("a spawn") };
        assert_eq!(spawn.parent_session_id.as_str(), "ses_mine");
        let first = seen
            .iter()
            .position(|event| {
                event.scope.child().is_some_and(|child| child.child_session_id == spawn.child_session_id)
            })
            .unwrap();
        assert!(start.seq <= u64::try_from(first).unwrap());
    }
}

#[tokio::test]
async fn the_session_ends_when_nobody_can_prompt_it_any_more() {
    let session = says("agent", "hi").session();
    let reader = session.subscribe(0);
    let reply = session.prompt("Go.").await.unwrap();
    drop(session);
    assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Completed, "what was asked is answered");
    assert!(!events(reader).await.is_empty(), "and then its readers end");
}

/// A model that waits for a moment before each piece, and has the next by then.
struct Halting;

impl Model for Halting {
    fn name(&self) -> &'static str {
        "halting"
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        let (mut left, mut has_paused) = (6_400, false);
        Box::pin(stream::poll_fn(move |cx| {
            has_paused = !has_paused;
            if has_paused {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            left -= 1;
            Poll::Ready((left > 0).then(|| Ok(ModelItem::Text("x".to_owned()))))
        }))
    }
}

#[tokio::test]
async fn a_child_that_is_never_quite_at_rest_leaves_others_their_turns() {
    let session = Agent::builder("halting", Halting).build().session();
    let turns = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counter.fetch_add(1, Ordering::SeqCst);
            // To the end of the line; `yield_now` would wait until nobody stands in it.
            let mut has_waited = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut has_waited, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    });
    let finished = session.prompt("Go.").await.unwrap().finished().await.unwrap();
    assert_eq!(finished.text().len(), 6_399);
    other.abort();
    let turns = turns.load(Ordering::SeqCst);
    assert!(turns >= 100, "{turns} turns while 6,400 events came");
}
