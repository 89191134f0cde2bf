//! One order, at a worker.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{Admitted, ErrorInfo, ErrorType, native};
use anabranch_runtime::{Order, OrderRun};
use async_nats::jetstream::{AckKind, Message, message::PublishMessage};
use bytes::Bytes;
use futures::StreamExt;
use tokio::{sync::watch, time::Instant};

use super::{
    alive::BEATS,
    claim::{Claim, Decision, State, decide, lost},
    names::{Key, Names, Topic},
    parts::{Part, cut},
    queue::{FAILED, NUMBER, PART, Queued},
    tail::Tail,
    worker::{Produced, Shared},
    writer::Writer,
};

/// How long the broker may be away before a worker gives an order back that it has not begun, or a word of its end up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a child has failed whose worker ended.
const SHUT_DOWN: &str = "the worker that ran the sub-agent was shut down, and it is not run again";

/// Why a child has failed whose session went away.
const ORPHANED: &str = "nothing was heard any more of the session that ordered the sub-agent";

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A run that a worker has claimed.
struct Claimed {
    shared: Arc<Shared>,
    key: Key,
    attempts: u32,
    begun: Instant,
    attempt: u32,
    /// Where its claim lies.
    place: u64,
    /// The order, as it was delivered last.
    message: watch::Receiver<Arc<Message>>,
}

/// How a worker is done with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// It has come to its end, or to nothing.
    Ended,
    /// Nobody wants it any more.
    Unwanted,
    /// It is somebody else's now.
    Fenced,
    /// Somebody else is to run it.
    Released,
}

/// Deals with an order that was delivered: claims it, runs it, and acknowledges it when it has ended.
pub(super) async fn take(shared: Arc<Shared>, message: Message) {
    let message = Arc::new(message);
    let queued: Queued = match serde_json::from_slice(&message.payload) {
        Ok(queued) => queued,
        Err(error) => {
            tracing::error!(%error, "an order that cannot be read was dropped");
            message.ack_with(AckKind::Term).await.ok();
            return;
        }
    };
    if let Err(error) = deal(&shared, &message, queued).await {
        // It is delivered again.
        tracing::warn!(%error, "an order was given back, for the broker does not answer");
    }
}

async fn deal(shared: &Arc<Shared>, message: &Arc<Message>, queued: Queued) -> Result<(), AnyError> {
    let Queued { key, attempts, order } = queued;
    let queue = &shared.queue;
    let Some((_running, delivered)) = shared.begin(&key, message) else {
        // It is under way here, and goes on with the delivery that came last.
        return Ok(());
    };
    let last = queue.last_claim(&key).await?;
    let alive = &shared.alive;
    let decision = match decide(last.as_ref(), &shared.id, attempts, |worker| {
        alive.is_lost(worker, alive.since())
    }) {
        // It was ours and is not under way: we came to no end.
        Decision::Mine => match last {
            Some(last) => {
                Decision::Lose { attempt: last.claim.attempt, behind: last.seq, worker: shared.id.clone() }
            }
            None => Decision::Done,
        },
        decision @ (Decision::Run { .. } | Decision::Lose { .. } | Decision::Wait | Decision::Done) => {
            decision
        }
    };
    match decision {
        Decision::Done | Decision::Mine => acknowledge(&delivered).await,
        Decision::Wait => give_back(message, queue.lost_after / 2).await,
        Decision::Lose { attempt, behind, worker } => {
            let state = State::Lost { why: lost(&worker, attempt) };
            let claim = Claim { attempt, worker, state };
            match queue.claim(&key, &claim, Some(behind), PATIENCE).await? {
                Some(_) => acknowledge(&delivered).await,
                None => give_back(message, queue.lost_after / 2).await,
            }
        }
        Decision::Run { attempt, behind } if alive.is_giver_lost(&key.giver, Instant::now()) => {
            let state = State::Lost { why: ORPHANED.to_owned() };
            let claim = Claim { attempt, worker: shared.id.clone(), state };
            queue.claim(&key, &claim, Some(behind), PATIENCE).await?;
            acknowledge(&delivered).await
        }
        Decision::Run { attempt, behind } => {
            let claim = Claim { attempt, worker: shared.id.clone(), state: State::Running };
            let Some(place) = queue.claim(&key, &claim, Some(behind), PATIENCE).await? else {
                return give_back(message, queue.lost_after / 2).await;
            };
            let shared = Arc::clone(shared);
            let begun = Instant::now();
            let claimed = Claimed { shared, key, attempts, begun, attempt, place, message: delivered };
            claimed.run(order.get()).await
        }
    }
}

