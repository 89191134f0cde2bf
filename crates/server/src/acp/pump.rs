//! The pump of a session: its events become updates, and its prompts are answered behind them.

use std::time::Duration;

use agent_client_protocol::{
    Error,
    v1::schema::{PromptResponse, StopReason},
};
use anabranch_adapters::{
    Adapter as _,
    acp::{Acp, Message, prompt_answer},
    coalesce::Coalesce,
};
use anabranch_proto::{Event, EventKind, Scope, Stamp as _};
use anabranch_runtime::{Read, Reader, SystemStamp};
use futures::StreamExt as _;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{flow::Flow, sessions::Root, writer::Outgoing};

/// How often what is held back is looked at.
const TICK: Duration = Duration::from_millis(50);

/// After how many ticks without an event nothing is held back any more: twice what a card waits.
const QUIET: u32 = 10;

/// How many events are taken at once, where so many are at hand.
const BATCH: usize = 64;

/// What goes with the session's updates.
pub(super) struct Pump {
    root: Root,
    adapter: Coalesce<Acp>,
    mailbox: mpsc::Sender<Outgoing>,
    flow: Flow,
    stamp: SystemStamp,
    /// Made by the adapter and not sent.
    ready: Vec<Message>,
}

/// The connection is gone.
struct Gone;

impl Pump {
    pub(super) fn new(root: Root, adapter: Acp, mailbox: mpsc::Sender<Outgoing>, flow: Flow) -> Self {
        let adapter = Coalesce::new(adapter);
        Self { root, adapter, mailbox, flow, stamp: SystemStamp::new(), ready: Vec::new() }
    }

    /// Goes on until the session has ended or the connection is gone.
    pub(super) async fn run(mut self, reader: Reader) {
        if let Ok(why) = self.pump(reader).await {
            let Self { adapter, ready, .. } = &mut self;
            adapter.finish(&mut |message| ready.push(message));
            if self.send().await.is_ok() {
                self.answer(Err(broken_off(why))).await.ok();
            }
        }
        // Nobody would hear of what it does from now on.
        self.root.session.close().await;
    }

    /// Gives why there is no more.
    async fn pump(&mut self, reader: Reader) -> Result<&'static str, Gone> {
        let mut batches = reader.ready_chunks(BATCH);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet = QUIET;
        loop {
            tokio::select! {
                batch = batches.next() => {
                    let Some(batch) = batch else { return Ok("the session has ended") };
                    quiet = 0;
                    for read in batch {
                        match read {
                            Read::Event(admitted) => self.event(&admitted.event).await?,
                            // The end of the turn may be among what is missing, and nothing would tell of it.
                            Read::Gap { .. } => return Ok("the client read so slowly that events were forgotten"),
                        }
                    }
                }
                _ = ticks.tick(), if quiet < QUIET => {
                    quiet += 1;
                    let Self { adapter, ready, stamp, .. } = self;
                    adapter.tick(stamp.now(), &mut |message| ready.push(message));
                    self.send().await?;
                }
            }
        }
    }

    async fn event(&mut self, event: &Event) -> Result<(), Gone> {
        let Self { adapter, ready, .. } = self;
        adapter.event(event, &mut |message| ready.push(message));
        self.send().await?;
        if event.scope == Scope::Root
            && let EventKind::StreamComplete(complete) = &event.kind
        {
            self.answer(prompt_answer(complete).map_err(Error::from)).await?;
        }
        Ok(())
    }

    /// Waits for room for each: so a slow client holds the session back.
    async fn send(&mut self) -> Result<(), Gone> {
        for message in self.ready.drain(..) {
            let outgoing = match message {
                Message::Update(update) => {
                    let room = tokio::select! {
                        room = self.flow.room(&update) => room,
                        () = self.mailbox.closed() => return Err(Gone),
                    };
                    Outgoing::Update(Box::new(update), room)
                }
                Message::Permission(permission) => {
                    Outgoing::Permission(self.root.session.clone(), Box::new(permission))
                }
                // Another kind of message is none that this agent asked for.
                _ => continue,
            };
            self.mailbox.send(outgoing).await.map_err(|_| Gone)?;
        }
        Ok(())
    }

    async fn answer(&mut self, answer: Result<StopReason, Error>) -> Result<(), Gone> {
        let Some(turn) = self.root.end() else { return Ok(()) };
        let answer = Outgoing::Answer(turn, answer.map(PromptResponse::new));
        self.mailbox.send(answer).await.map_err(|_| Gone)
    }
}

/// The answer to a prompt whose session ended before its run did.
fn broken_off(why: &str) -> Error {
    let mut error = Error::internal_error();
    why.clone_into(&mut error.message);
    error
}
