//! A log that gives events to readers later than it takes them, and one that has no room for a while.

use std::sync::Arc;

use anabranch_proto::{Admitted, EventKind, Outcome};
use anabranch_runtime::{Agent, Read, ScriptedModel, Turn};
use anabranch_session::{AppendError, Batch, EventLog, LogError, MemoryLog};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use tokio::{sync::watch, task::yield_now};

use crate::support::says;

/// Readers see what was let out, and more is appended while there is room.
#[derive(Debug)]
struct Slow {
    log: MemoryLog,
    /// Up to which number, where not all.
    shown: Option<watch::Sender<u64>>,
    room: watch::Sender<bool>,
}

impl Slow {
    fn holding() -> Arc<Self> {
        Arc::new(Self {
            log: MemoryLog::new(),
            shown: Some(watch::Sender::new(0)),
            room: watch::Sender::new(true),
        })
    }

    fn without_room() -> Arc<Self> {
        Arc::new(Self { log: MemoryLog::new(), shown: None, room: watch::Sender::new(false) })
    }

    fn show_all(&self) {
        if let Some(shown) = &self.shown {
            shown.send_replace(self.taken());
        }
    }

    fn taken(&self) -> u64 {
        *self.log.appended().borrow()
    }

    /// Waits until a session on a current-thread runtime is at rest.
    async fn at_rest(&self) -> u64 {
        let mut taken = 0;
        for _ in 0..1_000 {
            yield_now().await;
            taken = self.taken();
        }
        taken
    }
}

impl EventLog for Slow {
    fn append(&self, batch: &[Admitted]) -> Result<(), AppendError> {
        self.log.append(batch)
    }

    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>> {
        let upto = *self.appended().borrow();
        let shown = move |batch| match batch {
            Batch::Events(mut events) => {
                events.retain(|admitted| admitted.seq <= upto);
                Batch::Events(events)
            }
            gap @ Batch::Gap { .. } => gap,
        };
        self.log.read(after, max).map(move |read| read.map(shown)).boxed()
    }

    fn appended(&self) -> watch::Receiver<u64> {
        self.shown.as_ref().map_or_else(|| self.log.appended(), watch::Sender::subscribe)
    }

    fn room(&self) -> Option<BoxFuture<'_, ()>> {
        let mut room = self.room.subscribe();
        let has_room = *room.borrow_and_update();
        let wait = async move {
            room.wait_for(|has_room| *has_room).await.ok();
        };
        (!has_room).then(|| wait.boxed())
    }
}

#[tokio::test]
async fn readers_end_when_they_have_had_what_the_log_held_back() {
    let log = Slow::holding();
    let session = says("agent", "hi").session_builder().log(Arc::clone(&log) as _).start().unwrap();
    let first = session.prompt("Go.").await.unwrap();
    assert!(log.at_rest().await > 0);
    session.close().await;
    let mut reader = session.subscribe(0);
    assert!(reader.next().now_or_never().is_none(), "the session has ended, and its events are to come");
    let mut first = Box::pin(first.finished());
    assert!(first.as_mut().now_or_never().is_none());
    log.show_all();
    assert!(first.await.is_ok());
    let numbers: Vec<_> =
        reader.map(|read| if let Read::Event(admitted) = read { admitted.seq } else { 0 }).collect().await;
    assert_eq!(numbers, (1..=log.taken()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reply_begins_with_its_own_prompt_while_the_last_replys_end_is_held_back() {
    let log = Slow::holding();
    let session = says("agent", "hi").session_builder().log(Arc::clone(&log) as _).start().unwrap();
    let first = session.prompt("Go.").await.unwrap();
    let mut second = session.prompt("And?").await.unwrap();
    assert!(log.at_rest().await > 0);
    assert!(second.next().now_or_never().is_none());
    session.close().await;
    log.show_all();
    assert!(first.finished().await.is_ok());
    let Some(Read::Event(begin)) = second.next().await else { panic!("a second reply begins") };
    assert!(matches!(begin.event.kind, EventKind::UserMessage(_)), "{:?}", begin.event);
}

fn talker() -> Agent {
    let model =
        ScriptedModel::from_fn("scripted", |_| (0..10_000).fold(Turn::new(), |turn, _| turn.text("word ")));
    Agent::builder("agent", model).build()
}

#[tokio::test]
async fn a_log_without_room_holds_the_run_until_it_has() {
    let log = Slow::without_room();
    let session = talker().session_builder().log(Arc::clone(&log) as _).start().unwrap();
    let reply = session.prompt("Go.").await.unwrap();
    let taken = log.at_rest().await;
    assert!((1..=64).contains(&taken), "{taken} events were appended without room");
    log.room.send_replace(true);
    assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Completed);
    assert!(log.taken() > 10_000);
}

#[tokio::test]
async fn a_run_that_waits_for_a_log_to_have_room_can_be_cancelled_and_the_session_closed() {
    let log = Slow::without_room();
    let session = talker().session_builder().log(Arc::clone(&log) as _).start().unwrap();
    let reply = session.prompt("Go.").await.unwrap();
    assert!(log.at_rest().await > 0);
    reply.cancel();
    assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Interrupted);
    let reply = session.prompt("Again.").await.unwrap();
    log.at_rest().await;
    session.close().await;
    assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Interrupted);
    assert!(log.taken() < 200);
}