/// Says that an order is done with, until the broker has heard it.
async fn acknowledge(message: &watch::Receiver<Arc<Message>>) -> Result<(), AnyError> {
    let begun = Instant::now();
    loop {
        let latest = Arc::clone(&message.borrow());
        match latest.double_ack().await {
            Err(error) if begun.elapsed() < PATIENCE => {
                tracing::debug!(%error, "an order was not acknowledged; trying again");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            acknowledged => return acknowledged,
        }
    }
}

async fn give_back(message: &Message, delay: Duration) -> Result<(), AnyError> {
    message.ack_with(AckKind::Nak(Some(delay))).await
}

impl Claimed {
    async fn run(self, order: &str) -> Result<(), AnyError> {
        let mut writer = Writer::new(self.shared.queue.context.clone());
        let done = match self.begin(order).await {
            Ok((run, mut produced)) => self.pump(run, &mut produced, &mut writer).await?,
            Err(error) => {
                self.fail(&error, &mut writer).await;
                while !writer.is_empty() {
                    writer.settle().await?;
                }
                Done::Ended
            }
        };
        match done {
            Done::Ended => acknowledge(&self.message).await,
            Done::Unwanted => {
                acknowledge(&self.message).await?;
                self.shared.queue.purge(&self.key).await
            }
            Done::Fenced => Ok(()),
            Done::Released => {
                let latest = Arc::clone(&self.message.borrow());
                give_back(&latest, Duration::ZERO).await
            }
        }
    }

    async fn begin(&self, order: &str) -> Result<(OrderRun, Produced), ErrorInfo> {
        let setup = |text: String| ErrorInfo::new(ErrorType::SETUP, text);
        let mut order: Order = serde_json::from_str(order)
            .map_err(|error| setup(format!("the worker cannot read the order: {error}")))?;
        order.attempt = self.attempt;
        let agent = self.shared.agent(&order).map_err(setup)?;
        let produced = self.shared.watch(&order);
        let run = order.start(&agent).await.map_err(|error| setup(error.to_string()))?;
        Ok((run, produced))
    }

    /// Sends what the child says, and does what is said to it, until it has ended.
    async fn pump(
        &self,
        mut run: OrderRun,
        produced: &mut Produced,
        writer: &mut Writer,
    ) -> Result<Done, AnyError> {
        let queue = &self.shared.queue;
        let (names, handle) = (&queue.names, run.handle());
        let to_run = names.to_run(&self.key);
        let mut tail = Tail::new(queue.client.clone(), queue.context.clone(), names.runs_stream(), to_run);
        let mut beat = tokio::time::interval(queue.lost_after / BEATS);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut is_over = false;
        while !is_over || !writer.is_empty() {
            tokio::select! {
                item = run.next(), if !is_over && writer.has_room() => match item {
                    Some(Ok(event)) => {
                        produced(&event);
                        self.send(&event, writer).await;
                    }
                    Some(Err(error)) => self.fail(&error, writer).await,
                    None => is_over = true,
                },
                settled = writer.settle(), if !writer.is_empty() => settled?,
                message = tail.next() => match self.heard(&message) {
                    Heard::Instruction(instruction) => handle.follow(instruction),
                    Heard::Done(done) => return Ok(done),
                    Heard::Nothing => {}
                },
                _ = beat.tick() => {
                    let latest = Arc::clone(&self.message.borrow());
                    // Who cannot be heard now is heard the next time.
                    latest.ack_with(AckKind::Progress).await.ok();
                    if self.shared.alive.is_giver_lost(&self.key.giver, self.begun) {
                        return self.give_up(ORPHANED).await;
                    }
                }
                () = self.shared.released.cancelled(), if !is_over => return self.release().await,
            }
        }
        Ok(Done::Ended)
    }

    fn heard(&self, message: &Message) -> Heard {
        match Names::topic(&message.subject) {
            Topic::Say => match serde_json::from_slice(&message.payload) {
                Ok(instruction) => Heard::Instruction(instruction),
                Err(error) => {
                    tracing::warn!(%error, "an instruction that cannot be read was dropped");
                    Heard::Nothing
                }
            },
            Topic::Claim => {
                let is_later = message.info().is_ok_and(|info| info.stream_sequence > self.place);
                if !is_later {
                    return Heard::Nothing;
                }
                match serde_json::from_slice(&message.payload) {
                    Ok(Claim { state: State::Ended | State::Lost { .. }, .. }) => Heard::Done(Done::Unwanted),
                    Ok(Claim { state: State::Running | State::Released { .. }, .. }) | Err(_) => {
                        Heard::Done(Done::Fenced)
                    }
                }
            }
            Topic::Event(_) | Topic::Other => Heard::Nothing,
        }
    }

    /// Nobody runs the child any more, and nobody is to.
    async fn give_up(&self, why: &str) -> Result<Done, AnyError> {
        let state = State::Lost { why: why.to_owned() };
        let claim = Claim { attempt: self.attempt, worker: self.shared.id.clone(), state };
        let stored = self.shared.queue.claim(&self.key, &claim, Some(self.place), PATIENCE).await?;
        Ok(if stored.is_some() { Done::Ended } else { Done::Fenced })
    }

    /// The worker ends before the child: somebody else runs it, or nobody.
    async fn release(&self) -> Result<Done, AnyError> {
        if self.attempt >= self.attempts {
            return self.give_up(SHUT_DOWN).await;
        }
        let state = State::Released { why: "its worker was shut down".to_owned() };
        let claim = Claim { attempt: self.attempt, worker: self.shared.id.clone(), state };
        let stored = self.shared.queue.claim(&self.key, &claim, Some(self.place), PATIENCE).await?;
        Ok(if stored.is_some() { Done::Released } else { Done::Fenced })
    }

    async fn send(&self, event: &Admitted, writer: &mut Writer) {
        let text = match native::to_string(&event.event) {
            Ok(text) => Bytes::from(text),
            Err(error) => {
                let text = format!("an event has no spelling: {error}");
                return self.fail(&ErrorInfo::new(ErrorType::INTERNAL, text), writer).await;
            }
        };
        let bytes = text.len();
        let Some(parts) = cut(&text, self.shared.queue.room()) else {
            let text = format!("an event has {bytes} bytes, which is more than is carried");
            return self.fail(&ErrorInfo::new(ErrorType::INVALID_REQUEST, text), writer).await;
        };
        for (part, bytes) in parts {
            let Part { index, of } = part;
            let id = format!("{}:{}.{index}", self.id(), event.seq);
            let mut message = PublishMessage::build().message_id(id).header(NUMBER, event.seq.to_string());
            if of > 1 {
                message = message.header(PART, part.to_header());
            }
            let length = bytes.len();
            writer.send(self.subject(), message.payload(bytes), length).await;
        }
    }

    /// Says why there is no more to be said.
    async fn fail(&self, error: &ErrorInfo, writer: &mut Writer) {
        let payload = serde_json::to_vec(error).unwrap_or_default();
        let (id, bytes) = (format!("{}:failed", self.id()), payload.len());
        let message = PublishMessage::build().message_id(id).header(FAILED, "1").payload(payload.into());
        writer.send(self.subject(), message, bytes).await;
    }

    fn subject(&self) -> String {
        self.shared.queue.names.events(&self.key, self.attempt)
    }

    fn id(&self) -> String {
        format!("{}.{}.{}", self.key.session_id, self.key.run, self.attempt)
    }
}

/// What a message says to whoever runs a child.
enum Heard {
    Instruction(anabranch_runtime::Instruction),
    Done(Done),
    Nothing,
}
